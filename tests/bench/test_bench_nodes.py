"""Looking at some nodes of a large cloud: small ones, and figures worked out by hand."""

import attrs
import pytest

from kubedsm.model.model import Node, NodeName, Resources, Tier, Workload
from kubedsm.optimizer.placing.decision import Binding
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.nodes.contenders import Decided, Instance, Ours, Searches, run
from kubedsm_lab.bench.nodes.result import PERCENTAGES, Round
from support.printed import printed

_GI = 2**30


@pytest.fixture(scope="module")
def found():
    progress = []
    result = run((99, 160), 15, 1, lambda: progress.append(1))
    assert len(progress) == 2 * 8
    return result


def side_of(result, *key):
    return next(s for s in result.sides if (s.nodes, s.policy, s.percentage) == key)


def test_a_round_by_hand():
    """Two pods on the first of two nodes, of 4 cores and 8 GiB; a third finds none."""
    nodes = [
        Node(
            NodeName(f"n{at}"),
            {"topology.kubernetes.io/zone": f"z{at}"},
            Resources(4000, 8 * _GI, 110),
            tier=Tier.CLOUD,
        )
        for at in range(2)
    ]
    requests = Resources(1000, _GI, 1)
    pods = [instances.pod(f"p{at}", Workload("a", "Job", "w"), requests) for at in range(3)]
    before = instances.snapshot(nodes, pods, {n.name: n.allocatable for n in nodes})
    searches = Searches.of_nodes(2)
    searches.add(1, 2)
    searches.add(1, 1)
    made = Decided([Binding(p, nodes[0].name, Tier.CLOUD) for p in pods[:2]], searches, 6.0)
    # LeastAllocated (75 + 87) // 2 = 81, then (50 + 75) // 2 = 62; BalancedAllocation 100 to 93
    # (.25 and .125), 50 + (50 - 7) // 2 = 71, then 93 to 87 (.5 and .25), 50 + (50 - 6) // 2 = 72
    score = (81 + 71 + 62 + 72) / 2
    assert made.summarize(before, 3) == Round(2.0, score, 1, 0.5, 1.0, 0.5, 1.0, 1.5, 1, 2)


def test_no_pod_waits_and_each_node_has_its_turn(found):
    for side in found.sides:
        assert side.medians["pending"] == 0
        assert side.is_fair, side
    for policy, searches in (("kubedsm", 1), ("kube-scheduler", 15)):
        few, everything = (side_of(found, 160, policy, p).medians for p in (10, 100))
        # 100 nodes that take a pod, of 120 that do and 40 that are full
        assert 100 < few["looked_at"] < 140
        assert everything["looked_at"] == 160
        assert everything["least"] == everything["most"] == searches
        # Of a small cloud all nodes are looked at, whatever the percentage.
        sides = [side_of(found, 99, policy, percentage) for percentage in PERCENTAGES]
        rounds = [[attrs.evolve(each, ms=0.0) for each in side.rounds] for side in sides]
        assert rounds == [rounds[0]] * len(PERCENTAGES)
        assert sides[0].medians["looked_at"] == 99


def test_the_next_batch_goes_on_where_the_last_one_stopped():
    instance = Instance(160, 15, 0)
    pods = instance.pending_pods()
    searches = Ours(10, batch=5).decide(instance.build_mirror(), pods, 0).searches
    assert len(searches.lengths) == 3
    assert searches.counts.max() - searches.counts.min() == 1


def test_what_is_said_of_it(found):
    assert found.lost_score(side_of(found, 160, "kubedsm", 100)) == 0
    report = found.report()
    said = report.figures
    assert [side["nodes"] for side in said["sides"]] == [99] * 8 + [160] * 8
    assert said["publishedCiFloor"]["podsPerSecond"] == [680, 810]
    text = printed(report.rendered, 200)
    for title in ("Who is ahead", "Time", "Quality", "Fairness"):
        assert f"\n{title}\n" in text
    assert "kube-scheduler's CI floor, published" in text

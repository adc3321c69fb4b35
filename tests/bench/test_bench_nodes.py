"""Looking at some nodes of a large cloud: small ones, and figures worked out by hand."""

import math

import pytest

from kubedsm.model.model import Node, NodeName, Resources, Tier, Workload
from kubedsm.optimizer.placing.decision import Binding
from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm.optimizer.programming.programme import Solved, Status
from kubedsm.solvers.process import SolverProcess
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.nodes.contenders import Instance, Ours
from kubedsm_lab.bench.nodes.contenders import run as run_nodes
from kubedsm_lab.bench.nodes.result import PERCENTAGES, Searches, summarize_round
from kubedsm_lab.bench.report import DisagreementError
from kubedsm_lab.bench.scale import pairs
from kubedsm_lab.bench.scale.pairs import compare, fit_growth, run
from kubedsm_lab.bench.scale.running import LAG, lag_between
from kubedsm_lab.bench.scale.world import Batch, Size, build_mirror, without_aggregates
from support.printed import printed

_GI = 2**30


@pytest.fixture(scope="module")
def found():
    progress = []
    result = run_nodes((99, 160), 15, 1, lambda: progress.append(1))
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
    made = [Binding(p, nodes[0].name, Tier.CLOUD) for p in pods[:2]]
    # LeastAllocated (75 + 87) // 2 = 81, then (50 + 75) // 2 = 62; BalancedAllocation 100 to 93
    # (.25 and .125), 50 + (50 - 7) // 2 = 71, then 93 to 87 (.5 and .25), 50 + (50 - 6) // 2 = 72
    score = (81 + 71 + 62 + 72) / 2
    evenness = {"jain": 0.5, "cv": 1.0, "zones_jain": 0.5, "zones_cv": 1.0}
    looks = {"looked_at": 1.5, "least": 1, "most": 2}
    assert summarize_round(before, made, searches, 0.006) == {
        "ms": 2.0,
        "score": score,
        "pending": 1,
        **evenness,
        **looks,
    }


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
        rounds = [[{**each, "ms": 0.0} for each in side.rounds] for side in sides]
        assert rounds == [rounds[0]] * len(PERCENTAGES)
        assert sides[0].medians["looked_at"] == 99


def test_the_next_batch_goes_on_where_the_last_one_stopped():
    instance = Instance(160, 15, 0)
    pods = instance.pending_pods()
    figures = Ours(10, batch=5).decide(instance.build_mirror(), pods, 0)
    # Three searches go around twice, and begin again.
    assert (figures["least"], figures["most"]) == (2, 3)
    assert 2 * 160 < 3 * figures["looked_at"] < 3 * 160


@pytest.mark.long
def test_a_size_is_read_decided_and_suggested_by_both_sides():
    shown = run(Size(8, 40), rounds=1, suggestions=1, seconds=0).figures
    assert (shown["nodes"], shown["pods"], shown["running"]) == (8, 40, None)
    assert len({each["what"] for each in shown["paired"]}) == 23
    assert all(each["ms"] > 0 and each["ratio"] > 0 for each in shown["paired"])
    report = run(Size(8, 501), rounds=1, suggestions=0, seconds=0)
    assert report.figures["paired"][1]["besideSampled"] == [500, 501]
    assert "extrapolated from 500 of 501 pods" in printed(report.rendered, 200)


def test_a_solver_has_all_its_work_on_a_busy_machine(monkeypatch):
    asked = []

    def solve(_, request, __):
        asked.append((request.seconds, request.effort))
        return Solved(Status.UNKNOWN)

    monkeypatch.setattr(pairs, "BATCHES", (Batch(200, 8),))
    monkeypatch.setattr(SolverProcess, "solve", solve)
    run(Size(4, 20), rounds=1, suggestions=0, seconds=0)
    assert {seconds > 600 and effort <= 2 for seconds, effort in asked} == {True}


def test_growth_is_the_exponent_of_cost_by_nodes():
    sizes = [
        {"nodes": n, "paired": [{"what": "a", "ms": 0.5 * n**1.5}, {"what": "b", "ms": 3.0}]}
        for n in (100, 1000, 5000)
    ]
    sizes[0]["paired"].append({"what": "only of small clusters", "ms": 1.0})
    assert fit_growth(sizes).figures == {"exponents": {"a": 1.5, "b": 0.0}}


def test_the_cluster_is_of_the_size_and_the_batch_of_the_classes_asked_for():
    known = build_mirror(Size(8, 40))
    known.check_invariants()
    seen = known.snapshot()
    assert (len(seen.nodes), len(seen.pods)) == (8, 40)
    waiting = Batch(200, 3).pending_pods()
    assert len({pod.pod_class for pod in waiting}) == 3
    assert rank_pods(waiting, 0.0, 60.0) == {}


def test_nothing_that_was_kept_along_is_left_in_what_is_rebuilt():
    seen = build_mirror(Size(8, 40)).snapshot()
    anew = without_aggregates(seen)
    assert anew == seen
    assert (anew.census, anew.census.shares) == (seen.census, seen.census.shares)
    for kept in ("census", "index", "room"):
        assert getattr(anew, kept) is not getattr(seen, kept)


def test_sides_that_come_to_different_things_are_not_compared():
    answers = iter(range(10))
    with pytest.raises(DisagreementError, match="odd"):
        compare("odd", 1, lambda: next(answers), lambda: next(answers))


def scrape(*counts):
    """How many looks were late by at most 1 ms, 50 ms, and at all."""
    of = zip(("0.001", "0.05", "+Inf"), counts, strict=True)
    lines = [f'{LAG}_bucket{{le="{bound}"}} {count}' for bound, count in of]
    return "\n".join([f"# TYPE {LAG} histogram", *lines, ""])


def test_lag_is_that_of_the_samples_between_two_scrapes():
    lag = lag_between(scrape(0, 500, 1000), scrape(600, 1499, 2000))
    assert lag == {"looks": 1000, "p50": 0.001, "p99": 0.05, "p99.9": 0.05, "max": math.inf}
    lag = lag_between(scrape(0, 0, 7), scrape(3, 4, 11))
    assert lag == {"looks": 4, "p50": 0.001, "p99": 0.05, "p99.9": 0.05, "max": 0.05}

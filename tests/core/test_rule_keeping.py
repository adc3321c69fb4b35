"""Batches keep the rules that pods have about each other."""

import os

import attrs
import pytest
from literal_rules import literal_rule
from rule_instances import app, cluster, drawn, evenly, near, pod, zoned

from kubedsm.core.immediate import immediate_schedule
from kubedsm.core.model import HostPort, Tier
from kubedsm.core.objective import Objective, Promise

#: in the suite; KUBEDSM_RULE_BATCHES=100000 makes the long form
BATCHES = int(os.environ.get("KUBEDSM_RULE_BATCHES", "1000"))


def scheduled(snapshot, pods):
    return immediate_schedule(snapshot, pods, lambda _: Promise(), Objective())


def waiting_in(nodes, pods, *others):
    snapshot = cluster(nodes, [*others, *pods])
    return scheduled(snapshot, pods)


def nodes_of(decision):
    return sorted(binding.node for binding in decision.bindings)


def test_pods_that_keep_away_from_each_other_get_a_node_each():
    apart = near(app("a"), key="kubernetes.io/hostname")
    pods = [pod(f"p{n}", {"app": "a"}, anti_affinity=(apart,)) for n in range(3)]
    decision = waiting_in([zoned("e1"), zoned("e2")], pods)
    assert nodes_of(decision) == ["e1", "e2"]
    [refused] = decision.unplaced.values()
    assert all("anti-affinity" in reasons[0] for reasons in refused.values())
    assert not decision.proven


def test_two_pods_cannot_have_one_port_of_a_node():
    pods = [pod(f"p{n}", ports=(HostPort(80, "TCP", "0.0.0.0"),)) for n in range(2)]  # noqa: S104
    decision = waiting_in([zoned("e1")], pods)
    assert nodes_of(decision) == ["e1"]
    assert len(decision.unplaced) == 1


def test_a_spread_sends_a_pod_to_the_cloud_though_the_edge_has_room():
    zones = [zoned("e1", "x"), zoned("c1", "y", tier=Tier.CLOUD)]
    pods = [pod(f"p{n}", {"app": "a"}, spread=(evenly(app("a")),)) for n in range(4)]
    assert nodes_of(waiting_in(zones, pods)) == ["c1", "c1", "e1", "e1"]


def test_the_words_for_a_pod_that_others_refuse_name_the_rule():
    apart = near(app("a"), key="kubernetes.io/hostname")
    there = pod("there", {"app": "b"}, on="e1", anti_affinity=(apart,))
    decision = waiting_in([zoned("e1")], [pod("p", {"app": "a"})], there)
    [refused] = decision.unplaced.values()
    assert "anti-affinity" in refused["e1"][0]


@pytest.mark.parametrize("tenth", range(10))
def test_no_batch_breaks_a_rule(tenth):
    for seed in range(tenth * BATCHES // 10, (tenth + 1) * BATCHES // 10):
        snapshot, waiting = drawn(seed)
        decision = scheduled(snapshot, waiting)
        for binding in decision.bindings:
            assert literal_rule(snapshot, binding.pod, snapshot.nodes[binding.node]) is None, seed
            snapshot = attrs.evolve(
                snapshot,
                placed={**snapshot.placed, binding.pod.uid: binding.node},
                free={
                    **snapshot.free,
                    binding.node: snapshot.free[binding.node] - binding.pod.requests,
                },
            )
        placed = {binding.pod.uid for binding in decision.bindings}
        assert placed | decision.unplaced.keys() == {p.uid for p in waiting}

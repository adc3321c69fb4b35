"""Batches keep the rules that pods have about each other."""

import os
import subprocess
import sys

import attrs
import pytest

from kubedsm.model.model import NodeName, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.decision import Binding, Choice
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.placing.rule_keeping import keep_rules
from kubedsm.optimizer.programming.in_order import NO_PROOF
from kubedsm.plugins.feasibility import Feasibility
from support import drawing
from support.placement_instances import batch_of, resources
from support.placement_instances import drawn as plain_instance
from support.placement_literal import is_allowed_in_turn, is_sound
from support.rule_instances import app, cluster, drawn, drawn_batch, near, pod, zoned

#: in the suite; KUBEDSM_RULE_BATCHES=100000 makes the long form
BATCHES = int(os.environ.get("KUBEDSM_RULE_BATCHES", "2500"))


def scheduled(snapshot, pods, bounds=None):
    return immediate_schedule(snapshot, pods, lambda _: QosTarget(), Objective(), bounds=bounds)


@pytest.mark.parametrize(
    ("target", "chosen"), [(QosTarget(), "e1"), (QosTarget(0), "e1"), (QosTarget(most=0), "c3")]
)
def test_one_that_cannot_be_where_it_was_planned_goes_by_what_it_gains_at_the_edge(target, chosen):
    """It joins fewer replicas there."""
    apart = near(app("a"))
    cloud = [zoned(f"c{n}", zone, tier=Tier.CLOUD) for n, zone in ((1, "x"), (2, "x"), (3, "y"))]
    pods = [pod(f"p{n}", {"app": "a"}, anti_affinity=(apart,)) for n in range(2)]
    pods = [attrs.evolve(each, workload=pods[1].workload) for each in pods]
    old = attrs.evolve(pod("old", {"app": "old"}, on="c3"), workload=pods[1].workload)
    shot = cluster([zoned("e1", "e"), *cloud], [*pods, old])
    batch = attrs.evolve(
        batch_of(shot, pods, lambda _: target), spread=ReplicaSpread.of(shot, {pods[1].workload})
    )
    planned = tuple(zip(pods, map(NodeName, ("c1", "c2")), strict=True))
    kept = keep_rules(batch, Feasibility.of(shot), Choice(planned, NO_PROOF))
    assert {node for _, node in kept.placed} == {"c1", chosen}


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(states=2)])
def test_no_batch_breaks_a_rule_and_nobody_stays_out_for_one_of_lower_priority(bounds):
    """Each placed pod is allowed as it comes, and mostly with all the others in place."""
    unsound = batches = left_out = 0
    for seed in drawing.drawn(range(BATCHES), one_in=22):
        snapshot, waiting = drawn(seed) if seed % 4 == 0 else drawn_batch(seed)
        decision = scheduled(snapshot, waiting, bounds)
        bindings = decision.bindings
        assert all(snapshot.nodes[b.node].tier is b.tier for b in bindings)
        assert is_allowed_in_turn(snapshot, bindings), seed
        if not is_sound(snapshot, bindings):
            assert not decision.proof.whole, seed
            unsound += 1
        batches += 1
        placed = {binding.pod.uid for binding in bindings}
        assert placed | decision.unplaced.keys() == {p.uid for p in waiting}
        for out in (p for p in waiting if p.uid not in placed):
            assert decision.unplaced[out.uid].keys() == snapshot.nodes.keys(), seed
            priority = out.pod_class.priority
            before = [b for b in bindings if b.pod.pod_class.priority >= priority]
            if len(before) == len(bindings) or not is_sound(snapshot, before):
                continue  # no pod is lower, or these need some of the lower ones
            left_out += 1
            for node in snapshot.nodes.values():
                if node.tier is not None:
                    there = Binding(out, node.name, node.tier)
                    assert not is_sound(snapshot, [*before, there]), seed
    assert unsound <= batches / 20
    assert left_out > 8


@pytest.mark.parametrize("bounds", [Bounds(), Bounds(states=2)])
def test_the_order_of_the_input_changes_nothing(bounds):
    for seed in drawing.drawn(range(160), one_in=6):
        plain = plain_instance(seed, most=10)
        snapshot, waiting = drawn_batch(seed) if seed % 2 else (plain.snapshot, plain.batch)
        turned = attrs.evolve(
            snapshot,
            nodes=dict(reversed(snapshot.nodes.items())),
            pods=dict(reversed(snapshot.pods.items())),
            free=dict(reversed(snapshot.free.items())),
            placed=dict(reversed(snapshot.placed.items())),
        )
        decision = scheduled(snapshot, waiting, bounds)
        assert scheduled(turned, waiting[::-1], bounds) == decision, seed
        assert scheduled(turned, waiting[::-1], bounds).bindings == decision.bindings, seed


_PRINT = """
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.placing.immediate import immediate_schedule
from support.placement_instances import drawn
from support.rule_instances import drawn_batch
for seed in range(20):
    plain = drawn(seed, most=10)
    for shot, batch in ((plain.snapshot, plain.batch), drawn_batch(seed)):
        decision = immediate_schedule(shot, batch, lambda _: QosTarget(), Objective())
        print([(b.pod.name, b.node) for b in decision.bindings], decision.unplaced)
"""


def test_the_seed_of_hashing_changes_nothing():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == 40


def test_a_group_goes_to_the_domain_that_holds_all_of_it():
    """Though nine others are larger, and full."""
    together = near(app("a"), key="kubernetes.io/hostname")
    pods = [pod(f"p{n}", {"app": "a"}, affinity=(together,)) for n in range(4)]
    large = [zoned(f"e{n}", cpu=16) for n in range(9)]
    there = [pod(f"old{n}", on=f"e{n}", requests=resources(14, 1)) for n in range(9)]
    last = zoned("last", tier=Tier.CLOUD, cpu=5)
    decision = scheduled(cluster([*large, last], [*there, *pods]), pods)
    assert [binding.node for binding in decision.bindings] == ["last"] * 4

"""Where the edge is slower for a workload, nothing brings more of it there."""

import attrs
import pytest

from kubedsm.model.measured import Measured
from kubedsm.model.model import SchedulingRules, Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.suggest import suggest
from kubedsm.optimizer.moving.suggestion import Cause, MoveKind, SuggestLimits
from kubedsm.optimizer.placing.immediate import immediate_schedule
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import Highs
from support import drawing
from support.placement_instances import node, pod, resources, snapshot
from support.suggest_instances import crowded_case, running

SSD = SchedulingRules(node_selector=(("disk", "ssd"),))
NONE = Bounds(states=0, steps=0, loads=0)
POLICY = KubeDSM(lambda _: QosTarget(), Objective())


@pytest.mark.parametrize("bounds", [Bounds(), NONE], ids=["tables", "beyond"])
@pytest.mark.parametrize("number", [1, 4])
def test_it_comes_to_a_crowded_cloud_rather_than_to_an_empty_edge(number, bounds):
    """Though on the edge it would join no replica; and where the cloud is full it comes there."""
    nodes = [node("e1", Tier.EDGE, 9, 64), node("e2", Tier.EDGE, 9, 64)]
    pods = [running(f"old-{at}", "web", resources(1), on="c1") for at in range(3)]
    pods.append(running("edge", "web", resources(1), on="e1"))
    batch = [pod(f"new-{at}", "web", resources(1)) for at in range(number)]
    for room, expected in ((9, 0), (4, number - 1)):
        shot = snapshot([*nodes, node("c1", Tier.CLOUD, room, 64)], [*pods, *batch])
        measured = Measured(1.0, slower=frozenset({pods[0].workload}))
        shot = attrs.evolve(shot, measured=measured)
        qos_targets = POLICY.qos_targets_in(shot)
        decision = immediate_schedule(shot, batch, qos_targets, POLICY.objective, bounds=bounds)
        assert len(decision.bindings) == number
        assert sum(b.tier is Tier.EDGE for b in decision.bindings) == expected


def test_no_move_brings_it_to_the_edge_and_it_is_said_why():
    seen = 0
    for seed in drawing.drawn(range(40)):
        case = crowded_case(seed, roomy=True)
        limits = attrs.evolve(case.limits, spread=False)
        args = case.objective, limits
        free = suggest(case.snapshot, case.qos_targets, *args)
        fetched = {m.pod.workload for m in free.moves if m.kind is MoveKind.CLOUD_TO_EDGE}
        if not fetched:
            continue
        shot = attrs.evolve(case.snapshot, measured=Measured(1.0, slower=frozenset({min(fetched)})))
        policy = KubeDSM(case.qos_targets, case.objective, limits)
        found = policy.suggest(shot, lambda _: None)
        assert found.after.qos >= found.before.qos
        to_edge = {m.pod.workload for m in found.moves if m.kind is MoveKind.CLOUD_TO_EDGE}
        assert min(fetched) not in to_edge
        said = {left.why.cause for left in found.rejected if left.pod.workload == min(fetched)}
        assert said <= {Cause.EDGE_SLOWER}
        seen += bool(said)
    assert seen >= 2


def two_tiers(*pods, cloud=2):
    nodes = [node("e1", Tier.EDGE, 4, 64), node("c1", Tier.CLOUD, cloud, 64)]
    shot = snapshot(nodes, [*pods])
    slower = frozenset({pods[0].workload})
    return attrs.evolve(shot, measured=Measured(1.0, slower=slower))


def test_no_pod_of_it_takes_the_place_of_another_at_the_edge():
    """A large one could leave, and a small one come, to free capacity for more beside it."""
    shot = two_tiers(
        running("web-0", "web", resources(4), on="e1"),
        running("web-1", "web", resources(1), on="c1"),
        running("api-0", "api", resources(1), on="c1"),
        cloud=9,
    )
    policy = attrs.evolve(
        POLICY, qos_targets=lambda w: QosTarget(weight=9 if w.name == "api" else 1)
    )
    found = policy.suggest(shot, lambda _: None)
    assert {move.pod.name for move in found.moves} == {"web-0", "api-0"}


def tight(cloud, *pods):
    """Cloud nodes of so much memory and an edge node of 2 GiB; the disk is on the first."""
    nodes = [node(f"c{at}", Tier.CLOUD, 4, size) for at, size in enumerate(cloud)]
    nodes[0] = attrs.evolve(nodes[0], labels={"disk": "ssd"})
    return snapshot([node("e0", Tier.EDGE, 4, 2), *nodes], [*pods])


def test_its_replicas_in_the_cloud_are_spread_there():
    nodes = [node("e1", Tier.EDGE, 4, 64), *(node(f"c{n}", Tier.CLOUD, 4, 64) for n in (1, 2))]
    pods = [running(f"web-{n}", "web", resources(1), on="c1") for n in range(2)]
    measured = Measured(1.0, slower=frozenset({pods[0].workload}))
    shot = attrs.evolve(snapshot(nodes, pods), measured=measured)
    policy = attrs.evolve(POLICY, limits=SuggestLimits(spread=True))
    found = policy.suggest(shot, lambda _: None)
    assert [(move.source, move.target) for move in found.moves] == [("c1", "c2")]


STUCK = pod("stuck", "stuck", resources(1, 3), rules=SSD)


def test_room_is_made_for_others_without_it():
    """There would be room if it went to the edge; as it may not, there is none."""
    web = running("web", "web", resources(1, 2), on="c0")
    shot = tight([4], web, STUCK)
    assert [move.pod.name for move in POLICY.pack_pods(shot, lambda _: None).moves] == ["web"]
    measured = Measured(1.0, slower=frozenset({web.workload}))
    assert not POLICY.pack_pods(attrs.evolve(shot, measured=measured), lambda _: None).moves


def test_one_that_waits_is_packed_into_the_cloud():
    db, web = running("db", "db", resources(1, 2), on="c0"), pod("web", "web", resources(1, 2))
    shot = tight([4, 2, 2], db, web, STUCK)
    shot = attrs.evolve(shot, measured=Measured(1.0, slower=frozenset({web.workload})))
    policy = attrs.evolve(
        POLICY, solver=Highs(), qos_targets=lambda w: QosTarget(weight=float(w.name == "web"))
    )
    found = policy.pack_pods(shot, lambda _: None)
    assert {move.pod.name: move.target[0] for move in found.awaited} == {"stuck": "c", "web": "c"}
    assert found.proven


def test_one_that_waits_is_told_the_same():
    """The cloud is full, and what is at the edge could make room for it there."""
    full = running("db-0", "db", resources(2), on="c1")
    edge = running("db-1", "db", resources(4), on="e1")
    waiting = pod("web-0", "web", resources(1))
    found = POLICY.suggest(two_tiers(waiting, full, edge), lambda _: None)
    assert (waiting, Cause.EDGE_SLOWER) in [(left.pod, left.why.cause) for left in found.rejected]

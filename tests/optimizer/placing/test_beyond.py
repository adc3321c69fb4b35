"""What is chosen beyond the bounds, against the tables, which then have bounds that suffice."""

import random

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Fragmentation
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import PlacementProblem, group_kinds
from kubedsm.optimizer.placing.batch_mip import PLACED, QOS, upper_bounds
from kubedsm.optimizer.placing.cloud import CloudRoom
from kubedsm.optimizer.placing.decision import make_decision
from kubedsm.optimizer.placing.split import list_demands
from kubedsm.solvers.available import Highs
from support import drawing
from support.drawn_problems import OBJECTIVES, drawn_batch, worth_of
from support.placement_instances import drawn, node, pod, resources, snapshot

NONE = Bounds(states=0, steps=0, loads=0)


def drawn_slow(seed, most=8):
    """Draw a batch of workloads of which some are slower at the edge."""
    case = drawn(seed, most).served_slowly(random.Random(seed))
    rows = [case.snapshot.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD)]
    kinds = group_kinds(case.batch, rows[0] + rows[1])
    return case, *(PlacementProblem.of(kinds, of_tier) for of_tier in rows)


def decided(seed, objective, bounds, draw=drawn_batch):
    """The choice, and what it is worth."""
    case, edge, cloud = draw(seed)
    args = case.snapshot.census.shares, case.qos_targets, objective
    choice = make_decision(edge, CloudRoom.of(cloud, bounds), *args, Fragmentation(), bounds)
    return choice, worth_of(edge, cloud, choice, list_demands(edge, *args))


@pytest.mark.parametrize("draw", [drawn_batch, drawn_slow])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.kind}-{o.beta}-{o.gamma}")
def test_a_solver_with_time_enough_finds_what_is_best_and_proves_it(objective, draw):
    for seed in drawing.drawn(range(OBJECTIVES.index(objective), 160, len(OBJECTIVES))):
        choice, (placed, worth, liked) = decided(
            seed, objective, attrs.evolve(NONE, solver=Highs()), draw
        )
        _, (most, best, liked_most) = decided(seed, objective, Bounds(), draw)
        assert (choice.proven, choice.certificates) == (True, ())
        assert placed == most
        # What differs by less than unevenness counts for is rounding.
        assert abs(worth - best) <= 2**12
        *_, cloud = draw(seed)
        if CloudRoom.of(cloud, Bounds()).endless:
            assert liked == liked_most


def test_pods_stay_where_the_solver_places_them_if_spreading_them_leaves_one_out():
    """3 + 3 and 2 + 2 + 2 fill two nodes of 6 cores; least allocation begins with 3 on each."""
    nodes = [node(name, Tier.CLOUD, cpu=6) for name in ("c1", "c2")]
    pods = [pod(f"p{at}", "web", resources(cpu)) for at, cpu in enumerate((3, 3, 2, 2, 2))]
    case = snapshot(nodes, pods)
    edge, cloud = (case.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD))
    kinds = group_kinds(pods, edge + cloud)
    bounds = attrs.evolve(NONE, solver=Highs())
    room = CloudRoom.of(PlacementProblem.of(kinds, cloud), bounds)
    choice = make_decision(
        PlacementProblem.of(kinds, edge),
        room,
        case.census.shares,
        lambda _: QosTarget(),
        Objective(),
        Fragmentation(),
        bounds,
    )
    assert len(choice.targets) == 5


@pytest.mark.parametrize(("draw", "share"), [(drawn_batch, 0.995), (drawn_slow, 0.98)])
def test_without_a_solver_it_is_nearly_as_good_and_never_said_to_be_better(draw, share):
    placed = most = unproven = 0
    for seed in drawing.drawn(range(200)):
        objective = OBJECTIVES[seed % len(OBJECTIVES)]
        choice, worth = decided(seed, objective, NONE, draw)
        _, best = decided(seed, objective, Bounds(), draw)
        assert worth[0] <= best[0]
        if choice.proof.placed:
            assert worth[0] == best[0]
            assert not choice.proof.qos or best[1] - worth[1] <= 2**24
        assert all(c.bound > c.value for c in choice.certificates)
        unproven += not choice.proven
        placed += sum(worth[0])
        most += sum(best[0])
    assert unproven >= 15
    assert placed >= share * most


@pytest.mark.parametrize("draw", [drawn_batch, drawn_slow])
def test_no_choice_exceeds_the_bounds_of_the_relaxation(draw):
    tight = 0
    for seed in drawing.drawn(range(120)):
        case, edge, cloud = draw(seed)
        objective = OBJECTIVES[seed % len(OBJECTIVES)]
        members = list_demands(edge, case.snapshot.census.shares, case.qos_targets, objective)
        limits = upper_bounds(edge, cloud, members, objective)
        choice, (placed, _, _) = decided(seed, objective, Bounds(), draw)
        of_turns = [n for (name, _), n in limits.items() if name == PLACED]
        assert all(n <= most for n, most in zip(placed, of_turns, strict=True))
        names = {node.name for node in edge.nodes}
        on_edge = [pod.workload for pod, name in choice.targets if name in names]
        gained = 0
        for member in members:
            scores = member.scores(objective)
            gained += int(scores[on_edge.count(member.workload)] - scores[0])
        assert gained <= limits.get((QOS, "priority 0"), 0) + len(members)
        tight += gained > 0 and gained == limits[QOS, "priority 0"]
    assert tight >= 3


class Unwanted:
    """Solver that must not be called."""

    name = "unwanted"

    def maximise(self, *_, **__):
        raise AssertionError("a solver was called")


def test_a_batch_that_finds_room_for_all_at_the_edge_needs_no_solver():
    """Every workload has its greatest QoS, and thereby the only evenness of that QoS."""
    with_room, bounds = 0, attrs.evolve(NONE, solver=Unwanted())
    for seed in drawing.drawn(range(300)):
        case = drawn(seed, 9)
        tiers = [case.snapshot.in_turn(tier) for tier in (Tier.EDGE, Tier.CLOUD)]
        kinds = group_kinds(case.batch, tiers[0] + tiers[1])
        edge, cloud = (PlacementProblem.of(kinds, rows) for rows in tiers)
        args = case.snapshot.census.shares, case.qos_targets, OBJECTIVES[0], Fragmentation()
        first = make_decision(edge, CloudRoom.of(cloud, NONE), *args, NONE)
        if {name for _, name in first.targets} <= {node.name for node in edge.nodes} and (
            len(first.targets) == len(case.batch)
        ):
            with_room += 1
            choice = make_decision(edge, CloudRoom.of(cloud, bounds), *args, bounds)
            assert choice.proof.preferences
    assert with_room >= 5

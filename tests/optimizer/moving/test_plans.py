"""Plans: targets that no migrations within the limits of a suggestion reach, group by group."""

import itertools

import attrs
import pytest

from kubedsm.model.model import Tier
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.moving.suggestion import MoveKind, SuggestLimits
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.solvers.available import Highs
from kubedsm_lab.bench.solve.instances import crowded
from kubedsm_lab.bench.solve.run import carry_out
from support.literal_moves import carried_out
from support.placement_instances import node, resources, snapshot
from support.suggest_instances import drawn_case, running

SOLVER = Highs(nodes=300, effort=0.3)
GAMMA = Objective(gamma=10.0)
#: Eight of x in the cloud, to be on the edge all together, and ten of y on a full edge.
LIMITS = SuggestLimits(price=17.0)


def together():
    nodes = [node("e1", Tier.EDGE, 10, 64), node("c1", Tier.CLOUD, 64, 64)]
    pods = [running(f"y-{n}", "y", resources(1), "e1", created=float(n)) for n in range(10)]
    pods += [running(f"x-{n}", "x", resources(1), "c1", created=float(n)) for n in range(8)]
    return snapshot(nodes, pods)


def policy(limits=LIMITS, solver=SOLVER):
    targets = {"x": QosTarget(1.0), "y": QosTarget(0.9)}
    return KubeDSM(lambda w: targets[w.name], GAMMA, limits, solver=solver)


def follow(shot, by, carry=carried_out, rounds=40, **more):
    """Carry out suggestions and plans until there are none: each suggestion, and the end."""
    made, towards = [], {}
    for _ in range(rounds):
        found = by.suggest(shot, lambda _: None, towards=towards, **more)
        if not found.moves:
            return made, shot
        made.append(found)
        shot = carry(shot, found)
        towards = {move.pod.uid: move.target for move in found.rest}
    raise AssertionError("no end")


def edge_pods(shot):
    return {workload.name: share.edge for workload, share in shot.census.shares.items()}


def gained(made):
    return sum(found.after.qos - found.before.qos for found in made)


def test_a_target_beyond_the_limits_is_reached_group_by_group():
    by = attrs.evolve(policy(), qos_targets=lambda w: QosTarget(1.0, 5.0 if w.name == "x" else 0.1))
    shot = together()
    alone = by.suggest(shot, lambda _: None)
    made, after = follow(shot, by)
    assert edge_pods(after)["x"] == 8
    assert gained(made) > gained([alone])
    for found in made:
        kinds = [move.kind for move in found.moves]
        assert len(kinds) <= LIMITS.max_moves
        assert kinds.count(MoveKind.CLOUD_TO_EDGE) <= LIMITS.max_cloud_to_edge


def expensive():
    """In 30 s, each pod of x gains less than its price, and all eight together gain much."""
    targets = {"x": QosTarget(1.0), "y": QosTarget(0.0)}
    objective = Objective(beta=0.0, gamma=10.0)
    return KubeDSM(lambda w: targets[w.name], objective, LIMITS, solver=SOLVER)


def step(by, shot, seconds=30.0, **more):
    return by.suggest(shot, lambda _: None, lasting=lambda _: seconds, **more)


def test_the_first_group_of_a_plan_says_that_it_belongs_to_one():
    shot = together()
    found = step(expensive(), shot, towards={})
    assert found.rest
    assert {move.plan for move in found.moves} == {len(found.moves) + len(found.rest)}
    assert all("of a plan of 16" in move.purpose for move in found.moves)
    assert not found.proven
    assert step(expensive(), shot).moves == ()


def test_a_plan_that_does_not_pay_as_a_whole_is_not_begun():
    shot = together()
    short = step(expensive(), shot, 0.5, towards={})
    assert not short.moves
    assert step(expensive(), shot, towards={}).moves
    for price in (1e6, 17.0):
        by = attrs.evolve(expensive(), limits=attrs.evolve(LIMITS, price=price))
        assert bool(step(by, shot, towards={}).moves) == (price < 1e6)


FORBIDDEN = {
    "max_cloud_to_edge": MoveKind.CLOUD_TO_EDGE,
    "max_edge_reorder": MoveKind.EDGE_TO_EDGE,
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_a_plan_does_not_use_a_kind_of_migration_that_is_forbidden(kind):
    shot = together()
    by = attrs.evolve(expensive(), limits=attrs.evolve(LIMITS, **{kind: 0}))
    made, _ = follow(shot, by)
    moves = [move for found in made for move in found.moves]
    assert not any(move.kind is FORBIDDEN[kind] for move in moves)


def test_a_plan_is_dropped_if_its_pods_or_nodes_are_gone_or_it_no_longer_pays():
    shot, by = together(), expensive()
    found = step(by, shot, towards={})
    towards = {move.pod.uid: move.target for move in found.rest}
    again = carried_out(shot, found)
    assert step(by, again, towards=towards).moves
    lost = {**towards, "no-such-uid": "e1"}
    moved = dict.fromkeys(towards, "no-such-node")
    for wrong in (lost, moved):
        assert step(by, again, towards=wrong).moves == step(by, again, towards={}).moves
    # Without the first group, or if others took what it freed, the rest has too little capacity.
    assert step(by, shot, towards=towards).moves == found.moves
    content = attrs.evolve(by, qos_targets=lambda _: QosTarget(0.0))
    assert not step(content, again, towards=towards).moves


def test_many_workloads_come_to_nearly_all_that_can_be_reached():
    """Without plans suggestions end at 0.88 of the optimum of CP-SAT."""
    instance, reachable = next(itertools.islice(crowded(1), 1, None)), 91.986
    by = KubeDSM(instance.qos_targets, instance.objective, solver=SOLVER)
    made, _ = follow(
        instance.snapshot, by, lambda shot, found: carry_out(shot, found, SuggestLimits())
    )
    assert gained(made) / 1e9 >= 0.98 * reachable
    assert any(found.rest for found in made)


def test_plans_end_and_never_end_below_suggestions_alone():
    better = 0
    for seed in range(40):
        case = drawn_case(seed)
        by = KubeDSM(case.qos_targets, case.objective, case.limits, solver=SOLVER)
        made, _ = follow(case.snapshot, by)
        alone, shot = 0, case.snapshot
        while (found := by.suggest(shot, lambda _: None)).moves:
            alone, shot = alone + found.after.qos - found.before.qos, carried_out(shot, found)
        assert gained(made) >= alone, seed
        better += gained(made) > alone
    assert better


def test_without_a_solver_there_is_no_plan():
    by = attrs.evolve(expensive(), solver=None)
    assert not step(by, together(), towards={}).moves

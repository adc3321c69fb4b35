"""What packing comes to, beside all that there is, on clusters small enough for that."""

import random

import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.packing.pack import make_plan, pack_cluster
from kubedsm.optimizer.packing.phases import Phases
from kubedsm.optimizer.packing.problem import ClusterProblem
from kubedsm.plugins.fit import shortages
from kubedsm.solvers.available import Highs
from support import drawing
from support.packing_instances import (
    OBJECTIVE,
    all_promised,
    best_of_all,
    by_tier,
    drawn,
    nothing_promised,
    placed,
    targets_of,
    usual,
)
from support.ruled_instances import ruled_case
from support.ruled_literal import allowed, refusals

EVICTING = (False, True)


def packed(of, qos_targets=nothing_promised, solver=None, **how):
    return pack_cluster(of, qos_targets, OBJECTIVE, Bounds(solver=solver), lambda _: None, **how)


def comes_to(of, found, qos_targets, worth):
    return worth(of, Gains.of(of, qos_targets, OBJECTIVE), targets_of(of, found))


@pytest.mark.parametrize("allowed", EVICTING)
@pytest.mark.parametrize("qos_targets", [nothing_promised, all_promised])
@pytest.mark.parametrize("seed", drawing.drawn_cases(range(12)))
def test_with_gaps_and_a_solver_it_is_the_best_there_is(seed, qos_targets, allowed):
    of = drawn(seed)
    best = best_of_all(of, qos_targets, usual, allow_evictions=allowed)
    found = packed(of, qos_targets, Highs(), allow_evictions=allowed, gaps=True)
    if best[0] <= tuple(found.before.values()):
        assert not found.better
        assert found.placed_proven
        return
    assert found.proven
    assert comes_to(of, found, qos_targets, usual) == best


@pytest.mark.parametrize("seed", [6, 10, 75, 117])
def test_the_order_of_the_paper_is_by_tier(seed):
    of = drawn(seed)  # the usual order of goals leads to another optimum
    best = best_of_all(of, nothing_promised, by_tier, allow_evictions=True)
    gains = Gains.of(of, nothing_promised, OBJECTIVE)
    problem = ClusterProblem.pose(of, lambda _: None, gains, allow_evictions=True)
    loads, found = Phases(problem, gains, by_tier=True).solve_goals(
        Highs(), NO_DEADLINE, problem.old
    )
    assert found.proven
    assert by_tier(of, gains, targets_of(of, make_plan(problem, loads, gaps=True))) == best


@pytest.mark.parametrize("allowed", EVICTING)
@pytest.mark.parametrize("seed", drawing.drawn_cases(range(40)))
def test_what_it_says_is_proven_is_so_and_nothing_is_better_than_its_bounds(seed, allowed):
    of = drawn(seed)
    best = best_of_all(of, all_promised, usual, allow_evictions=allowed)
    found = packed(of, all_promised, allow_evictions=allowed)
    same = True
    for each, most, now in zip(
        [each for each in found.certificates if each.goal == "placed"],
        best[0],
        found.after.values(),
        strict=True,
    ):
        assert each.value == now
        assert not same or most <= each.bound
        same = same and most == now
    if found.proven and found.better:
        assert comes_to(of, found, all_promised, usual) == best


def overfull(of, holding):
    """The nodes with less room than their pods take: pods by name, and where they are."""
    free = {name: node.allocatable for name, node in of.nodes.items()}
    for node, requests in holding.values():
        free[node] -= requests
    return [n for n, left in free.items() if min(left.cpu, left.memory, left.pods) < 0]


@pytest.mark.parametrize("evictions", EVICTING)
@pytest.mark.parametrize("seed", drawing.drawn_cases(range(25)))
def test_it_is_carried_out_in_any_order_that_heeds_the_needs_and_no_pod_is_missing(seed, evictions):
    of, rng = drawn(seed, most=12), random.Random(seed)
    found = packed(of, allow_evictions=evictions)
    gone = {pod.uid for pod in found.evicted}
    holding = {
        str(pod.uid): (pod.node_name, pod.requests)
        for pod in of.pods.values()
        if pod.node_name is not None and pod.uid not in gone
    }
    left, over, under_way = list(found.legs), set(), []
    while left or under_way:
        ready = [leg for leg in left if leg.needs <= over]
        if ready and (not under_way or rng.random() < 0.6):
            leg = rng.choice(ready)
            left.remove(leg)
            under_way.append(leg)
            assert holding[str(leg.move.pod.uid)][0] == leg.source
            holding[f"{leg.name} coming"] = (leg.target, leg.move.pod.requests)
        else:
            leg = under_way.pop(rng.randrange(len(under_way)))
            over.add(leg.name)
            holding[str(leg.move.pod.uid)] = holding.pop(f"{leg.name} coming")
        assert overfull(of, holding) == []
    for move in found.awaited:
        holding[str(move.pod.uid)] = (move.target, move.pod.requests)
    assert overfull(of, holding) == []
    assert not any(of.pods[pod.uid].pinned for pod in found.evicted)
    assert found.better == (tuple(found.after.values()) > tuple(found.before.values()))
    assert not any(shortages(m.pod.requests, of.nodes[m.target].allocatable) for m in found.moves)


def test_the_search_alone_finds_all_that_could_be_placed_on_small_clusters():
    more = 0
    for seed in drawing.drawn(range(25)):
        of = drawn(seed)
        best = best_of_all(of, nothing_promised, lambda _, __, targets: placed(targets))
        found = packed(of, gaps=True)
        more += best > tuple(found.before.values())
        assert tuple(found.after.values()) == max(best, tuple(found.before.values()))
    assert more > 2


@pytest.mark.parametrize("seed", [13, 20, 23, 27, 65, 69, 85, 87])
def test_rules_about_other_pods_are_kept_all_the_way(seed):
    case = ruled_case(seed)
    found = pack_cluster(case.snapshot, case.qos_targets, case.objective, Bounds(), lambda _: None)
    for order in range(5):
        assert refusals(case.snapshot, found, order) == []
    shot = case.snapshot.with_placed({move.pod.uid: move.target for move in found.moves})
    for move in found.awaited:
        assert allowed(shot, move.pod, move.target)
        shot = shot.with_placed({move.pod.uid: move.target})

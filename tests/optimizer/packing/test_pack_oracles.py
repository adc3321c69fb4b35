"""Packing beside exhaustive search over all packings, on clusters small enough for that."""

import itertools
import random

import attrs
import pytest

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.model import Tier
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.packing.pack import make_plan, pack_cluster
from kubedsm.optimizer.packing.phases import Phases
from kubedsm.optimizer.packing.problem import ClusterProblem
from kubedsm.plugins.fit import shortages
from kubedsm.solvers.available import Highs
from support import drawing
from support.literal_moves import allowed, carried_out, put
from support.placement_instances import node, pod, resources, snapshot
from support.ruled_instances import ruled_case

EVICTING = (False, True)
OBJECTIVE = Objective()


def nothing_promised(_):
    return QosTarget(weight=0)


def all_promised(_):
    return QosTarget()


def drawn(seed, most=6, priorities=(0, 1)):
    """Draw a cluster of two or three nodes, with pods placed one after the other."""
    rng = random.Random(seed)
    tiers = [rng.choice((Tier.EDGE, Tier.CLOUD)) for _ in range(rng.choice((2, 3, 3)))]
    nodes = [
        node(f"n{at}", tier, rng.choice((4, 5, 6)), rng.choice((4, 5, 6)))
        for at, tier in enumerate(tiers)
    ]
    services = {
        name: (resources(rng.randint(1, 4), rng.randint(1, 4)), rng.choice(priorities))
        for name in "abcd"[: rng.randint(2, 4)]
    }
    free = {n.name: n.allocatable for n in nodes}
    pods = []
    for number in range(rng.randint(most - 2, most)):
        service = rng.choice(list(services))
        requests, priority = services[service]
        fitting = [name for name in free if not shortages(requests, free[name])]
        on = rng.choice(fitting) if fitting and rng.random() < 0.9 else None
        if on is not None:
            free[on] -= requests
        made = pod(f"{service}{number}", service, requests, on=on, priority=priority)
        ready = on is not None
        pinned = "for a reason" if rng.random() < 0.1 else ""
        phase = "Running" if ready else "Pending"
        pods.append(attrs.evolve(made, phase=phase, ready=ready, pinned=pinned))
    return snapshot(nodes, pods)


def best_of_all(of, qos_targets, worth, *, allow_evictions=False):
    """Return the best packing by `worth`, over every node (or none) for each movable pod."""
    gains = Gains.of(of, qos_targets, OBJECTIVE)
    pods = [p for p in of.pods.values() if p.node_name is None or not p.pinned]
    highest = max((p.pod_class.priority for p in pods if p.node_name is None), default=None)
    free = dict(of.free)
    for each in pods:
        if each.node_name is not None:
            free[each.node_name] += each.requests
    choices = []
    for each in pods:
        evictable = allow_evictions and highest is not None and each.pod_class.priority < highest
        none = [None] if each.node_name is None or evictable else []
        choices.append([*free, *none])
    best = None
    for targets in itertools.product(*choices):
        left = dict(free)
        for each, target in zip(pods, targets, strict=True):
            if target is not None:
                left[target] -= each.requests
        if any(min(r.cpu, r.memory, r.pods) < 0 for r in left.values()):
            continue
        found = worth(of, gains, dict(zip(pods, targets, strict=True)))
        best = found if best is None or found > best else best
    return best


def placed(targets):
    """Return the number of placed pods by priority, highest first."""
    counts = dict.fromkeys(sorted({p.pod_class.priority for p in targets}, reverse=True), 0)
    for each, target in targets.items():
        counts[each.pod_class.priority] += target is not None
    return tuple(counts.values())


def kept(targets):
    had = [(pod, target) for pod, target in targets.items() if pod.node_name is not None]
    return sum(0 if target is None else 3 if target == pod.node_name else 1 for pod, target in had)


def usual(of, gains, targets):
    """Return the default objective of a packing: pods placed, QoS, pods kept."""
    changes = {}
    for each, target in targets.items():
        edge = [n is not None and of.nodes[n].tier is Tier.EDGE for n in (each.node_name, target)]
        changes[each.workload] = changes.get(each.workload, 0) + edge[1] - edge[0]
    return placed(targets), gains.of_changes(changes), kept(targets)


def by_tier(of, gains, targets):
    """Return the paper's objective: placed and kept pods, priority by priority."""
    priorities = sorted({p.pod_class.priority for p in targets}, reverse=True)
    tiers = [{p: t for p, t in targets.items() if p.pod_class.priority == n} for n in priorities]
    return tuple((placed(tier), kept(tier)) for tier in tiers)


def targets_of(of, packed):
    """Return the final node of each movable pod."""
    targets = {p: p.node_name for p in of.pods.values() if p.node_name is None or not p.pinned}
    targets |= {move.pod: move.target for move in (*packed.moves, *packed.awaited)}
    return targets | dict.fromkeys(packed.evicted)


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


def test_the_bound_of_a_priority_counts_the_capacity_of_higher_ones():
    pods = [
        pod(f"{name}{number}", name, resources(1, 1), priority=priority)
        for name, priority in (("high", 1), ("low", 0))
        for number in range(3)
    ]
    found = packed(snapshot([node("n", Tier.EDGE, 4, 9)], pods))
    assert [(c.of, c.bound) for c in found.certificates if c.goal == "placed"] == [
        ("priority 1", 3),
        ("priority 0", 1),
    ]


@pytest.mark.parametrize("evictions", EVICTING)
@pytest.mark.parametrize("seed", drawing.drawn_cases(range(25)))
def test_it_is_carried_out_in_any_order_that_heeds_the_needs_and_no_pod_is_missing(seed, evictions):
    of = drawn(seed, most=12)
    found = packed(of, allow_evictions=evictions)
    after = carried_out(of.without({pod.uid for pod in found.evicted}), found, seed)
    for move in found.awaited:
        assert allowed(after, move.pod, move.target)
        after = put(after, move.pod, move.target)
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
        carried_out(case.snapshot, found, order)
    shot = case.snapshot.with_placed({move.pod.uid: move.target for move in found.moves})
    for move in found.awaited:
        assert allowed(shot, move.pod, move.target)
        shot = shot.with_placed({move.pod.uid: move.target})

"""What packing comes to, beside all that there is, on clusters small enough for that."""

import random

import pytest

from kubedsm.core.goals.gains import Gains
from kubedsm.core.optimise.pack import pack
from kubedsm.core.packing.match import Bounds
from kubedsm.core.rules.fit import shortages
from kubedsm.solvers.highs import Highs
from support.packing_instances import (
    OBJECTIVE,
    all_promised,
    best_of_all,
    drawn,
    nothing_promised,
    targets_of,
    worth,
)

EVICTING = (False, True)


def packed(of, promises=nothing_promised, solver=None, **how):
    return pack(of, promises, OBJECTIVE, Bounds(solver=solver), lambda _: None, **how)


def worth_of(of, found, promises):
    gains = Gains.of(of, promises, OBJECTIVE)
    return worth(of, gains, sorted(found.before, reverse=True), targets_of(of, found))


@pytest.mark.parametrize("evicting", EVICTING)
@pytest.mark.parametrize("promises", [nothing_promised, all_promised])
@pytest.mark.parametrize("seed", range(16))
def test_with_gaps_and_a_solver_it_is_the_best_there_is(seed, promises, evicting):
    of = drawn(seed)
    best = best_of_all(of, promises, allow_evictions=evicting)
    found = packed(of, promises, Highs(), allow_evictions=evicting, gaps=True)
    if best is None or best.placed <= tuple(found.before.values()):
        assert not found.better
        assert found.placed_proven
        return
    assert found.proven
    assert worth_of(of, found, promises) == best


@pytest.mark.parametrize("evicting", EVICTING)
@pytest.mark.parametrize("seed", range(60))
def test_what_it_says_is_proven_is_so_and_nothing_is_better_than_its_bounds(seed, evicting):
    of = drawn(seed)
    best = best_of_all(of, all_promised, allow_evictions=evicting)
    found = packed(of, all_promised, allow_evictions=evicting)
    placed = [each for each in found.certificates if each.goal == "placed"]
    same = True
    for each, most, now in zip(placed, best.placed, found.after.values(), strict=True):
        assert each.value == now
        assert not same or most <= each.bound
        same = same and most == now
    if found.proven and found.better:
        assert worth_of(of, found, all_promised) == best


def overfull(of, holding):
    """The nodes with less room than their pods take: pods by name, and where they are."""
    free = {name: node.allocatable for name, node in of.nodes.items()}
    for node, requests in holding.values():
        free[node] -= requests
    return [n for n, left in free.items() if min(left.cpu, left.memory, left.pods) < 0]


@pytest.mark.parametrize("evicting", EVICTING)
@pytest.mark.parametrize("seed", range(60))
def test_it_is_carried_out_in_any_order_that_heeds_the_needs_and_no_pod_is_missing(seed, evicting):
    of, rng = drawn(seed, most=12), random.Random(seed)
    found = packed(of, allow_evictions=evicting)
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


def test_most_of_what_could_be_placed_is_without_a_solver_and_without_gaps():
    missed = found_any = 0
    for seed in range(60):
        of = drawn(seed)
        best = best_of_all(of, nothing_promised)
        now = tuple(packed(of).before.values())
        found_any += best.placed > now
        missed += tuple(packed(of, gaps=True).after.values()) < best.placed
    assert found_any > 6
    assert missed == 0

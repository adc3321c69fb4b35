"""Pods brought to where they have less company, against a look at all nodes for each of them."""

import itertools
import random
from collections import Counter

import numpy as np

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.best_fit import best_fit_increasing
from kubedsm.optimizer.placing.cloud import place_least_allocated
from kubedsm.optimizer.placing.replica_spreading import TierAssignment
from support import drawing
from support.drawn_problems import drawn_packing


def drawn_spread(seed, packing):
    """Draw the nodes of existing replicas of the problem's workloads."""
    rng = random.Random(seed)
    spread = ReplicaSpread(packing.rows.index.zones, {}, {})
    for workload in sorted({each.workload for kind in packing.kinds for each in kind.pods}):
        for name in packing.rows.index.names:
            if rng.random() < 0.4:
                spread.put(workload, name, rng.randint(1, 3))
    return spread


def dealt(seed, place):
    packing, _ = drawn_packing(seed)
    spread = drawn_spread(seed, packing)
    loads = place(packing)
    chosen = [kind.pods for kind in packing.kinds]
    return TierAssignment.of(packing, loads, chosen, spread)


def literal_even_out(tier):
    """Group by group, node by node, until nothing moves any more; the moves."""
    moves = []
    while True:
        before = len(moves)
        for group, places in tier.places.items():
            for node in sorted(+places):
                while places[node] and (best := _better(tier, group, node)) is not None:
                    moves.append((group, node, best))
                    for at, by in ((node, -1), (best, 1)):
                        places[at] += by
                        tier.loads[at, group[0]] += by
                        tier.spread.put(group[1], tier.problem.nodes[at].name, by)
        if len(moves) == before:
            return moves


def _better(tier, group, node):
    (kind, workload), packing, spread = group, tier.problem, tier.spread
    names = [each.name for each in packing.nodes]
    zone = [spread.zones[name] for name in names]
    room = packing.room_after(tier.loads)
    rated = [
        (spread.company(workload, names[at]) - (zone[at] == zone[node]), at)
        for at in range(len(names))
        if at != node
        and tier.loads[at, kind] < packing.most[at, kind]
        and (room[at] >= packing.requests[kind]).all()
        and packing.penalties[at, kind] <= packing.penalties[node, kind]
    ]
    least, at = min(rated, default=(np.inf, node))
    return at if least < spread.company(workload, names[node]) - 2 else None


def test_each_move_is_to_the_best_of_all_nodes(monkeypatch):
    monkeypatch.setattr(TierAssignment, "_exchange_pods", lambda *_: False)
    seen = Counter()
    for seed in drawing.drawn(range(500)):
        for place in (best_fit_increasing, lambda p: place_least_allocated(p, p.counts)):
            tier, literal = dealt(seed, place), dealt(seed, place)
            moves = literal_even_out(literal)
            assert tier.even_out(NO_DEADLINE) == len(moves), seed
            assert tier.loads.tolist() == literal.loads.tolist(), seed
            assert {g: +p for g, p in tier.places.items()} == {
                g: +p for g, p in literal.places.items()
            }, seed
            assert tier.spread.cost == literal.spread.cost
            seen["moved"] += bool(moves)
            seen["again"] += len(moves) > len({pod for _, pod, _ in moves})
            seen["still"] += not moves
            seen["several"] += len({group for group, _, _ in moves}) > 1
            seen["zones"] += len(tier.zones) > 1
    assert min(seen.values()) >= 6, seen


def literal_exchanges(tier, unplaced):
    """Exchanges of two pods of different kinds and workloads that would lower the spread cost."""
    packing, spread = tier.problem, tier.spread
    names = [each.name for each in packing.nodes]
    pods = [(group, node) for group, of in tier.places.items() for node in +of if group[1]]
    for (one, here), (two, there) in itertools.combinations(pods, 2):
        if one[0] == two[0] or one[1] == two[1] or here == there:
            continue
        loads, then = tier.loads.copy(), spread.copy()
        for (kind, workload), start, end in ((one, here, there), (two, there, here)):
            for node, by in ((start, -1), (end, 1)):
                loads[node, kind] += by
                then.put(workload, names[node], by)
        room, before = packing.room_after(loads), packing.room_after(tier.loads)
        open_to = (loads <= packing.most).all() and (room >= 0).all() and (before >= 0).all()
        liked = all(
            packing.penalties[end, kind] <= packing.penalties[start, kind]
            for kind, start, end in ((one[0], here, there), (two[0], there, here))
        )
        if open_to and liked and not any(opened(packing, loads, kind) for kind in unplaced):
            yield then.cost - spread.cost


def opened(packing, loads, kind):
    """Whether any node accepts another pod of the kind."""
    fits = (packing.room_after(loads) >= packing.requests[kind]).all(axis=1)
    return bool((fits & (loads[:, kind] < packing.most[:, kind])).any())


def test_pods_change_places_until_no_exchange_makes_them_more_even():
    seen = Counter()
    for seed in drawing.drawn(range(300)):
        tier, alone = dealt(seed, best_fit_increasing), dealt(seed, best_fit_increasing)
        packing, before = tier.problem, tier.loads.sum(axis=0).tolist()
        penalty = (packing.penalties * tier.loads).sum(axis=0)
        unplaced = np.flatnonzero(tier.loads.sum(axis=0) < packing.counts).tolist()
        literal_even_out(alone)
        tier.even_out(NO_DEADLINE, unplaced)
        assert tier.loads.sum(axis=0).tolist() == before
        assert ((packing.penalties * tier.loads).sum(axis=0) <= penalty).all(), seed
        assert (tier.loads <= packing.most).all()
        assert (packing.room_after(tier.loads) >= 0).all()
        assert not any(opened(packing, tier.loads, kind) for kind in unplaced), seed
        assert min(literal_exchanges(tier, unplaced), default=0) >= 0, seed
        seen["better"] += not unplaced and tier.spread.cost < alone.spread.cost
        seen["unplaced"] += bool(unplaced)
    assert seen["better"] >= 3, seen
    assert seen["unplaced"] >= 3, seen

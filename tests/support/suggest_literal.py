"""The literal forms that `suggest` must agree with, and what happens when it is carried out."""

import attrs
import numpy as np

from kubedsm.bench.literal.enumerated_moves import best_by_enumeration
from kubedsm.bench.literal.paper import LiteralPaper
from kubedsm.core.goals.fragmentation import Fragmentation, request_mix
from kubedsm.core.goals.gains import Gains
from kubedsm.core.moving.edge_problem import EdgeProblem
from kubedsm.core.moving.movable import default_movable
from kubedsm.core.moving.suggest import SUGGEST_BOUNDS
from kubedsm.core.rules.fit import reasons, shortages


def enumerated(case, measure):
    """The best that any choice of moves comes to."""
    shot = case.snapshot
    movable = default_movable(shot)
    return best_by_enumeration(shot, case.promises, case.objective, case.limits, measure, movable)


def literal_paper(case, measure):
    shot = case.snapshot
    fragmentation = Fragmentation(measure, request_mix(shot))
    return LiteralPaper(shot, case.promises, case.objective, fragmentation, default_movable(shot))


def problem_of(case, measure):
    shot = case.snapshot
    fragmentation = Fragmentation(measure, request_mix(shot))
    gains = Gains(shot.shares(), case.promises, case.objective)
    return EdgeProblem.of(shot, default_movable(shot), fragmentation, SUGGEST_BOUNDS), gains


def item_counts(problem, pods):
    """How many of the pods are of each item."""
    counts = np.zeros(len(problem.items), dtype=np.int64)
    for at, item in enumerate(problem.items):
        everybody = [*item.outside, *item.waiting, *(p for ps in item.here.values() for p in ps)]
        counts[at] = sum(pod in everybody for pod in pods)
    return counts


def carried_out(shot, suggestion):
    """The cluster afterwards, every rule checked on the way, one move at a time.

    A move starts when those it needs are done, and must find room then. Of a cycle one move goes
    through the cloud: there must be room for it, beside all that goes there.
    """
    free = dict(shot.free)
    moves = {move.pod.uid: move for move in suggestion.moves}
    assert suggestion.needs.keys() == moves.keys()
    parked = {}
    done = set()
    while len(done) < len(moves):
        ready = [u for u in moves if u not in done and suggestion.needs[u] <= done | parked.keys()]
        if not ready:
            parked |= _parked(shot, free, moves, done, parked)
            continue
        for uid in ready:
            move = moves[uid]
            why_not = reasons(move.pod.pod_class, shot.nodes[move.target], free[move.target])
            assert not why_not, (str(move.pod), why_not)
            free[move.target] -= move.pod.requests
        for uid in ready:  # what leaves is gone only when all of these are under way
            move = moves[uid]
            free[parked.get(uid, move.source)] += move.pod.requests
            done.add(uid)
    return moved(shot, suggestion, free)


def _parked(shot, free, moves, done, parked):
    for uid, move in moves.items():
        if uid in done or uid in parked:
            continue
        for node in shot.nodes.values():
            if node.tier == "cloud" and not reasons(move.pod.pod_class, node, free[node.name]):
                free[node.name] -= move.pod.requests
                free[move.source] += move.pod.requests
                return {uid: node.name}
    raise AssertionError("a cycle that the cloud cannot break")


def moved(shot, suggestion, free=None):
    pods, placed = dict(shot.pods), dict(shot.placed)
    after = dict(shot.free)
    for move in suggestion.moves:
        pods[move.pod.uid] = attrs.evolve(move.pod, node_name=move.target)
        placed[move.pod.uid] = move.target
        after[move.source] += move.pod.requests
        after[move.target] -= move.pod.requests
    assert free is None or free == after
    return attrs.evolve(shot, pods=pods, placed=placed, free=after)


def bound(shot, bindings):
    """The cluster once these pods are on these nodes, and run."""
    pods, placed, free = dict(shot.pods), dict(shot.placed), dict(shot.free)
    for pod, node in bindings:
        assert not shortages(pod.requests, free[node])
        pods[pod.uid] = attrs.evolve(pod, node_name=node, phase="Running", ready=True)
        placed[pod.uid] = node
        free[node] -= pod.requests
    return attrs.evolve(shot, pods=pods, placed=placed, free=free)

"""Oracles of `suggest` in literal form, and execution of suggestions."""

import attrs
import numpy as np

from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.matching.best_fit import greatest_allocatable, pod_size
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS
from kubedsm.optimizer.moving.suggestion import Cause, count_edge_changes
from kubedsm.plugins.fit import shortages
from support.literal_moves import best_by_enumeration
from support.literal_paper import LiteralPaper
from support.ruled_literal import refusals


def enumerated(case, measure, worth=None, new=()):
    """Return the best suggestion over all choices of moves."""
    shot = case.snapshot
    movable = default_movable(shot)
    return best_by_enumeration(
        shot, case.qos_targets, case.objective, case.limits, measure, movable, worth, new
    )


def literal_paper(case, measure):
    shot = case.snapshot
    fragmentation = Fragmentation(measure, request_mix(shot))
    return LiteralPaper(
        shot, case.qos_targets, case.objective, fragmentation, default_movable(shot)
    )


def problem_of(case, measure, priorities=None):
    shot = case.snapshot
    fragmentation = Fragmentation(measure, request_mix(shot))
    gains = Gains(shot.census.shares, case.qos_targets, case.objective, priorities)
    movable, limits = default_movable(shot), attrs.evolve(case.limits, spread=False)
    return EdgeProblem.of(shot, movable, fragmentation, gains, limits, SUGGEST_BOUNDS)


def item_counts(problem, pods):
    """Return the number of given pods in each item of the problem."""
    counts = np.zeros(len(problem.items), dtype=np.int64)
    for at, item in enumerate(problem.items):
        everybody = [*item.outside, *item.waiting, *(p for ps in item.here.values() for p in ps)]
        counts[at] = sum(pod in everybody for pod in pods)
    return counts


#: Why groups of moves are dropped: their pods are named first.
_DROPPED = {
    Cause.NO_GAIN,
    Cause.BELOW_ITS_PRICE,
    Cause.NOT_DEFRAGMENTING,
    Cause.TOO_LITTLE_DEFRAGMENTED,
    Cause.NEEDS_A_STOPOVER,
    Cause.CROWDS_REPLICAS,
    Cause.REFUSED_BY_A_RULE,
}


def literally_left(case, suggestion):
    """Return the ten pods that a suggestion should explain as not moved, in literal form."""
    shot, movable = case.snapshot, default_movable(case.snapshot)
    edge = shot.of_tier(Tier.EDGE)
    gains, greatest = Gains.of(shot, case.qos_targets, case.objective), greatest_allocatable(edge)
    moved = [*suggestion.moves, *suggestion.awaited]
    dropped = [left.pod for left in suggestion.rejected if left.why.cause in _DROPPED]
    named = {pod.uid for pod in (*dropped, *(move.pod for move in moved))}
    changes, first, scores = count_edge_changes(moved), {}, {}
    for pod in sorted(shot.pods.values(), key=leaving_turn):
        on_edge = shot.placed.get(pod.uid) in {node.name for node in edge}
        if pod.scheduler_name != shot.scheduler_name or not pod.counts_for_qos or on_edge:
            continue
        done = changes.get(pod.workload, 0)
        more = gains.of_workload(pod.workload, done + 1) - gains.of_workload(pod.workload, done)
        if pod.uid in named or more <= 0:
            continue
        said = movable(pod) if pod.node_name is not None else None
        key = pod.workload, pod.pod_class, said
        first.setdefault(key, pod)
        scores[key] = gains.level[pod.workload], -more / pod_size(pod.requests, greatest)
    ranked = sorted(first, key=lambda key: (scores[key], str(first[key])))
    return [*dropped, *(first[key] for key in ranked)][:10]


def needed(suggestion):
    """Return the legs that each leg depends on, by pod name."""
    short = {leg.name: leg.name.partition("/")[2] for leg in suggestion.legs}
    return {short[leg.name]: {short[name] for name in leg.needs} for leg in suggestion.legs}


def carried_out(shot, suggestion, seed=0):
    """Execute a suggestion leg by leg in a random permitted order; return the final snapshot."""
    assert refusals(shot, suggestion, seed) == []
    return shot.with_placed({move.pod.uid: move.target for move in suggestion.moves})


def bound(shot, bindings):
    """Return the snapshot after binding the pods, which then run."""
    pods, placed, free = dict(shot.pods), dict(shot.placed), dict(shot.free)
    for pod, node in bindings:
        assert not shortages(pod.requests, free[node])
        pods[pod.uid] = attrs.evolve(pod, node_name=node, phase="Running", ready=True)
        placed[pod.uid] = node
        free[node] -= pod.requests
    return attrs.evolve(shot, pods=pods, placed=placed, free=free)

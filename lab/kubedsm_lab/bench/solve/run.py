"""Decisions and suggestions beyond the bounds, with a solver and without, beside the best."""

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import attrs

from kubedsm.model.model import Pod, Share, Tier, Workload, levels_of, shares_after
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO, quality
from kubedsm.optimizer.moving.suggestion import Suggestion, SuggestLimits
from kubedsm.optimizer.placing.batch_mip import QOS
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.plugins.fit import shortages
from kubedsm.solvers.highs import Highs
from kubedsm_lab.baselines.in_turn import InTurn, Room
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.bench.instances import DisagreementError
from kubedsm_lab.bench.solve.best import ROUNDING, Best
from kubedsm_lab.bench.solve.instances import Instance, batches, crowded
from kubedsm_lab.bench.solve.oracle import best_moves, best_placement
from kubedsm_lab.bench.solve.ruled import ruled
from kubedsm_lab.bench.solve.verdict import Moved, Moves, Placed, SolveResult, Standing, Way
from kubedsm_lab.replay.runner import spread

T = TypeVar("T")

#: suggestions, after which one that still finds something does not come to an end
_ROUNDS = 200
#: how often the oracle is asked, where a decision is better than its best
_ORACLES = 3
_LIMITS = SuggestLimits()


@attrs.frozen
class Task:
    instance: Instance
    #: of the solver, for each programme: one of the two, or nothing
    seconds: float = math.inf
    nodes: int | None = None
    #: of the oracle
    patience: float = math.inf

    def kubedsm(self, *, solving: bool) -> KubeDSM:
        solver = Highs(self.seconds, self.nodes) if solving else None
        return KubeDSM(self.instance.promises, self.instance.objective, solver=solver)


def tasks(
    number: int, seed: int, *, seconds: float, nodes: int | None, patience: float
) -> tuple[list[Task], list[Task], list[Task]]:
    """So many batches to place, half as many with rules, and as many clusters to move pods in."""

    def each(instances: "itertools.islice[Instance]") -> list[Task]:
        return [Task(instance, seconds, nodes, patience) for instance in instances]

    return (
        each(itertools.islice(batches(seed), number)),
        each(itertools.islice(ruled(seed), (number + 1) // 2)),
        each(itertools.islice(crowded(seed), (number + 1) // 2)),
    )


def run(
    plain: Sequence[Task],
    with_rules: Sequence[Task],
    to_move: Sequence[Task],
    jobs: int,
    on_done: Callable[[], object],
) -> SolveResult:
    def done(work: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[T]:
        for result in spread(work, tasks, jobs):
            on_done()
            yield result

    return SolveResult(
        tuple(done(place, plain)), tuple(done(place, with_rules)), tuple(done(move, to_move))
    )


def place(task: Task) -> Placed:
    """Raises DisagreementError if a decision is impossible, or better than the best."""
    instance = task.instance
    policies: dict[Way, Policy] = {
        Way.SOLVED: task.kubedsm(solving=True),
        Way.UNSOLVED: task.kubedsm(solving=False),
        Way.KUBE_SCHEDULER: InTurn(kube_scheduler, instance.promises, instance.objective),
    }
    ways = {way: placed_by(policy, instance) for way, policy in policies.items()}
    for seed in range(_ORACLES):
        best = best_placement(instance, task.patience, seed)
        if not any(_better(standing, best) for standing in ways.values()):
            break
    for standing in ways.values():
        _check(instance, standing, best)
        _check_bound(instance, standing, best)
    return Placed(
        instance.name,
        len(instance.batch),
        len(instance.snapshot.nodes),
        _qos(instance, instance.snapshot.shares()),
        ways,
        best,
    )


def move(task: Task) -> Moved:
    """Raises DisagreementError if a suggestion is impossible, or better than the best."""
    instance = task.instance
    best, reachable = (best_moves(instance, each, task.patience) for each in (_LIMITS, None))
    (before,) = _qos(instance, instance.snapshot.shares())
    ways = {way: _moves(task, way) for way in (Way.SOLVED, Way.UNSOLVED, Way.BEST)}
    for of in ways.values():
        for gain, reach in ((of.first, best.qos[0]), (of.last, reachable.qos[0])):
            if before + gain > reach.bound + ROUNDING:
                raise DisagreementError(f"{instance.name}: moves that are better than the best")
        if before + of.bound < best.qos[0].found - ROUNDING:
            raise DisagreementError(f"{instance.name}: moves that are better than the bound")
    return Moved(
        instance.name,
        len(instance.promised),
        len(instance.snapshot.pods),
        ways,
        best.qos[0].found - before,
        reachable.qos[0].found - before,
        best.proven and reachable.proven,
    )


def _moves(task: Task, way: Way) -> Moves:
    """Move pods until nothing more is suggested."""
    instance = task.instance
    snapshot = instance.snapshot
    reached = _qos(instance, snapshot.shares())
    longest, bound = 0.0, math.inf
    for number in range(_ROUNDS):
        (after, most), seconds = _timed(partial(_moved, task, way, snapshot))
        longest, bound = max(longest, seconds), bound if number else most
        if after is snapshot:
            first, last = (points - reached[0] for points in (reached[:2][-1], reached[-1]))
            return Moves(first, last, bound, number, longest)
        reached += _qos(instance, after.shares())
        snapshot = after
    raise DisagreementError(f"{instance.name}: moving does not come to an end")


def _moved(task: Task, way: Way, snapshot: Snapshot) -> tuple[Snapshot, float]:
    """The snapshot after the next moves, if any, and the most they could gain for all it is known.

    In points.
    """
    if way is Way.BEST:
        (before,) = _qos(task.instance, snapshot.shares())
        best = best_moves(attrs.evolve(task.instance, snapshot=snapshot), _LIMITS, task.patience)
        gained = best.qos[0].found - before > ROUNDING
        return (
            snapshot.with_placed(best.targets) if gained else snapshot,
            best.qos[0].bound - before,
        )
    found = task.kubedsm(solving=way is Way.SOLVED).suggest(snapshot, _anything)
    known, most = found.certificate, math.inf
    if found.proven:
        most = (found.after.qos - found.before.qos) / NANO
    elif known is not None and known.bound is not None:
        most = known.bound / known.unit
    return carried_out(snapshot, found, _LIMITS) if found.moves else snapshot, most


def _anything(_: Pod) -> None:
    return None


def carried_out(snapshot: Snapshot, found: Suggestion, limits: SuggestLimits) -> Snapshot:
    """The snapshot after the legs, one after the other, each made before the old pod goes.

    Raises DisagreementError if one of them finds no room, or if they are more than the limits say.
    """
    if len(found.legs) + len(found.awaited) > limits.max_moves:
        raise DisagreementError(f"{len(found.legs)} legs")
    free, over = dict(snapshot.free), set[str]()
    for leg in found.legs:
        requests = leg.move.pod.requests
        if shortages(requests, free[leg.target]) or not leg.needs <= over:
            raise DisagreementError(f"{leg.name} finds no room on {leg.target}")
        free[leg.target] -= requests
        free[leg.source] += requests
        over.add(leg.name)
    return snapshot.with_placed({move.pod.uid: move.target for move in found.moves})


def placed_by(policy: Policy, instance: Instance) -> Standing:
    """Raises DisagreementError if a node does not take what is bound to it."""
    snapshot, rng = instance.snapshot, random.Random(instance.name)
    decision, seconds = _timed(partial(policy.place, snapshot, instance.batch, rng))
    room = Room.of(snapshot)
    for pod, node, _ in decision.bindings:
        if node not in [taking.name for taking in room.fitting(pod)]:
            raise DisagreementError(f"{instance.name}: {node} does not take {pod}")
        room.put(pod, snapshot.nodes[node])
    levels = sorted({pod.pod_class.priority for pod in instance.batch}, reverse=True)
    placed = Counter(binding.pod.pod_class.priority for binding in decision.bindings)
    more = Counter(b.pod.workload for b in decision.bindings if b.tier is Tier.EDGE)
    return Standing(
        tuple(placed[level] for level in levels),
        _qos(instance, shares_after(snapshot.shares(), more)),
        decision.proof.placed and decision.proof.qos,
        decision.certificates,
        seconds,
    )


def _qos(instance: Instance, shares: Mapping[Workload, Share]) -> tuple[float, ...]:
    """In points, of the workloads of the batch, or else of all, by level."""
    pods = instance.batch or instance.snapshot.pods.values()
    by_level: dict[int, dict[Workload, Share]] = {}
    levels = levels_of(pods) or {pod.workload: 0 for pod in pods}
    for workload, level in levels.items():
        by_level.setdefault(level, {})[workload] = shares[workload]
    return tuple(
        quality(by_level[level], instance.promises, instance.objective) / NANO
        for level in sorted(by_level, reverse=True)
    )


def _better(standing: Standing, best: Best) -> bool:
    """Whether it is better than what nothing is said to be better than.

    Every pod of it was checked: then HiGHS was wrong, as it is on few programmes in a thousand.
    """
    reached = zip((*standing.placed, *standing.qos), (*best.placed, *best.qos), strict=True)
    for value, reach in reached:
        if abs(value - reach.bound) > ROUNDING:
            return value > reach.bound
    return False


def _check(instance: Instance, standing: Standing, best: Best) -> None:
    """That it is no better than what nothing can be better than, and no worse if it is proven."""
    reached = zip((*standing.placed, *standing.qos), (*best.placed, *best.qos), strict=True)
    for value, reach in reached:
        if value > reach.bound + ROUNDING:
            said = f"{(*standing.placed, *standing.qos)}, {(*best.placed, *best.qos)}"
            raise DisagreementError(f"{instance.name}: better than the best: {said}")
        if value < reach.found - ROUNDING and standing.proven:
            raise DisagreementError(f"{instance.name}: proven, and worse than the best")
        if value < reach.bound - ROUNDING:
            return


def _check_bound(instance: Instance, standing: Standing, best: Best) -> None:
    """That the best is within what is told of the first goal that is not proven."""
    for certificate in standing.certificates[:1]:
        levels = sorted({pod.pod_class.priority for pod in instance.batch}, reverse=True)
        at = levels.index(int(certificate.of.removeprefix("priority "))) if certificate.of else 0
        most, reached = best.placed[at].found, 0.0
        if certificate.goal == QOS:
            most, reached = best.qos[at].found, _qos(instance, instance.snapshot.shares())[at]
        bound = certificate.bound
        if bound is not None and reached + bound / certificate.unit < most - ROUNDING:
            raise DisagreementError(f"{instance.name}: {certificate.words}, but there is {most:g}")


def _timed(what: Callable[[], T]) -> tuple[T, float]:
    begun = time.process_time()
    result = what()
    return result, time.process_time() - begun

"""`kubedsm bench solve`: decisions with and without solver, compared with the oracle's optimum."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import attrs

from kubedsm.model.model import (
    NodeName,
    Pod,
    Share,
    Tier,
    Uid,
    Workload,
    levels_of,
    shares_after,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO, quality
from kubedsm.optimizer.moving.suggestion import Suggestion, SuggestLimits
from kubedsm.optimizer.placing.batch_mip import QOS
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.plugins.fit import shortages
from kubedsm.solvers.available import Highs
from kubedsm_lab.baselines.in_turn import InTurn, NodeUsage
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.bench.report import DisagreementError, measure_cpu, measure_with_solvers
from kubedsm_lab.bench.solve.instances import Instance, batches, crowded, ruled
from kubedsm_lab.bench.solve.oracle import ROUNDING, Best, best_moves, best_placement
from kubedsm_lab.bench.solve.verdict import (
    Algorithm,
    Moved,
    Moves,
    Placed,
    PlacementResult,
    SolveResult,
)
from kubedsm_lab.replay.runner import Workers, spread

T = TypeVar("T")

#: Most suggestions of a terminating sequence.
_ROUNDS = 200
_LIMITS = SuggestLimits()
#: Time limit of the oracle for each programme; afterwards there is only an upper bound.
_ORACLE_SECONDS = 60.0


@attrs.frozen
class Task:
    """Instance to solve (batch or cluster), with the solver's time and node limits and the oracle's
    limit in seconds.
    """

    instance: Instance
    seconds: float = math.inf
    nodes: int | None = None
    patience: float = math.inf

    def policy(self, *, solving: bool) -> KubeDSM:
        solver = Highs(self.seconds, self.nodes) if solving else None
        return KubeDSM(self.instance.qos_targets, self.instance.objective, solver=solver)


def tasks(number: int, seed: int, seconds: float) -> tuple[list[Task], list[Task], list[Task]]:
    """Return three lists of instances to solve: `number` batches, half as many batches with rules
    among pods, and half as many clusters.
    """

    def first(count: int, instances: Iterator[Instance]) -> list[Task]:
        chosen = itertools.islice(instances, count)
        return [Task(instance, seconds, patience=_ORACLE_SECONDS) for instance in chosen]

    half = (number + 1) // 2
    return first(number, batches(seed)), first(half, ruled(seed)), first(half, crowded(seed))


def run(
    plain: Sequence[Task],
    with_rules: Sequence[Task],
    clusters: Sequence[Task],
    workers: Workers,
    on_done: Callable[[], object],
) -> SolveResult:
    def run_all(work: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[T]:
        for result in spread(work, tasks, workers):
            on_done()
            yield result

    return SolveResult(
        tuple(run_all(place, plain)),
        tuple(run_all(place, with_rules)),
        tuple(run_all(move, clusters)),
    )


def place(task: Task) -> Placed:
    """Place one batch with solver, without solver, by kube-scheduler and by the oracle; return all
    placements.

    Raises DisagreementError for an infeasible decision, or one better than the optimum.
    """
    instance = task.instance
    policies: dict[Algorithm, Policy] = {
        Algorithm.SOLVED: task.policy(solving=True),
        Algorithm.UNSOLVED: task.policy(solving=False),
        Algorithm.KUBE_SCHEDULER: InTurn(kube_scheduler, instance.qos_targets, instance.objective),
    }
    ways = {way: place_with(policy, instance) for way, policy in policies.items()}
    best, seconds = measure_with_solvers(lambda: best_placement(instance, task.patience))
    if any(_is_better(result, best) for result in ways.values()):
        # Every binding was verified, so HiGHS is wrong, as on a few instances in a thousand.
        best = best_placement(instance, task.patience, plain=True)
    for result in ways.values():
        _check_decision(instance, result, best)
        _check_bound(instance, result, best)
    return Placed(
        _qos_by_priority(instance, instance.snapshot.census.shares),
        ways,
        best,
        seconds,
    )


def move(task: Task) -> Moved:
    """Suggest migrations on one cluster with solver, without solver and by the oracle; return the
    gains of QoS score.

    Raises DisagreementError for infeasible suggestions, or ones better than the optimum.
    """
    instance = task.instance
    best, reachable = (best_moves(instance, each, task.patience) for each in (_LIMITS, None))
    (before,) = _qos_by_priority(instance, instance.snapshot.census.shares)
    ways = {
        way: _move_repeatedly(task, way)
        for way in (Algorithm.SOLVED, Algorithm.UNSOLVED, Algorithm.BEST)
    }
    for moves in ways.values():
        for gain, reach in ((moves.first, best.qos[0]), (moves.last, reachable.qos[0])):
            if before + gain > reach.bound + ROUNDING:
                raise DisagreementError(f"{instance.name}: moves that are better than the best")
        if before + moves.bound < best.qos[0].found - ROUNDING:
            raise DisagreementError(f"{instance.name}: moves that are better than the bound")
    return Moved(ways, best.qos[0].found - before, reachable.qos[0].found - before)


def _move_repeatedly(task: Task, way: Algorithm) -> Moves:
    """Apply one algorithm's migration suggestions until none is left; return the gains of QoS
    score.
    """
    instance = task.instance
    snapshot = instance.snapshot
    scores = _qos_by_priority(instance, snapshot.census.shares)
    longest, bound, towards = 0.0, math.inf, dict[Uid, NodeName]()
    for number in range(_ROUNDS):
        measure = measure_with_solvers if way is Algorithm.BEST else measure_cpu
        (after, most, towards), seconds = measure(partial(_move_once, task, way, snapshot, towards))
        longest, bound = max(longest, seconds), bound if number else most
        if after is snapshot:
            first, last = (score - scores[0] for score in (scores[:2][-1], scores[-1]))
            return Moves(first, last, bound, number, longest)
        scores += _qos_by_priority(instance, after.census.shares)
        snapshot = after
    raise DisagreementError(f"{instance.name}: suggestions do not come to an end")


def _move_once(
    task: Task, way: Algorithm, snapshot: Snapshot, towards: Mapping[Uid, NodeName]
) -> tuple[Snapshot, float, dict[Uid, NodeName]]:
    """Apply one migration suggestion; return the new snapshot, an upper bound of the gain in QoS
    score, and the remaining migrations of a plan.

    Without migrations the same snapshot object is returned.
    """
    if way is Algorithm.BEST:
        (before,) = _qos_by_priority(task.instance, snapshot.census.shares)
        best = best_moves(attrs.evolve(task.instance, snapshot=snapshot), _LIMITS, task.patience)
        gains = best.qos[0].found - before > ROUNDING
        return (
            snapshot.with_placed(best.targets) if gains else snapshot,
            best.qos[0].bound - before,
            {},
        )
    policy = task.policy(solving=way is Algorithm.SOLVED)
    found = policy.suggest(snapshot, _allow_any, towards=towards)
    known, most = found.certificate, math.inf
    if found.proven:
        most = (found.after.qos - found.before.qos) / NANO
    elif known is not None and known.bound is not None:
        most = known.bound / known.unit
    rest = {move.pod.uid: move.target for move in found.rest}
    return carry_out(snapshot, found, _LIMITS) if found.moves else snapshot, most, rest


def _allow_any(_: Pod) -> None:
    return None


def carry_out(snapshot: Snapshot, found: Suggestion, limits: SuggestLimits) -> Snapshot:
    """Return the snapshot after a suggestion's migration steps, performed in order and
    make-before-break.

    Raises DisagreementError for an infeasible leg, or for more legs than allowed.
    """
    if len(found.legs) + len(found.awaited) > limits.max_moves:
        raise DisagreementError(f"{len(found.legs)} legs")
    free, done = dict(snapshot.free), set[str]()
    for leg in found.legs:
        requests = leg.move.pod.requests
        if shortages(requests, free[leg.target]) or not leg.needs <= done:
            raise DisagreementError(f"{leg.name} does not fit on {leg.target}")
        free[leg.target] -= requests
        free[leg.source] += requests
        done.add(leg.name)
    return snapshot.with_placed({move.pod.uid: move.target for move in found.moves})


def place_with(policy: Policy, instance: Instance) -> PlacementResult:
    """Place the batch by one scheduling policy and measure the result. Raises DisagreementError for
    an infeasible binding.
    """
    snapshot, rng = instance.snapshot, random.Random(instance.name)
    decision, seconds = measure_cpu(partial(policy.place, snapshot, instance.batch, rng))
    room = NodeUsage.of(snapshot)
    for pod, node, _ in decision.bindings:
        if node not in [taking.name for taking in room.fitting(pod)]:
            raise DisagreementError(f"{instance.name}: {node} does not take {pod}")
        room.put(pod, snapshot.nodes[node])
    levels = sorted({pod.pod_class.priority for pod in instance.batch}, reverse=True)
    placed = Counter(binding.pod.pod_class.priority for binding in decision.bindings)
    more = Counter(b.pod.workload for b in decision.bindings if b.tier is Tier.EDGE)
    return PlacementResult(
        tuple(placed[level] for level in levels),
        _qos_by_priority(instance, shares_after(snapshot.census.shares, more)),
        decision.proof.placed and decision.proof.qos,
        decision.certificates,
        seconds,
    )


def _qos_by_priority(instance: Instance, shares: Mapping[Workload, Share]) -> tuple[float, ...]:
    """Return the QoS scores of the batch's workloads, or of all workloads without a batch, one per
    priority level, highest first.
    """
    pods = instance.batch or instance.snapshot.pods.values()
    by_level: dict[int, dict[Workload, Share]] = {}
    priorities = [(pod.workload, pod.pod_class.priority) for pod in pods]
    levels = levels_of(priorities) or {workload: 0 for workload, _ in priorities}
    for workload, level in levels.items():
        by_level.setdefault(level, {})[workload] = shares[workload]
    return tuple(
        quality(by_level[level], instance.qos_targets, instance.objective) / NANO
        for level in sorted(by_level, reverse=True)
    )


def _is_better(result: PlacementResult, best: Best) -> bool:
    """Return whether a placement's pod counts and QoS scores exceed the oracle's upper bounds, in
    lexicographic order.
    """
    reached = zip((*result.placed, *result.qos), (*best.placed, *best.qos), strict=True)
    for value, reach in reached:
        if abs(value - reach.bound) > ROUNDING:
            return value > reach.bound
    return False


def _check_decision(instance: Instance, result: PlacementResult, best: Best) -> None:
    """Check a placement against the oracle: not above the upper bound, and not below the optimum if
    claimed to be proven.

    Raises DisagreementError.
    """
    reached = zip((*result.placed, *result.qos), (*best.placed, *best.qos), strict=True)
    for value, reach in reached:
        if value > reach.bound + ROUNDING:
            both = f"{(*result.placed, *result.qos)}, {(*best.placed, *best.qos)}"
            raise DisagreementError(f"{instance.name}: better than the best: {both}")
        if value < reach.found - ROUNDING and result.proven:
            raise DisagreementError(f"{instance.name}: proven, and worse than the best")
        if value < reach.bound - ROUNDING:
            return


def _check_bound(instance: Instance, result: PlacementResult, best: Best) -> None:
    """Check that the optimality gap claimed by a decision covers the oracle's best value.

    Only the first unproven objective is checked. Raises DisagreementError.
    """
    for certificate in result.certificates[:1]:
        levels = sorted({pod.pod_class.priority for pod in instance.batch}, reverse=True)
        at = levels.index(int(certificate.of.removeprefix("priority "))) if certificate.of else 0
        most, reached = best.placed[at].found, 0.0
        if certificate.goal == QOS:
            most, reached = (
                best.qos[at].found,
                _qos_by_priority(instance, instance.snapshot.census.shares)[at],
            )
        bound = certificate.bound
        if bound is not None and reached + bound / certificate.unit < most - ROUNDING:
            raise DisagreementError(f"{instance.name}: {certificate.words}, but there is {most:g}")

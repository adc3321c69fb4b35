"""One instance, under kube-scheduler and packed: who places more, and is that the most?"""

import enum
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs
import msgspec

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Resources
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.packing.pack import Packed, pack_cluster
from kubedsm.optimizer.packing.phases import Form, Phases
from kubedsm.optimizer.packing.problem import Problem
from kubedsm.optimizer.programming.programme import Solver
from kubedsm_lab.baselines.arrivals import served
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.replay.packing.instances import Shape, instance

#: nothing is promised of the edge, and nothing gained by it: what counts is who is placed
_PROMISE, _OBJECTIVE = QosTarget(qos=0.0), Objective(beta=0.0)

#: pods that are packed to the end in the paper's order in less than a second
SMALL = 16

#: so many pods have a node, of each priority, the highest first; the greater, the better
Placed = tuple[int, ...]


class Category(enum.StrEnum):
    """What became of an instance, in the words of "Priority Matters" (arXiv 2511.08373)."""

    FAILURE = "Failures"
    #: all pods had a node from the start, under kube-scheduler too
    NO_CALL = "No Calls"
    #: it was proven that no more can be placed than kube-scheduler places
    KWOK_OPTIMAL = "KWOK Optimal"
    BETTER = "Better"
    BETTER_AND_OPTIMAL = "Better&Optimal"


class Call(msgspec.Struct, frozen=True, rename="camel"):
    """What was packed in some seconds of wall-clock time, on which everything here depends."""

    #: the limit, and what was needed of it
    seconds: float
    took: float
    #: pods that move may be missing meanwhile, as in the paper, where all leave before any comes
    gaps: bool
    category: Category
    #: nothing better exists in any respect, moves and evictions included
    proven: bool
    placed: Placed
    #: requests placed, in percent of what all nodes have, above those under kube-scheduler
    cpu: float
    memory: float
    moves: int
    evictions: int


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    shape: Shape
    seed: int
    #: all pods
    pods: Placed
    #: under kube-scheduler, with preemption
    placed: Placed
    evictions: int
    #: where packing starts from: kube-scheduler without preemption
    start: Placed
    #: with the paper's goals in its own order, solved to the end; None where nobody tried
    paper: Placed | None = None
    #: none if nothing was left to pack
    calls: tuple[Call, ...] = ()


def attempt(shape: Shape, seed: int, limits: Sequence[float], solver: Solver | None) -> Attempt:
    """What kube-scheduler makes of the instance, and what is made of it within each limit, seconds.

    A call of which all is proven is not made again with more time. One is made without gaps, within
    the shortest limit.
    """
    one = instance(shape, seed)
    theirs, start = (
        served(
            one.empty,
            one.arrivals,
            kube_scheduler,
            random.Random(f"{seed} preempting {preempting}"),
            preempting=preempting,
        )
        for preempting in (True, False)
    )
    levels = range(shape.priorities, 0, -1)
    pods = Counter(pod.pod_class.priority for pods in one.arrivals for pod in pods)
    made = Attempt(
        shape,
        seed,
        tuple(pods[level] for level in levels),
        placed_in(theirs.snapshot, levels),
        theirs.evictions,
        placed_in(start.snapshot, levels),
    )
    if made.pods == made.placed == made.start:
        return made
    between = _Between(start.snapshot, theirs.snapshot, levels, solver)
    calls = [between.within(min(limits), gaps=False)]
    for seconds in sorted(limits):
        if calls[-1].gaps and calls[-1].proven:
            calls.append(msgspec.structs.replace(calls[-1], seconds=seconds))
        else:
            calls.append(between.within(seconds, gaps=True))
    paper = _papers(start.snapshot, levels, solver) if solver and sum(made.pods) <= SMALL else None
    return msgspec.structs.replace(made, calls=tuple(calls), paper=paper)


def category(theirs: Placed, ours: Placed, *, proven: bool, holds: bool = True) -> Category:
    """Of an instance that was packed.

    proven: no more can be placed. holds: the nodes do hold what is said to be on them.
    """
    if not holds:
        return Category.FAILURE
    if ours > theirs:
        return Category.BETTER_AND_OPTIMAL if proven else Category.BETTER
    return Category.KWOK_OPTIMAL if proven and ours == theirs else Category.FAILURE


def placed_in(snapshot: Snapshot, levels: Sequence[int]) -> Placed:
    counts = Counter(snapshot.pods[uid].pod_class.priority for uid in snapshot.placed)
    return tuple(counts[level] for level in levels)


def placed_proven(packed: Packed) -> bool:
    return all(
        certificate.proven
        for certificate in packed.certificates
        if certificate.goal.startswith("placed")
    )


def holds(after: Snapshot) -> bool:
    """Whether no node has more than it can."""
    return all(amount >= 0 for free in after.free.values() for _, amount in free.items())


def packed_snapshot(start: Snapshot, packed: Packed) -> Snapshot:
    """The snapshot once all is done."""
    targets = {move.pod.uid: move.target for move in (*packed.moves, *packed.awaited)}
    return start.without(pod.uid for pod in packed.evicted).with_placed(targets)


def _papers(start: Snapshot, levels: Sequence[int], solver: Solver) -> Placed | None:
    """What the paper's program comes to if it has all the time that it needs.

    It counts what moves in a tier before it places the next one: no pod moves for less important
    ones.
    """
    gains = Gains.of(start, lambda _: _PROMISE, _OBJECTIVE)
    problem = Problem.of(start, default_movable(start), gains, allow_evictions=True)
    phases = Phases(problem, gains, Form(order="by tier"))
    loads, found = phases.solve_goals(solver, NO_DEADLINE, problem.old)
    placed = dict(zip(problem.priorities, problem.placed(loads), strict=True))
    return tuple(placed.get(level, 0) for level in levels) if found.proven else None


@attrs.frozen
class _Between:
    start: Snapshot
    theirs: Snapshot
    levels: Sequence[int]
    solver: Solver | None

    def within(self, seconds: float, *, gaps: bool) -> Call:
        start, begun = self.start, time.monotonic()
        deadline = Deadline(lambda: (time.monotonic() - begun) / seconds, seconds)
        packed = pack_cluster(
            start,
            lambda _: _PROMISE,
            _OBJECTIVE,
            Bounds(deadline=deadline, solver=self.solver),
            default_movable(start),
            allow_evictions=True,
            gaps=gaps,
        )
        took = time.monotonic() - begun
        after = packed_snapshot(start, packed)
        ours, theirs = (placed_in(one, self.levels) for one in (after, self.theirs))
        cpu, memory = (
            100 * (more - less) / whole
            for more, less, whole in zip(
                _used(after), _used(self.theirs), _size(start), strict=True
            )
        )
        return Call(
            seconds=seconds,
            took=took,
            gaps=gaps,
            category=category(theirs, ours, proven=placed_proven(packed), holds=holds(after)),
            proven=packed.proven,
            placed=ours,
            cpu=cpu,
            memory=memory,
            moves=len(packed.moves),
            evictions=len(packed.evicted),
        )


def _size(snapshot: Snapshot) -> tuple[int, int]:
    return _sum(node.allocatable for node in snapshot.nodes.values())


def _used(snapshot: Snapshot) -> tuple[int, int]:
    return _sum(snapshot.pods[uid].requests for uid in snapshot.placed)


def _sum(amounts: Iterable[Resources]) -> tuple[int, int]:
    """Of cpu, and of memory."""
    listed = list(amounts)
    return sum(each.cpu for each in listed), sum(each.memory for each in listed)

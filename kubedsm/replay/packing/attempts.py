"""One instance, under kube-scheduler and packed: who places more, and is that the most?"""

import enum
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from kubedsm.core.goals.objective import Objective, Promise
from kubedsm.core.moving.movable import default_movable
from kubedsm.core.optimise.pack import Packed, pack
from kubedsm.core.packing.match import Bounds
from kubedsm.core.policies.arrivals import served
from kubedsm.core.policies.kube_scheduler import kube_scheduler
from kubedsm.core.rules.fit import shortages
from kubedsm.core.solving.programme import Solver
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.model import Resources
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.replay.packing.instances import Shape, instance

#: nothing is promised of the edge, and nothing gained by it: what counts is who is placed
_PROMISE, _OBJECTIVE = Promise(qos=0.0), Objective(beta=0.0)

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
    """What was packed in some seconds of wall-clock time, of which everything here depends."""

    #: the limit, and what was needed of it
    seconds: float
    took: float
    category: Category
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
    #: one a limit; none if nothing was left to pack
    calls: tuple[Call, ...] = ()


def attempt(shape: Shape, seed: int, limits: Sequence[float], solver: Solver | None) -> Attempt:
    """What kube-scheduler makes of the instance, and what is made of it within each limit, seconds.

    A call of which all is proven is not made again with more time.
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
    calls: list[Call] = []
    for seconds in sorted(limits):
        if calls and calls[-1].proven:
            calls.append(msgspec.structs.replace(calls[-1], seconds=seconds))
        else:
            calls.append(_called(start.snapshot, theirs.snapshot, levels, seconds, solver))
    return msgspec.structs.replace(made, calls=tuple(calls))


def category(theirs: Placed, ours: Placed, *, proven: bool) -> Category:
    """Of an instance that was packed."""
    if ours > theirs:
        return Category.BETTER_AND_OPTIMAL if proven else Category.BETTER
    return Category.KWOK_OPTIMAL if proven and ours == theirs else Category.FAILURE


def placed_in(snapshot: Snapshot, levels: Sequence[int]) -> Placed:
    counts = Counter(snapshot.pods[uid].pod_class.priority for uid in snapshot.placed)
    return tuple(counts[level] for level in levels)


def packed_snapshot(start: Snapshot, packed: Packed) -> Snapshot:
    """The snapshot once all is done."""
    targets = {move.pod.uid: move.target for move in (*packed.moves, *packed.awaited)}
    return start.without(pod.uid for pod in packed.evicted).with_placed(targets)


def _called(
    start: Snapshot,
    theirs: Snapshot,
    levels: Sequence[int],
    seconds: float,
    solver: Solver | None,
) -> Call:
    begun = time.monotonic()
    deadline = Deadline(lambda: (time.monotonic() - begun) / seconds, seconds)
    packed = pack(
        start,
        lambda _: _PROMISE,
        _OBJECTIVE,
        Bounds(deadline=deadline, solver=solver),
        default_movable(start),
        allow_evictions=True,
    )
    took = time.monotonic() - begun
    after = packed_snapshot(start, packed)
    ours = placed_in(after, levels)
    holds = not any(shortages(Resources(), free) for free in after.free.values())
    cpu, memory = (
        100 * (most - least) / whole
        for most, least, whole in zip(_used(after), _used(theirs), _size(start), strict=True)
    )
    return Call(
        seconds=seconds,
        took=took,
        category=(
            category(placed_in(theirs, levels), ours, proven=packed.proven)
            if holds
            else Category.FAILURE
        ),
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

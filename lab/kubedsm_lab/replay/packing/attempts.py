"""Attempt to pack one random cluster: kube-scheduler against KubeDSM's solver, with proof of
optimality.
"""

import enum
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Resources
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.packing.pack import Packed, pack_cluster
from kubedsm.optimizer.packing.phases import Phases
from kubedsm.optimizer.packing.problem import ClusterProblem
from kubedsm.optimizer.programming.programme import Solver
from kubedsm_lab.baselines.arrivals import simulate_arrivals
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.replay.packing.instances import Shape, instance

#: no edge target and no gain from the edge: only placed pods count
_QOS_TARGET, _OBJECTIVE = QosTarget(qos=0.0), Objective(beta=0.0)

#: most pods of an instance that the paper's program packs optimally within a second
SMALL = 16

#: placed pods by priority, the highest first; the greater, the better
Placed = tuple[int, ...]


class Category(enum.StrEnum):
    """Result category of a packing instance, named as in "Priority Matters" (arXiv 2511.08373)."""

    FAILURE = "Failures"
    #: kube-scheduler placed all pods, with and without preemption
    NO_CALL = "No Calls"
    #: proven: no packing places more than kube-scheduler
    KWOK_OPTIMAL = "KWOK Optimal"
    BETTER = "Better"
    BETTER_AND_OPTIMAL = "Better&Optimal"


class Call(msgspec.Struct, frozen=True, rename="camel"):
    """Result of one solver call with a time limit: pods placed, evictions, and proof of optimality.

    Every field depends on the wall-clock limit.
    """

    #: limit, and time taken
    seconds: float
    took: float
    #: runnable processes of the machine per processor, mean of a minute: above 1, calls share it
    load: float
    #: migrated pods may be missing meanwhile, as in the paper: all leave before any comes
    gaps: bool
    category: Category
    #: optimal in all goals, migrations and evictions included
    proven: bool
    placed: Placed
    #: requests of placed pods above kube-scheduler's, in percent of all nodes
    cpu: float
    memory: float
    moves: int
    evictions: int


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    shape: Shape
    seed: int
    #: pods of the instance
    pods: Placed
    #: placed under kube-scheduler, with preemption
    placed: Placed
    evictions: int
    #: start of packing: kube-scheduler without preemption
    start: Placed
    #: placed by the paper's program, solved to optimality; None if not tried
    paper: Placed | None = None
    #: empty if no pod was left to pack
    calls: tuple[Call, ...] = ()


def attempt(shape: Shape, seed: int, limits: Sequence[float], solver: Solver | None) -> Attempt:
    """Place an instance's pods by kube-scheduler, then repack the cluster by the solver with each
    time limit in seconds.

    A proven call is not repeated with more time. Only the call of the shortest limit has no gaps.
    """
    one = instance(shape, seed)
    theirs, start = (
        simulate_arrivals(
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
        count_placed(theirs.snapshot, levels),
        theirs.evictions,
        count_placed(start.snapshot, levels),
    )
    if made.pods == made.placed == made.start:
        return made
    packing = partial(call, start.snapshot, theirs.snapshot, levels, solver)
    calls = [packing(min(limits), gaps=False)]
    for seconds in sorted(limits):
        if calls[-1].gaps and calls[-1].proven:
            calls.append(msgspec.structs.replace(calls[-1], seconds=seconds))
        else:
            calls.append(packing(seconds, gaps=True))
    paper = None
    if solver and sum(made.pods) <= SMALL:
        paper = place_by_paper(start.snapshot, levels, solver)
    return msgspec.structs.replace(made, calls=tuple(calls), paper=paper)


def call(
    start: Snapshot,
    theirs: Snapshot,
    levels: Sequence[int],
    solver: Solver | None,
    seconds: float,
    *,
    gaps: bool,
) -> Call:
    """Repack a cluster by the solver within `seconds`, and compare the placed pods with
    kube-scheduler's.
    """
    begun, load = time.monotonic(), os.getloadavg()[0] / (os.cpu_count() or 1)
    deadline = Deadline(lambda: (time.monotonic() - begun) / seconds, seconds)
    packed = pack_cluster(
        start,
        lambda _: _QOS_TARGET,
        _OBJECTIVE,
        Bounds(deadline=deadline, solver=solver),
        default_movable(start),
        allow_evictions=True,
        gaps=gaps,
    )
    took = time.monotonic() - begun
    targets = {move.pod.uid: move.target for move in (*packed.moves, *packed.awaited)}
    after = start.without(pod.uid for pod in packed.evicted).with_placed(targets)
    ours = count_placed(after, levels)
    proven = is_placement_proven(packed)
    size = sum((node.allocatable for node in start.nodes.values()), Resources())
    more = _sum_requests(after) - _sum_requests(theirs)
    return Call(
        seconds=seconds,
        took=took,
        load=load,
        gaps=gaps,
        category=category(
            count_placed(theirs, levels), ours, proven=proven, holds=has_no_overload(after)
        ),
        proven=packed.proven,
        placed=ours,
        cpu=100 * more.cpu / size.cpu,
        memory=100 * more.memory / size.memory,
        moves=len(packed.moves),
        evictions=len(packed.evicted),
    )


def category(theirs: Placed, ours: Placed, *, proven: bool, holds: bool = True) -> Category:
    """Classify a solver call's result against kube-scheduler's, by the categories of "Priority
    Matters".

    `proven`: the number of placed pods is optimal. `holds`: no node exceeds its capacity.
    """
    if not holds:
        return Category.FAILURE
    if ours > theirs:
        return Category.BETTER_AND_OPTIMAL if proven else Category.BETTER
    return Category.KWOK_OPTIMAL if proven and ours == theirs else Category.FAILURE


def count_placed(snapshot: Snapshot, levels: Sequence[int]) -> Placed:
    counts = Counter(snapshot.pods[uid].pod_class.priority for uid in snapshot.placed)
    return tuple(counts[level] for level in levels)


def is_placement_proven(packed: Packed) -> bool:
    return all(
        certificate.proven
        for certificate in packed.certificates
        if certificate.goal.startswith("placed")
    )


def has_no_overload(after: Snapshot) -> bool:
    return all(amount >= 0 for free in after.free.values() for _, amount in free.items())


def place_by_paper(start: Snapshot, levels: Sequence[int], solver: Solver) -> Placed | None:
    """Solve the integer programme (MIP) of "Priority Matters" without time limit; return the placed
    pods by priority level, or None without proof.

    The program minimises migrations of a tier before it places the next tier: no pod migrates for a
    less important pod.
    """
    gains = Gains.of(start, lambda _: _QOS_TARGET, _OBJECTIVE)
    problem = ClusterProblem.pose(start, default_movable(start), gains, allow_evictions=True)
    phases = Phases(problem, gains, by_tier=True)
    loads, found = phases.solve_goals(solver, NO_DEADLINE, problem.old)
    placed = dict(zip(problem.priorities, problem.count_placed(loads), strict=True))
    return tuple(placed.get(level, 0) for level in levels) if found.proven else None


def _sum_requests(snapshot: Snapshot) -> Resources:
    return sum((snapshot.pods[uid].requests for uid in snapshot.placed), Resources())

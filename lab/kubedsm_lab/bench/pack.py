"""Packing by the search alone, and with each of the solvers, on the same instances."""

import random
import statistics
import time
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from kubedsm.model.deadline import Deadline
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.packing.pack import Packed, pack_cluster
from kubedsm.optimizer.programming.programme import Solver
from kubedsm.solvers.available import SolverKind, installed, solver_of
from kubedsm_lab.baselines.arrivals import served
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.replay.packing.instances import Shape, instance

#: as in "Priority Matters" (arXiv 2511.08373): nodes, and pods a node
SIZES = ((4, 4), (4, 8), (8, 4), (8, 8), (16, 8), (32, 8))
_PRIORITIES, _USAGE = 4, 100
#: with a weight of nothing it is that paper's problem: no edge share is worth anything
_PROMISE = QosTarget(weight=0.0)
_KINDS: tuple[SolverKind, ...] = ("off", "highs", "cp-sat")


@attrs.frozen
class PackResult:
    """Of some instances of one size."""

    nodes: int
    pods_per_node: int
    #: who was asked beside the search; `off`: nobody
    solver: SolverKind
    instances: int
    #: of how many it was proven that no more can be placed, and of how many all
    placed_proven: int
    proven: int
    #: median
    seconds: float
    #: of all instances together: pods that waited, and of these those that get a node
    waiting: int
    placed: int
    moves: int

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "podsPerNode": self.pods_per_node,
            "solver": self.solver,
            "instances": self.instances,
            "placedProven": self.placed_proven,
            "proven": self.proven,
            "seconds": round(self.seconds, 3),
            "waiting": self.waiting,
            "placed": self.placed,
            "moves": self.moves,
        }


def run(instances: int = 3, seconds: float = 1.0, gaps: bool = True) -> Iterator[PackResult]:
    """Each as soon as it is known; without those solvers that are not installed."""
    kinds = [kind for kind in _KINDS if kind == "off" or installed(kind)]
    for nodes, pods_per_node in SIZES:
        shape = Shape(nodes, pods_per_node, _PRIORITIES, _USAGE)
        starts = [_start(shape, seed) for seed in range(1, instances + 1)]
        for kind in kinds:
            solver = solver_of(kind, seconds)
            timed = [_packed(start, solver, seconds, gaps=gaps) for start in starts]
            yield _result(shape, kind, starts, timed)


def _start(shape: Shape, seed: int) -> Snapshot:
    one = instance(shape, seed)
    rng = random.Random(seed)
    return served(one.empty, one.arrivals, kube_scheduler, rng, preempting=False).snapshot


def _packed(
    start: Snapshot, solver: Solver | None, seconds: float, *, gaps: bool
) -> tuple[Packed, float]:
    begun = time.monotonic()
    deadline = Deadline(lambda: (time.monotonic() - begun) / seconds, seconds)
    found = pack_cluster(
        start,
        lambda _: _PROMISE,
        Objective(),
        Bounds(deadline=deadline, solver=solver),
        default_movable(start),
        gaps=gaps,
    )
    return found, time.monotonic() - begun


def _result(
    shape: Shape,
    kind: SolverKind,
    starts: Iterable[Snapshot],
    timed: list[tuple[Packed, float]],
) -> PackResult:
    packed = [found for found, _ in timed]
    return PackResult(
        shape.nodes,
        shape.pods_per_node,
        kind,
        len(packed),
        sum(found.placed_proven for found in packed),
        sum(found.proven for found in packed),
        statistics.median(taken for _, taken in timed),
        sum(len(start.pods) - len(start.placed) for start in starts),
        sum(len(found.awaited) for found in packed),
        sum(len(found.moves) for found in packed),
    )

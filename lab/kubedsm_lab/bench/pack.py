"""`kubedsm bench pack`: whole clusters packed by search alone, and with each solver."""

import random
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from kubedsm.model.deadline import Deadline
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective, QosTarget
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.packing.pack import Packed, pack_cluster
from kubedsm.solvers.available import SolverKind, installed, solver_of
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.baselines.arrivals import served
from kubedsm_lab.baselines.kube_scheduler import kube_scheduler
from kubedsm_lab.bench.report import Report
from kubedsm_lab.replay.packing.instances import Shape, instance

#: Nodes, and pods per node, as in "Priority Matters" (arXiv 2511.08373).
SIZES = ((4, 4), (4, 8), (8, 4), (8, 8), (16, 8), (32, 8))
_PRIORITIES, _USAGE = 4, 100
#: The paper has no edge shares, so QoS targets have no weight.
_TARGET = QosTarget(weight=0.0)
_KINDS: tuple[SolverKind, ...] = ("off", "highs", "cp-sat")


def run(instances: int, seconds: float) -> Report:
    """Pack as many instances of each size with each installed solver, and with none."""
    kinds = [kind for kind in _KINDS if kind == "off" or installed(kind)]
    figures = []
    for nodes, pods_per_node in SIZES:
        shape = Shape(nodes, pods_per_node, _PRIORITIES, _USAGE)
        starts = [_fill_cluster(shape, seed) for seed in range(1, instances + 1)]
        for kind in kinds:
            packed = [_pack_cluster(start, kind, seconds) for start in starts]
            figures.append(
                {
                    "nodes": nodes,
                    "podsPerNode": pods_per_node,
                    "solver": kind,
                    **_sum_figures(starts, packed),
                }
            )
    headings = ("nodes x pods", "solver", "placed", "moves", "most proven", "all proven", "s")
    rows = (
        (
            f"{each['nodes']} x {each['podsPerNode']}",
            each["solver"],
            f"{each['placed']}/{each['waiting']}",
            str(each["moves"]),
            f"{each['placedProven']}/{instances}",
            f"{each['proven']}/{instances}",
            f"{each['seconds']:.2f}",
        )
        for each in figures
    )
    return Report(figures, [table(headings, rows, numbers=headings[2:])])


def _fill_cluster(shape: Shape, seed: int) -> Snapshot:
    """Return a cluster filled by kube-scheduler without preemption."""
    one = instance(shape, seed)
    rng = random.Random(seed)
    return served(one.empty, one.arrivals, kube_scheduler, rng, preempting=False).snapshot


def _pack_cluster(start: Snapshot, kind: SolverKind, seconds: float) -> tuple[Packed, float]:
    """Return the packing and its wall-clock seconds."""
    begun = time.monotonic()
    deadline = Deadline(lambda: (time.monotonic() - begun) / seconds, seconds)
    found = pack_cluster(
        start,
        lambda _: _TARGET,
        Objective(),
        Bounds(deadline=deadline, solver=solver_of(kind, seconds)),
        default_movable(start),
        gaps=True,
    )
    return found, time.monotonic() - begun


def _sum_figures(
    starts: Sequence[Snapshot], packed: Sequence[tuple[Packed, float]]
) -> dict[str, Any]:
    """Return figures over all instances of a size; seconds are the median."""
    found = [packing for packing, _ in packed]
    return {
        "instances": len(found),
        "placedProven": sum(packing.placed_proven for packing in found),
        "proven": sum(packing.proven for packing in found),
        "seconds": round(median(seconds for _, seconds in packed), 3),
        "waiting": sum(len(start.pods) - len(start.placed) for start in starts),
        "placed": sum(len(packing.awaited) for packing in found),
        "moves": sum(len(packing.moves) for packing in found),
    }

"""Scheduler of the load-aware paper: kube-scheduler with a Score plugin for measured load, and a
descheduler.

The plugin is `kubedsm.objective.load`. The descheduler evicts one pod per run; the scheduler places
the replacement.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kubedsm.model.model import Node, Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.load import LoadGoal
from kubedsm.optimizer.moving.movable import Movable
from kubedsm_lab.baselines.in_turn import NodeUsage
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores

if TYPE_CHECKING:
    import random


def load_aware(pod: Pod, fitting: Sequence[Node], room: NodeUsage, _rng: "random.Random") -> Node:
    """Choose the node with the highest sum of kube-scheduler's total score and the score for
    measured load.

    A node without measurements gets the mean load score of the other nodes. Ties are alphabetical.
    """
    totals = np.array(total_scores(scores(pod, fitting, room)), dtype=np.float64)
    if room.loads is not None:
        index = room.loads.nodes
        at = np.array([index.positions[node.name] for node in fitting], dtype=np.intp)
        measured = room.loads.scores(pod, at)
        unknown = np.isnan(measured)
        if not unknown.all():
            measured[unknown] = measured[~unknown].mean()
            totals += room.loads.goal.weight * measured
    return fitting[int(totals.argmax())]


def one_eviction(snapshot: Snapshot, goal: LoadGoal, movable: Movable) -> Pod | None:
    """Choose the pod that the load-aware paper's descheduler evicts next; None if no pod qualifies.

    The pod comes from the most imbalanced node with a candidate, and gains the largest score on any
    other feasible node. `movable` returns the reason why a pod must stay, or None. The paper has no
    guard against high consumption, so the threshold of the goal may be infinite.
    """
    room = NodeUsage.of(snapshot, goal)
    loads = room.loads
    if loads is None:
        return None
    for source in loads.most_uneven_first:
        best: tuple[float, Pod] | None = None
        for pod in sorted(room.pods[loads.nodes.names[source]], key=str):
            if movable(pod):
                continue
            taking = room.feasibility.without_pod(pod.uid).taking(pod)
            gain = float(loads.gains(pod, source)[taking].max(initial=0.0))
            if gain > (best[0] if best else 0.0):
                best = gain, pod
        if best is not None:
            return best[1]
    return None

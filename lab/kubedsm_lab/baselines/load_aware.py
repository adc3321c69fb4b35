"""The load-aware paper: kube-scheduler with one Score plugin more, and its descheduler.

The plugin is `core.goals.load`. The descheduler evicts one pod a run; where its replacement goes is
for the scheduler to say.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kubedsm.model.model import Node, Pod
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.load import LoadGoal
from kubedsm.optimizer.moving.movable import Movable
from kubedsm_lab.baselines.in_turn import Room
from kubedsm_lab.baselines.kube_scheduler import scores, total_scores

if TYPE_CHECKING:
    import random


def load_aware(pod: Pod, fitting: Sequence[Node], room: Room, _rng: "random.Random") -> Node:
    """Select the alphabetically first of the highest-scoring nodes.

    A node without measurements counts as the average of the others.
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
    """Return the pod with the largest score improvement, from the most imbalanced node with a
    candidate; None without candidates.

    Targets are all feasible nodes. `movable` explains why a pod must stay, or returns None. The
    paper has no guard against high consumption: the threshold of the goal can be infinite.
    """
    room = Room.of(snapshot, goal)
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

"""One-at-a-time placement: the floor that every decision about a batch reaches.

Pods are taken in serving order. Each gets the node that a batch of that pod alone would get, next
to the pods placed before. As in kube-scheduler, a later pod may break the rules of an earlier one.
No deadline cuts this short: the time is linear in the number of pods.
"""

from collections.abc import Callable

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE
from kubedsm.model.model import Resources, Tier
from kubedsm.model.node_index import NodeRows, Positions
from kubedsm.objective.fragmentation import Ints, axes_of, row
from kubedsm.objective.replica_spread import spreads
from kubedsm.optimizer.placing.alone import choose_node
from kubedsm.optimizer.placing.batch import Batch
from kubedsm.optimizer.placing.settling import OpenNodes, Settling
from kubedsm.plugins.feasibility import Feasibility

#: Overhead in nodes, and limit, of pods times request vectors times edge nodes.
_OVERHEAD, _MOST_MEASURED = 100, 10_000_000


def place_one_at_a_time(batch: Batch, feasibility: Feasibility) -> Settling:
    """Place every pod that finds a node on its turn.

    Pods without a node are tried again at the end: others may have opened a node to them.
    """
    surroundings = feasibility.scene.surroundings
    settling = Settling(
        feasibility.index,
        feasibility.room,
        OpenNodes(feasibility, surroundings, batch.pods),
        feasibility.skews(batch.pods),
        surroundings,
        batch.gain_at_edge,
        batch.turn,
        NO_DEADLINE,
        batch.spread.copy() if batch.spread is not None else None,
        forgetful=True,
    )
    nodes = len(batch.edge.positions) + _OVERHEAD
    measured = len(batch.pods) * len(batch.fragmentation.mix) * nodes <= _MOST_MEASURED
    for pod in batch.pods:
        open_to = settling.open_to(pod)
        if open_to is None:
            continue
        edge, cloud = (
            batch.snapshot.in_turn(tier, settling.room, len(settling.placed))
            for tier in (Tier.EDGE, Tier.CLOUD)
        )
        company = penalties = np.zeros(len(open_to), dtype=np.int64)
        if settling.spread is not None and spreads(pod):
            company = settling.spread.by_node(pod.workload, edge.index)
        differing = settling.open.penalties(pod, open_to.nonzero()[0])
        chosen = choose_node(
            pod.requests,
            open_to,
            edge,
            cloud,
            batch.gain_at_edge(pod.workload, settling.edge[pod.workload]),
            (_added_fragmentation if measured else _room_left)(batch, edge, pod.requests),
            company,
            penalties if differing is None else differing,
        )
        if chosen is not None:
            settling.put(pod, edge.index.names[chosen[0]])
    settling.retry(pod for pod in batch.pods if pod.uid not in settling.placed)
    return settling


def _added_fragmentation(
    batch: Batch, edge: NodeRows, requests: Resources
) -> Callable[[Positions], Ints]:
    """Return the fragmentation that such a pod adds to rows of the edge."""
    measure = batch.fragmentation
    axes = axes_of([requests, *(vector for vector, _ in measure.mix)])

    def added(rows: Positions) -> Ints:
        some = attrs.evolve(edge, positions=edge.positions[rows])
        size, room = some.allocatable(axes), some.free(axes)
        rooms = np.concatenate((room, room - row(requests, axes)))
        before, after = np.split(measure.costs(axes, np.concatenate((size, size)), rooms), 2)
        return np.asarray(after - before)

    return added


def _room_left(_: Batch, edge: NodeRows, __: Resources) -> Callable[[Positions], Ints]:
    """Return the free share of these rows of the edge: the stand-in where mixes are large."""
    basic = ("cpu", "memory")

    def added(rows: Positions) -> Ints:
        some = attrs.evolve(edge, positions=edge.positions[rows])
        shares = 1000 * some.free(basic) // np.maximum(some.allocatable(basic), 1)
        return np.asarray(shares.sum(axis=1))

    return added

"""Which pods may be moved at all, as far as the snapshot can tell."""

from collections.abc import Callable
from functools import cache

from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Promises
from kubedsm.objective.qos_targets import is_capped
from kubedsm.optimizer.moving.suggestion import Cause, Reason

#: Why the pod must stay where it is; None if it need not.
Movable = Callable[[Pod], Reason | None]

#: These are not replaced elsewhere: they have no owner, belong to their node, or would start anew.
_NEVER = frozenset({"DaemonSet", "Pod", "Node", "Job"})

#: in the order in which they are looked at
_CAUSES = (
    Cause.OF_ANOTHER_SCHEDULER,
    Cause.FINISHED,
    Cause.TERMINATING,
    Cause.NAMESPACE_TERMINATING,
    Cause.DETACHED,
    Cause.MARKED,
    Cause.GATED,
    Cause.ON_NO_NODE,
    Cause.BEYOND_ANY_NODE,
    Cause.ON_NO_TIER,
    Cause.NOT_RUNNING,
    Cause.NOT_READY,
)


def default_movable(snapshot: Snapshot) -> Movable:
    """Opted-in pods that run, are ready, and have an owner that replaces them anywhere."""

    nodes, placed, name = snapshot.nodes, snapshot.placed, snapshot.scheduler_name
    ending = cache(snapshot.surroundings.namespace_terminating)

    def reason(pod: Pod) -> Reason | None:
        if pod.pinned:
            return Cause.PINNED.of(pod.pinned)
        if pod.workload.kind in _NEVER and pod.scheduler_name == name:
            return Cause.NOT_REPLACED.of(pod.workload.kind)
        node = nodes.get(placed.get(pod.uid, NodeName("")))
        # Every pod is asked about, and mostly nothing is said.
        found = (
            pod.scheduler_name != name,
            pod.finished,
            pod.terminating,
            ending(pod.namespace),
            pod.detached,
            MIGRATING_LABEL in pod.labels,
            pod.gated,
            pod.node_name is None,
            pod.requests.beyond_any_node,
            node is None or node.tier is None,
            pod.phase != "Running",
            not pod.ready,
        )
        return _CAUSES[found.index(True)].of() if True in found else None

    return reason


def unless_unwanted(snapshot: Snapshot, promises: Promises, movable: Movable) -> Movable:
    """The same; and no pod of the cloud may go to an edge that wants no more of its workload."""

    def reason(pod: Pod) -> Reason | None:
        why = movable(pod)
        if why is None and is_capped(promises, pod.workload):
            node = snapshot.nodes.get(snapshot.placed.get(pod.uid, NodeName("")))
            if node is not None and node.tier is Tier.CLOUD:
                return Cause.EDGE_SLOWER.of()
        return why

    return reason

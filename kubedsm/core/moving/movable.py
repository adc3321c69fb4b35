"""Which pods may be moved at all, as far as the snapshot can tell."""

from collections.abc import Callable

from kubedsm.core.moving.suggestion import Cause, Reason
from kubedsm.core.world.model import MIGRATING_LABEL, NodeName, Pod
from kubedsm.core.world.snapshot import Snapshot

#: Why the pod must stay where it is; None if it need not.
Movable = Callable[[Pod], Reason | None]

#: These are not replaced elsewhere: they have no owner, belong to their node, or would start anew.
_NEVER = frozenset({"DaemonSet", "Pod", "Node", "Job"})


def default_movable(snapshot: Snapshot) -> Movable:
    """Opted-in pods that run, are ready, and have an owner that replaces them anywhere."""

    def reason(pod: Pod) -> Reason | None:
        if pod.pinned:
            return Cause.PINNED.of(pod.pinned)
        if pod.workload.kind in _NEVER and pod.scheduler_name == snapshot.scheduler_name:
            return Cause.NOT_REPLACED.of(pod.workload.kind)
        node = snapshot.nodes.get(snapshot.placed.get(pod.uid, NodeName("")))
        found = {
            Cause.OF_ANOTHER_SCHEDULER: pod.scheduler_name != snapshot.scheduler_name,
            Cause.FINISHED: pod.finished,
            Cause.TERMINATING: pod.terminating,
            Cause.NAMESPACE_TERMINATING: snapshot.surroundings.namespace_terminating(pod.namespace),
            Cause.DETACHED: pod.detached,
            Cause.MARKED: MIGRATING_LABEL in pod.labels,
            Cause.GATED: pod.gated,
            Cause.ON_NO_NODE: pod.node_name is None,
            Cause.BEYOND_ANY_NODE: pod.requests.beyond_any_node,
            Cause.ON_NO_TIER: node is None or node.tier is None,
            Cause.NOT_RUNNING: pod.phase != "Running",
            Cause.NOT_READY: not pod.ready,
        }
        return next((cause.of() for cause, true in found.items() if true), None)

    return reason

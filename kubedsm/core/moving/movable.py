"""Which pods may be moved at all, as far as the snapshot can tell."""

from collections.abc import Callable

from kubedsm.core.world.model import MIGRATING_LABEL, NodeName, Pod, Snapshot

#: "" or the reason why the pod must stay where it is.
Movable = Callable[[Pod], str]

NAMESPACE_TERMINATING = "its namespace is being deleted"
#: These are not replaced elsewhere: they have no owner, belong to their node, or would start anew.
_NEVER = frozenset({"DaemonSet", "Pod", "Node", "Job"})


def default_movable(snapshot: Snapshot) -> Movable:
    """Opted-in pods that run, are ready, and have an owner that replaces them anywhere."""

    def reason(pod: Pod) -> str:
        node = snapshot.nodes.get(snapshot.placed.get(pod.uid, NodeName("")))
        said = {
            "it belongs to another scheduler": pod.scheduler_name != snapshot.scheduler_name,
            f"it belongs to a {pod.workload.kind}": pod.workload.kind in _NEVER,
            "it has finished": pod.finished,
            "it is being deleted": pod.terminating,
            NAMESPACE_TERMINATING: snapshot.surroundings.namespace_terminating(pod.namespace),
            "it is being moved": pod.detached,
            f"it carries the label {MIGRATING_LABEL}": MIGRATING_LABEL in pod.labels,
            "it is gated": pod.gated,
            "it is not on a node": pod.node_name is None,
            "it asks for more than any node has": pod.requests.beyond_any_node,
            "its node is neither edge nor cloud": node is None or node.tier is None,
            "it is not running": pod.phase != "Running",
            "it is not ready": not pod.ready,
        }
        return pod.pinned or next((text for text, true in said.items() if true), "")

    return reason

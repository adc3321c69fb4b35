"""What can be watched: where it is served, how its JSON is read, which events it makes."""

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
import msgspec

from kubedsm.cluster import wire
from kubedsm.core.events import ClusterEvent, NodeApplied, NodeDeleted, PodApplied, PodDeleted
from kubedsm.core.model import Node, NodeName, Pod, Uid

T = TypeVar("T")
E = TypeVar("E")


@attrs.frozen(slots=True)
class Watched(Generic[T, E]):
    """Objects of type T, told as events of type E."""

    kind: str
    path: str
    read_item: Callable[[msgspec.Raw], wire.Applied[T]]
    read_line: Callable[[bytes], wire.Line[T]]
    applied: Callable[[T], E]
    deleted: Callable[[wire.Identity], E]
    #: of labelSelector and fieldSelector
    selectors: tuple[tuple[str, str], ...] = ()


def _pod_deleted(pod: wire.Identity) -> ClusterEvent:
    return PodDeleted(Uid(pod.uid), pod.namespace, pod.name)


def _node_deleted(node: wire.Identity) -> ClusterEvent:
    return NodeDeleted(NodeName(node.name))


PODS: Watched[Pod, ClusterEvent] = Watched(
    "Pod", "/api/v1/pods", wire.pod_item, wire.pod_line, PodApplied, _pod_deleted
)
NODES: Watched[Node, ClusterEvent] = Watched(
    "Node", "/api/v1/nodes", wire.node_item, wire.node_line, NodeApplied, _node_deleted
)

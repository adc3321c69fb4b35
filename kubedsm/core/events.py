"""What can happen to a cluster, as the mirror is told it."""

import attrs

from kubedsm.core.model import Node, NodeName, Pod, Uid


@attrs.frozen(slots=True)
class PodApplied:
    """A pod was created or changed."""

    pod: Pod


@attrs.frozen(slots=True)
class PodDeleted:
    """A pod is gone: seen in a watch, or missing from a fresh list."""

    uid: Uid
    namespace: str
    name: str


@attrs.frozen(slots=True)
class NodeApplied:
    node: Node


@attrs.frozen(slots=True)
class NodeDeleted:
    name: NodeName


ClusterEvent = PodApplied | PodDeleted | NodeApplied | NodeDeleted

"""Objects observed by a recording, with the fields that `kubedsm.model` omits.

These are evictions, emulated nodes and Deployments, on which no scheduling decision depends.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from kubedsm.kube.wire import decoding, schema
from kubedsm.kube.wire.decoding import Identity, Reader
from kubedsm.kube.wire.pods import pod_of
from kubedsm.kube.wire.schema import Wire
from kubedsm.model.model import Node, Pod
from kubedsm_lab.emulator.emulated_cluster import EMULATED_RUNTIME

_EVICTED = ("DisruptionTarget", "EvictionByEvictionAPI")


@attrs.frozen(slots=True)
class PodSeen:
    pod: Pod
    #: evicted by the Eviction API, which sets a condition on the pod before the deletion
    evicted: bool


@attrs.frozen(slots=True)
class NodeSeen:
    node: Node
    emulated: bool


@attrs.frozen(slots=True)
class DeploymentSeen:
    namespace: str
    name: str
    replicas: int
    #: labels of its pods
    labels: Mapping[str, str]


@attrs.frozen(slots=True)
class Gone:
    """Deleted object of a kind."""

    kind: str
    identity: Identity


Sighting = PodSeen | NodeSeen | DeploymentSeen | Gone


class _NodeInfo(Wire, frozen=True):
    container_runtime_version: str | None = None


class _NodeStatus(schema.NodeStatus, frozen=True):
    node_info: _NodeInfo = _NodeInfo()


class _Node(schema.Node, frozen=True):
    status: _NodeStatus | None = None


def _read_pod(shape: schema.Pod) -> PodSeen:
    conditions = (shape.status and shape.status.conditions) or ()
    return PodSeen(pod_of(shape), any((c.type, c.reason) == _EVICTED for c in conditions))


def _read_node(shape: _Node) -> NodeSeen:
    info = shape.status.node_info if shape.status else _NodeInfo()
    return NodeSeen(decoding.node_of(shape), info.container_runtime_version == EMULATED_RUNTIME)


def _read_deployment(shape: schema.Workload) -> DeploymentSeen:
    labels = shape.spec.template.metadata.labels or {}
    metadata = shape.metadata
    return DeploymentSeen(metadata.namespace or "", metadata.name, shape.wanted, labels)


#: nodes before their pods
READERS: Mapping[str, Reader[Any, Sighting]] = {
    "Node": Reader("Node", _Node, _read_node),
    "Deployment": Reader("Deployment", schema.Workload, _read_deployment),
    "Pod": Reader("Pod", schema.Pod, _read_pod),
}

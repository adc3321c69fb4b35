"""Watched kinds: path, decoder, and the events of `model` that their changes become."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs
import msgspec

from kubedsm.kube.client.port import CORE, path_of
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.model.events import (
    ClusterEvent,
    HistoryRewound,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
)
from kubedsm.model.model import Node, NodeName, Pod, Uid
from kubedsm.model.surroundings import (
    Claim,
    CSINode,
    Namespace,
    StorageClass,
    Surrounding,
    Volume,
)

T = TypeVar("T")
E = TypeVar("E")


@attrs.frozen(slots=True)
class Watched(Generic[T, E]):
    """Kind with objects of type T, reported as events of type E."""

    kind: str
    path: str
    read_item: Callable[[msgspec.Raw], decoding.Applied[T]]
    read_line: Callable[[bytes], decoding.Line[T]]
    applied: Callable[[T], E]
    deleted: Callable[[decoding.Identity], E]
    #: labelSelector and fieldSelector
    selectors: tuple[tuple[str, str], ...] = ()
    #: event before the first object of a rewound history, for consumers that remember versions
    rewound: E | None = None


def _pod_deleted(pod: decoding.Identity) -> ClusterEvent:
    return PodDeleted(Uid(pod.uid), pod.namespace, pod.name)


def _node_deleted(node: decoding.Identity) -> ClusterEvent:
    return NodeDeleted(NodeName(node.name))


PODS: Watched[Pod, ClusterEvent] = Watched(
    "Pod",
    "/api/v1/pods",
    decoding.pod_item,
    decoding.pod_line,
    PodApplied,
    _pod_deleted,
    rewound=HistoryRewound(),
)
NODES: Watched[Node, ClusterEvent] = Watched(
    "Node", "/api/v1/nodes", decoding.node_item, decoding.node_line, NodeApplied, _node_deleted
)


def _surrounding(
    of: type[Surrounding], path: str, reader: decoding.Reader[Any, Any], *, namespaced: bool = False
) -> Watched[Any, ClusterEvent]:
    def deleted(gone: decoding.Identity) -> ClusterEvent:
        key = (gone.namespace, gone.name) if namespaced else (gone.name,)
        return SurroundingDeleted(of, key)

    return Watched(reader.kind, path, reader.item, reader.line, SurroundingApplied, deleted)


NAMESPACES = _surrounding(Namespace, "/api/v1/namespaces", decoding.NAMESPACES)
CLAIMS = _surrounding(Claim, "/api/v1/persistentvolumeclaims", decoding.CLAIMS, namespaced=True)
VOLUMES = _surrounding(Volume, "/api/v1/persistentvolumes", decoding.VOLUMES)
STORAGE_CLASSES = _surrounding(
    StorageClass, "/apis/storage.k8s.io/v1/storageclasses", decoding.STORAGE_CLASSES
)
CSI_NODES = _surrounding(CSINode, "/apis/storage.k8s.io/v1/csinodes", decoding.CSI_NODES)


def config_map(namespace: str, name: str) -> Watched[ConfigMap, ConfigMap | None]:
    """Return the kind that consists of one ConfigMap; None is reported if it is deleted.

    The field selector allows a role to limit the right to this name (`resourceNames`).
    """
    return Watched(
        decoding.CONFIG_MAPS.kind,
        path_of(CORE, namespace, "configmaps"),
        decoding.CONFIG_MAPS.item,
        decoding.CONFIG_MAPS.line,
        lambda found: found,
        lambda _: None,
        selectors=(("fieldSelector", f"metadata.name={name}"),),
    )


SURROUNDINGS: Mapping[type[Surrounding], Watched[Any, ClusterEvent]] = {
    Namespace: NAMESPACES,
    Claim: CLAIMS,
    Volume: VOLUMES,
    StorageClass: STORAGE_CLASSES,
    CSINode: CSI_NODES,
}

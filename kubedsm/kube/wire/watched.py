"""Watched kinds: path, decoder, and resulting events of `model`."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs

from kubedsm.kube.client.port import CORE, path_of
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.decoding import ConfigMap, Identity, Reader
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
from kubedsm.model.surroundings import Claim, CSINode, Namespace, StorageClass, Surrounding, Volume

T = TypeVar("T")
E = TypeVar("E")

_STORAGE = "/apis/storage.k8s.io/v1"


@attrs.frozen(slots=True)
class Watched(Generic[T, E]):
    """Kind with objects of type T, reported as events of type E."""

    reader: Reader[Any, T]
    path: str
    applied: Callable[[T], E]
    deleted: Callable[[Identity], E]
    #: objects have a namespace
    namespaced: bool = False
    #: labelSelector and fieldSelector
    selectors: tuple[tuple[str, str], ...] = ()
    #: event preceding a rewound history, for consumers that remember versions
    rewound: E | None = None

    @property
    def kind(self) -> str:
        return self.reader.kind


PODS: Watched[Pod, ClusterEvent] = Watched(
    decoding.PODS,
    f"{CORE}/pods",
    PodApplied,
    lambda pod: PodDeleted(Uid(pod.uid), pod.namespace, pod.name),
    namespaced=True,
    rewound=HistoryRewound(),
)
NODES: Watched[Node, ClusterEvent] = Watched(
    decoding.NODES, f"{CORE}/nodes", NodeApplied, lambda node: NodeDeleted(NodeName(node.name))
)


def _watch_surrounding(
    of: type[Surrounding], path: str, reader: Reader[Any, Any], *, namespaced: bool = False
) -> Watched[Any, ClusterEvent]:
    def deleted(gone: Identity) -> ClusterEvent:
        key = (gone.namespace, gone.name) if namespaced else (gone.name,)
        return SurroundingDeleted(of, key)

    return Watched(reader, path, SurroundingApplied, deleted, namespaced)


SURROUNDINGS: Mapping[type[Surrounding], Watched[Any, ClusterEvent]] = {
    of: _watch_surrounding(of, path, reader, namespaced=of is Claim)
    for of, path, reader in (
        (Namespace, f"{CORE}/namespaces", decoding.NAMESPACES),
        (Claim, f"{CORE}/persistentvolumeclaims", decoding.CLAIMS),
        (Volume, f"{CORE}/persistentvolumes", decoding.VOLUMES),
        (StorageClass, f"{_STORAGE}/storageclasses", decoding.STORAGE_CLASSES),
        (CSINode, f"{_STORAGE}/csinodes", decoding.CSI_NODES),
    )
}


def watch_config_map(namespace: str, name: str) -> Watched[ConfigMap, ConfigMap | None]:
    """Return a kind consisting of a single ConfigMap; deletion is reported as None.

    The field selector allows a role to limit the right to this name (`resourceNames`).
    """
    return Watched(
        decoding.CONFIG_MAPS,
        path_of(CORE, namespace, "configmaps"),
        lambda found: found,
        lambda _: None,
        namespaced=True,
        selectors=(("fieldSelector", f"metadata.name={name}"),),
    )

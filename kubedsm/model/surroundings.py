"""What is neither a node nor a pod, and scheduling rules ask about."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import attrs

from kubedsm.model.selectors import NodeSelectorTerm, Selector, selects

#: Label with the name of each namespace, set by the API server.
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
#: volumes of a driver on a node without a limit
UNLIMITED = 2**63 - 1


@attrs.frozen(slots=True)
class Namespace:
    name: str
    labels: Mapping[str, str] = attrs.field(factory=dict)
    #: terminating: no new objects are admitted
    terminating: bool = False


@attrs.frozen(slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    #: spec.volumeName: the bound or intended volume
    volume: str = ""
    #: the binding is complete
    bound: bool = False
    #: phase Lost: the volume is gone
    lost: bool = False
    terminating: bool = False
    #: ReadWriteOncePod: never two pods at once
    once_per_pod: bool = False
    storage_class: str = ""


class CSIVolume(NamedTuple):
    """What a CSI driver attaches to a node: the same for all PersistentVolumes that name it."""

    driver: str
    handle: str


@attrs.frozen(slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    #: spec.nodeAffinity.required: nodes with access; None: all nodes
    nodes: tuple[NodeSelectorTerm, ...] | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    #: spec.csi; None for a volume of another kind
    csi: CSIVolume | None = None


@attrs.frozen(slots=True)
class CSINode:
    """What the CSI drivers of the node of that name say of it."""

    name: str
    #: spec.drivers[].allocatable.count by driver, where set
    limits: Mapping[str, int] = attrs.field(factory=dict)

    def limit(self, driver: str) -> int:
        """How many volumes the driver can attach to the node."""
        return self.limits.get(driver, UNLIMITED)


@attrs.frozen(slots=True)
class StorageClass:
    name: str
    #: volumeBindingMode is WaitForFirstConsumer: a volume is made once a node was chosen
    waits_for_consumer: bool = False


Surrounding = Namespace | Claim | Volume | StorageClass | CSINode
#: A claim by namespace and name, the others by name alone.
Key = tuple[str, ...]


def key_of(thing: Surrounding) -> Key:
    return (thing.namespace, thing.name) if isinstance(thing, Claim) else (thing.name,)


@attrs.frozen(slots=True)
class Surroundings:
    """All of them, as far as they are known.

    None for a kind that we were not told of. Then every claim is taken for bound, every volume for
    one that every node reaches, and no number of volumes for too many.
    """

    namespaces: Mapping[Key, Namespace] | None = None
    claims: Mapping[Key, Claim] | None = None
    volumes: Mapping[Key, Volume] | None = None
    storage_classes: Mapping[Key, StorageClass] | None = None
    csi_nodes: Mapping[Key, CSINode] | None = None

    def with_kind(self, kind: type[Surrounding]) -> Self:
        """The same, with that kind known: what we were not told of does not exist."""
        return self._replace_things(kind, {})

    def with_object(self, thing: Surrounding) -> Self:
        """The same with this thing, which takes the place of one by its name."""
        return self._replace_things(type(thing), {key_of(thing): thing})

    def without_object(self, kind: type[Surrounding], key: Key) -> Self:
        """The same without that thing."""
        things = dict(self._things_of(kind))
        things.pop(key, None)
        return attrs.evolve(self, **{_FIELDS[kind]: things})

    def get(self, kind: type[Surrounding], key: Key) -> Surrounding | None:
        thing: Surrounding | None = self._things_of(kind).get(key)
        return thing

    def list_known(self) -> Iterator[tuple[type[Surrounding], Iterable[Surrounding]]]:
        """The kinds that we are told of, and what there is of them."""
        for kind, field in _FIELDS.items():
            things: Mapping[Key, Surrounding] | None = getattr(self, field)
            if things is not None:
                yield kind, things.values()

    def _things_of(self, kind: type[Surrounding]) -> Mapping[Key, Any]:
        return getattr(self, _FIELDS[kind]) or {}

    def _replace_things(self, kind: type[Surrounding], more: Mapping[Key, Any]) -> Self:
        return attrs.evolve(self, **{_FIELDS[kind]: {**self._things_of(kind), **more}})

    def claims_at(self, keys: Iterable[Key]) -> Iterator[Claim]:
        """Those of the claims that are there."""
        for key in keys:
            claim = (self.claims or {}).get(key)
            if claim is not None:
                yield claim

    def volumes_at(self, keys: Iterable[Key]) -> Iterator[Volume]:
        """The volumes of the claims with these keys, as far as they are there."""
        for claim in self.claims_at(keys):
            volume = (self.volumes or {}).get((claim.volume,))
            if volume is not None:
                yield volume

    def csi_volumes_at(self, keys: Iterable[Key]) -> frozenset[CSIVolume]:
        """What CSI drivers attach to a node for a pod that mounts these claims."""
        return frozenset(v.csi for v in self.volumes_at(keys) if v.csi is not None)

    def namespace_terminating(self, name: str) -> bool:
        known = (self.namespaces or {}).get((name,))
        return known is not None and known.terminating

    def namespace_selected(self, selector: Selector, name: str) -> bool:
        """True if the labels of the namespace satisfy the selector."""
        if selector is None:
            return False
        known = (self.namespaces or {}).get((name,))
        return selects(selector, {NAMESPACE_NAME_LABEL: name, **(known.labels if known else {})})


_FIELDS: Mapping[type[Surrounding], str] = {
    Namespace: "namespaces",
    Claim: "claims",
    Volume: "volumes",
    StorageClass: "storage_classes",
    CSINode: "csi_nodes",
}

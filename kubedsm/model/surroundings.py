"""Namespaces, volume claims, volumes, storage classes and CSI nodes, for scheduling rules."""

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
    """PersistentVolumeClaim with the fields relevant to scheduling."""

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
    """Volume of a CSI driver; several PersistentVolumes may refer to one CSI volume."""

    driver: str
    handle: str


@attrs.frozen(slots=True)
class Volume:
    """PersistentVolume with the fields relevant to scheduling."""

    name: str
    #: spec.nodeAffinity.required: nodes with access; None: all nodes
    nodes: tuple[NodeSelectorTerm, ...] | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    #: spec.csi; None for a volume of another kind
    csi: CSIVolume | None = None


@attrs.frozen(slots=True)
class CSINode:
    """CSINode object: volume limits that the CSI drivers of a node report."""

    name: str
    #: spec.drivers[].allocatable.count by driver, where set
    limits: Mapping[str, int] = attrs.field(factory=dict)

    def limit(self, driver: str) -> int:
        """Return the maximum number of volumes that the CSI driver attaches to the node."""
        return self.limits.get(driver, UNLIMITED)


@attrs.frozen(slots=True)
class StorageClass:
    name: str
    #: volumeBindingMode is WaitForFirstConsumer: volumes are provisioned after scheduling
    waits_for_consumer: bool = False


Surrounding = Namespace | Claim | Volume | StorageClass | CSINode
#: namespace and name of a claim; name of any other object
Key = tuple[str, ...]


def key_of(thing: Surrounding) -> Key:
    return (thing.namespace, thing.name) if isinstance(thing, Claim) else (thing.name,)


@attrs.frozen(slots=True)
class Surroundings:
    """Observed namespaces, volume claims, volumes, storage classes and CSI nodes; None for a kind
    that is not observed.

    Unobserved claims count as bound, unobserved volumes as reachable from every node, and
    unobserved CSI nodes as unlimited.
    """

    namespaces: Mapping[Key, Namespace] | None = None
    claims: Mapping[Key, Claim] | None = None
    volumes: Mapping[Key, Volume] | None = None
    storage_classes: Mapping[Key, StorageClass] | None = None
    csi_nodes: Mapping[Key, CSINode] | None = None

    def with_kind(self, kind: type[Surrounding]) -> Self:
        """Return a copy in which the kind counts as observed: objects missing there do not exist in
        the cluster.
        """
        return attrs.evolve(self, **{_FIELDS[kind]: dict(self.of(kind))})

    def with_object(self, thing: Surrounding) -> Self:
        """Return a copy with the namespace, claim, volume or other object added, or replaced by
        name.
        """
        return attrs.evolve(
            self, **{_FIELDS[type(thing)]: {**self.of(type(thing)), key_of(thing): thing}}
        )

    def without_object(self, kind: type[Surrounding], key: Key) -> Self:
        """Return a copy without the object of the given kind and key."""
        left = {other: thing for other, thing in self.of(kind).items() if other != key}
        return attrs.evolve(self, **{_FIELDS[kind]: left})

    def of(self, kind: type[Surrounding]) -> Mapping[Key, Any]:
        """Return the observed objects of a kind, such as volumes; none for an unobserved kind."""
        return getattr(self, _FIELDS[kind]) or {}

    def list_known(self) -> Iterator[tuple[type[Surrounding], Iterable[Surrounding]]]:
        """Yield each observed kind of object, such as volumes, with its objects."""
        for kind, field in _FIELDS.items():
            if getattr(self, field) is not None:
                yield kind, self.of(kind).values()

    def claims_at(self, keys: Iterable[Key]) -> Iterator[Claim]:
        """Return the existing volume claims with the given keys (namespace and name)."""
        return filter(None, map(self.of(Claim).get, keys))

    def volumes_at(self, keys: Iterable[Key]) -> Iterator[Volume]:
        """Return the existing PersistentVolumes bound to the claims with the given keys (namespace
        and name).
        """
        volumes = self.of(Volume)
        return filter(None, (volumes.get((claim.volume,)) for claim in self.claims_at(keys)))

    def csi_volumes_at(self, keys: Iterable[Key]) -> frozenset[CSIVolume]:
        """Return the CSI volumes bound to the claims with the given keys (namespace and name)."""
        return frozenset(v.csi for v in self.volumes_at(keys) if v.csi is not None)

    def namespace_terminating(self, name: str) -> bool:
        known = (self.namespaces or {}).get((name,))
        return known is not None and known.terminating

    def namespace_selected(self, selector: Selector, name: str) -> bool:
        """Return True if the namespace's labels satisfy the selector."""
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

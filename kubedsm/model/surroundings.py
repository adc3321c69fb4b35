"""Namespaces, volume claims, volumes and storage classes, as inputs of scheduling rules."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
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
    #: requested bytes
    storage: int = 0
    access_modes: tuple[str, ...] = ()
    #: volumeMode is Block
    block: bool = False
    #: labels of acceptable PersistentVolumes; None for any
    selector: Selector = None
    #: VolumeAttributesClass; empty without
    attributes_class: str = ""
    #: node on which a scheduler has the volume provisioned; empty without a selection
    selected_node: str = ""
    #: nodes on which provisioning failed a moment ago; remembered by the scheduler alone
    failed_on: frozenset[str] = frozenset()
    #: uid of the controller: the pod of a generic ephemeral volume; empty without
    owner: str = ""
    uid: str = attrs.field(default="", eq=False)
    resource_version: str = attrs.field(default="", eq=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


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
    #: bytes
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    #: volumeMode is Block
    block: bool = False
    storage_class: str = ""
    #: spec.claimRef: namespace, name and uid of the only claim that may bind; None for any
    claim: tuple[str, str, str] | None = None
    #: VolumeAttributesClass; empty without
    attributes_class: str = ""
    #: phase Available: no claim is bound, and no former claim's data is left
    available: bool = False
    terminating: bool = False
    resource_version: str = attrs.field(default="", eq=False)

    def is_for(self, claim: Claim) -> bool:
        """Return True if the volume's claimRef names the claim."""
        return self.claim is not None and (
            self.claim[:2] == claim.key and self.claim[2] in ("", claim.uid)
        )


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
    provisioner: str = ""
    #: allowedTopologies: nodes on which volumes can be provisioned; None: all nodes
    topologies: tuple[NodeSelectorTerm, ...] | None = None


@attrs.frozen(slots=True)
class CSIDriver:
    """CSIDriver object: whether scheduling depends on the driver's storage capacity."""

    name: str
    reports_capacity: bool = False


@attrs.frozen(slots=True)
class StorageCapacity:
    """CSIStorageCapacity object: free storage of a class in one topology segment."""

    namespace: str
    name: str
    storage_class: str
    #: label selector of the segment's nodes; None: no nodes
    nodes: Selector = None
    #: free bytes; None if unknown
    capacity: int | None = None
    #: maximum bytes of a single volume; None if only the capacity limits it
    maximum: int | None = None


Surrounding = Namespace | Claim | Volume | StorageClass | CSINode | CSIDriver | StorageCapacity
#: namespace and name of a claim or a capacity; name of any other object
Key = tuple[str, ...]
_SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
#: kinds of objects inside namespaces
NAMESPACED = (Claim, StorageCapacity)
#: kinds whose resource versions the mirror remembers
VERSIONED = (Claim, Volume)
#: objects of a kind that is not observed
_NONE: Mapping[Key, Any] = {}


def key_of(thing: Surrounding) -> Key:
    return (thing.namespace, thing.name) if isinstance(thing, NAMESPACED) else (thing.name,)


@attrs.frozen(slots=True)
class Surroundings:
    """Observed namespaces, volume claims, volumes and storage classes, by kind.

    Unobserved claims count as bound, unobserved volumes as reachable from every node, and
    unobserved CSI nodes as unlimited.
    """

    #: without the kinds that are not observed
    kinds: Mapping[type[Surrounding], Mapping[Key, Any]] = attrs.field(factory=dict)

    def observes(self, kind: type[Surrounding]) -> bool:
        """Return True if any object of the kind is known, or that there is none."""
        return kind in self.kinds

    def with_kind(self, kind: type[Surrounding]) -> Self:
        """Return a copy in which the objects of a kind count as completely listed: any other object
        of the kind does not exist.
        """
        return self._with_objects(kind, self.of(kind))

    def with_object(self, thing: Surrounding) -> Self:
        """Return a copy with the namespace, claim, volume or other object added, or replaced by
        name.
        """
        known = self.of(type(thing))
        return self._with_objects(type(thing), {**known, key_of(thing): thing})

    def without_object(self, kind: type[Surrounding], key: Key) -> Self:
        """Return a copy without the object of the given kind and key."""
        left = {other: thing for other, thing in self.of(kind).items() if other != key}
        return self._with_objects(kind, left)

    def without_versions(self, kind: type[Surrounding]) -> Self:
        """Return a copy in which any observed state of an object of the kind, claims or volumes, is
        newer than the known state.
        """
        known = self.of(kind).items()
        void = {key: attrs.evolve(thing, resource_version="") for key, thing in known}
        return self._with_objects(kind, void) if void else self

    def _with_objects(self, kind: type[Surrounding], objects: Mapping[Key, Any]) -> Self:
        return attrs.evolve(self, kinds={**self.kinds, kind: objects})

    def of(self, kind: type[Surrounding]) -> Mapping[Key, Any]:
        """Return the observed objects of a kind, such as volumes; none for an unobserved kind."""
        return self.kinds.get(kind, _NONE)

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
        """Return the CSI volumes of the claims with the given keys (namespace and name).

        A claim without a volume, or whose volume does not exist, counts as a volume of its
        StorageClass's provisioner.
        """
        found = {v.csi for v in self.volumes_at(keys) if v.csi is not None}
        for claim in self.claims_at(keys):
            of = self.of(StorageClass).get((claim.storage_class,))
            missing = self.observes(Volume) and (claim.volume,) not in self.of(Volume)
            if of is not None and (missing or not claim.volume):
                found.add(CSIVolume(of.provisioner, str(claim)))
        return frozenset(found)

    def sort_claims(self, keys: Collection[Key]) -> Collection[Key]:
        """Sort the keys of volume claims by requested storage, then by key."""
        if len(keys) <= 1:
            return keys
        known = self.of(Claim)
        return sorted(keys, key=lambda key: (known[key].storage if key in known else 0, key))

    def find_unshared(self, keys: Iterable[Key]) -> str:
        """Return the first of the claims that only one node can mount at a time; empty for none.

        An unknown claim counts as such.
        """
        known = self.of(Claim)
        return next(
            (
                "/".join(key)
                for key in keys
                if key not in known or _SHARED_MODES.isdisjoint(known[key].access_modes)
            ),
            "",
        )

    @cached_property
    def waiting_claims(self) -> Mapping[Key, Claim]:
        """Return the unbound claims whose volumes wait for their first consumer, by key."""
        return {key: claim for key, claim in self.of(Claim).items() if self.waits(claim)}

    def waits(self, claim: Claim) -> bool:
        """Return True if the claim's volume is bound or provisioned only after scheduling
        (WaitForFirstConsumer).
        """
        of = self.of(StorageClass).get((claim.storage_class,))
        return not (claim.volume or claim.bound or of is None) and of.waits_for_consumer

    @cached_property
    def terminating_namespaces(self) -> frozenset[str]:
        known = self.of(Namespace).values()
        return frozenset(namespace.name for namespace in known if namespace.terminating)

    def namespace_selected(self, selector: Selector, name: str) -> bool:
        """Return True if the namespace's labels satisfy the selector."""
        if selector is None:
            return False
        known = self.of(Namespace).get((name,))
        return selects(selector, {NAMESPACE_NAME_LABEL: name, **(known.labels if known else {})})

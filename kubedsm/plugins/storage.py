"""Volumes and storage for unbound claims: what each node offers, and what placed pods occupy.

Offers depend on nodes, claims and volumes only, and are computed once per claim or StorageClass.
Assignments depend on the order in which pods were placed: a further pod extends those of the pods
before it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import attrs
import numpy as np

from kubedsm.model.model import NodeName
from kubedsm.model.node_index import Ints, Mask, NodeIndex, Positions
from kubedsm.model.residents import Residents
from kubedsm.model.selectors import NodeSelectorTerm, selects
from kubedsm.model.surroundings import (
    UNLIMITED,
    Claim,
    CSIDriver,
    CSINode,
    Key,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)

#: provisioner of classes with static volumes only
_NO_PROVISIONER = ("", "kubernetes.io/no-provisioner")


class Assignment(NamedTuple):
    """Node, and static PersistentVolume or else dynamic provisioning, of an unbound claim."""

    claim: Claim
    node: NodeName
    #: empty: the provisioner creates a volume
    volume: str


@attrs.frozen(eq=False)
class StaticVolumes:
    """PersistentVolumes suitable for a claim, smallest first, with the nodes that reach them."""

    names: tuple[str, ...]
    #: volumes x nodes
    reach: Mask

    def find_free(self, taken: Collection[str], given: Mapping[str, Mask]) -> Mask:
        """Return the free volumes on each node, as a mask (volumes x nodes).

        taken: names of volumes that are assigned to other claims.
        given: nodes on which another claim of the pod gets a volume, by name of the volume.
        """
        free = self.reach.copy()
        for row, name in enumerate(self.names):
            if name in taken:
                free[row] = False
            elif name in given:
                free[row] &= ~given[name]
        return free

    def match_at(self, position: int, taken: Collection[str]) -> str:
        """Return the smallest free volume on one node; empty for none."""
        reachable = (self.names[row] for row in np.flatnonzero(self.reach[:, position]).tolist())
        return next((name for name in reachable if name not in taken), "")


@attrs.frozen(eq=False)
class Capacity:
    """Free storage of a StorageClass by topology segment (CSIStorageCapacity objects)."""

    #: maximum bytes of a single volume, and free bytes, by segment
    largest: Ints
    free: Ints
    #: segment and node position of each node in a segment
    segments: Positions
    nodes: Positions

    def find_sufficient(self, size: int, charged: Ints | None, mask: Mask) -> Mask:
        """Return the nodes with a segment that has storage for a claim of `size` bytes.

        charged: bytes already assigned to claims, by node. mask: an empty mask, to be filled.
        """
        sufficient = size <= self.largest
        if charged is not None:
            total = np.zeros_like(self.free)
            np.add.at(total, self.segments, charged[self.nodes])
            sufficient &= (total == 0) | (total <= self.free - size)
        mask[self.nodes[sufficient[self.segments]]] = True
        return mask


@attrs.define(eq=False)
class Assigned:
    """Assignments of placed pods' claims, in the order of placing."""

    by_claim: dict[Key, Assignment] = attrs.field(factory=dict)
    #: names of assigned static volumes
    volumes: set[str] = attrs.field(factory=set)
    #: bytes to be provisioned on each node, by StorageClass
    charged: dict[str, Ints] = attrs.field(factory=dict)
    order: list[tuple[Key, int]] = attrs.field(factory=list)

    def copy(self) -> "Assigned":
        charged = {name: column.copy() for name, column in self.charged.items()}
        return Assigned(dict(self.by_claim), set(self.volumes), charged, list(self.order))


class Storage:
    """Offers of volumes and storage to unbound claims, and assignments, for fixed nodes."""

    def __init__(self, nodes: NodeIndex, surroundings: Surroundings) -> None:
        self._nodes = nodes
        self._surroundings = surroundings
        self._static: dict[tuple[object, ...], StaticVolumes] = {}
        self._provisionable: dict[str, Mask] = {}
        self._capacities: dict[str, Capacity | None] = {}
        self._limits: dict[str, Ints] = {}
        #: counts of mounted claims, with their assignments
        self._last: tuple[object, Assigned] = (None, Assigned())

    def _reach(self, terms: tuple[NodeSelectorTerm, ...] | None) -> Mask:
        return self._nodes.every() if terms is None else self._nodes.match_terms(terms)

    @cached_property
    def _by_claim(self) -> Mapping[Key, list[Volume]]:
        """Return the volumes whose claimRef names a claim, by key of the claim."""
        found: defaultdict[Key, list[Volume]] = defaultdict(list)
        for volume in self._surroundings.of(Volume).values():
            if volume.claim is not None:
                found[volume.claim[:2]].append(volume)
        return found

    @cached_property
    def _available(self) -> Mapping[str, list[Volume]]:
        """Return the volumes that any claim may get, by StorageClass."""
        found: defaultdict[str, list[Volume]] = defaultdict(list)
        for volume in self._surroundings.of(Volume).values():
            if volume.claim is None and volume.available:
                found[volume.storage_class].append(volume)
        return found

    def is_reserved(self, claim: Claim) -> bool:
        """Return True if the claimRef of a volume names the claim."""
        return any(volume.is_for(claim) for volume in self._by_claim.get(claim.key, ()))

    def static_volumes(self, claim: Claim) -> StaticVolumes:
        """Return the PersistentVolumes suitable for the claim.

        A volume whose claimRef names the claim excludes all others.
        """
        if claim.selected_node:
            return self._list_reachable(())
        reserved = self._by_claim.get(claim.key, ())
        own = [volume for volume in reserved if volume.is_for(claim) and _suits(volume, claim)]
        if own:
            return self._list_reachable(own)
        look = (
            claim.storage_class,
            claim.storage,
            claim.access_modes,
            claim.block,
            claim.selector,
            claim.attributes_class,
        )
        found = self._static.get(look)
        if found is None:
            found = self._static[look] = self._list_reachable(
                volume
                for volume in self._available.get(claim.storage_class, ())
                if _suits(volume, claim)
                and (claim.selector is None or selects(claim.selector, volume.labels))
            )
        return found

    def _list_reachable(self, volumes: Iterable[Volume]) -> StaticVolumes:
        ordered = sorted(volumes, key=attrgetter("capacity", "name"))
        reach = np.zeros((len(ordered), len(self._nodes)), dtype=np.bool_)
        for row, volume in enumerate(ordered):
            reach[row] = self._reach(volume.nodes)
        return StaticVolumes(tuple(volume.name for volume in ordered), reach)

    def provisionable(self, claim: Claim) -> Mask:
        """Return the nodes for which the claim's StorageClass can create volumes, as a shared
        mask.
        """
        if self.is_reserved(claim):
            return self._nodes.none()  # the PV controller binds that volume
        found = self._provisionable.get(claim.storage_class)
        if found is None:
            of = self._surroundings.of(StorageClass).get((claim.storage_class,))
            found = self._nodes.none()
            if of is not None and of.provisioner not in _NO_PROVISIONER:
                found = self._reach(of.topologies)
            self._provisionable[claim.storage_class] = found
        return found

    def find_sufficient(self, claim: Claim, assigned: Assigned) -> Mask:
        """Return the nodes with sufficient storage for the claim.

        Claims assigned to nodes of a topology segment reduce the segment's capacity.
        """
        capacity = self._capacity(claim.storage_class)
        if capacity is None:
            return self._nodes.every()
        charged = assigned.charged.get(claim.storage_class)
        return capacity.find_sufficient(min(claim.storage, UNLIMITED), charged, self._nodes.none())

    def is_ample(self, storage_class: str, size: int, assigned: Assigned) -> bool:
        """Return True if each topology segment alone has storage for `size` bytes and all assigned
        claims, and all nodes are in a segment.
        """
        capacity = self._capacity(storage_class)
        if capacity is None:
            return True
        total = size + sum(assigned.charged.get(storage_class, np.zeros(0, np.int64)).tolist())
        sufficient = capacity.find_sufficient(min(total, UNLIMITED), None, self._nodes.none())
        return bool(sufficient.all()) and total <= int(capacity.free.min(initial=UNLIMITED))

    def _capacity(self, storage_class: str) -> Capacity | None:
        """Return the free storage of a StorageClass; None if its driver does not report it."""
        if storage_class not in self._capacities:
            self._capacities[storage_class] = self._read_capacity(storage_class)
        return self._capacities[storage_class]

    def _read_capacity(self, storage_class: str) -> Capacity | None:
        surroundings = self._surroundings
        of = surroundings.of(StorageClass).get((storage_class,))
        driver = None if of is None else surroundings.of(CSIDriver).get((of.provisioner,))
        observed = surroundings.observes(StorageCapacity)
        if driver is None or not driver.reports_capacity or not observed:
            return None
        known = [
            each
            for each in surroundings.of(StorageCapacity).values()
            if each.storage_class == storage_class and each.nodes is not None
        ]
        largest: list[int] = []
        free: list[int] = []
        reach = np.zeros((len(known), len(self._nodes)), dtype=np.bool_)
        for row, each in enumerate(known):
            most = each.capacity if each.maximum is None else each.maximum
            largest.append(-1 if most is None else min(most, UNLIMITED))
            free.append(UNLIMITED if each.capacity is None else min(each.capacity, UNLIMITED))
            reach[row] = self._reach((NodeSelectorTerm(each.nodes),) if each.nodes else None)
        segments, nodes = reach.nonzero()
        return Capacity(
            np.array(largest, dtype=np.int64), np.array(free, dtype=np.int64), segments, nodes
        )

    def volume_limits(self, driver: str) -> Ints:
        """Return the maximum number of volumes of the CSI driver that may be attached to each
        node.
        """
        limits = self._limits.get(driver)
        if limits is None:
            known = self._surroundings.of(CSINode)
            limits = np.full(len(self._nodes), UNLIMITED, dtype=np.int64)
            for name, position in self._nodes.positions.items():
                if (name,) in known:
                    limits[position] = known[name,].limit(driver)
            self._limits[driver] = limits
        return limits

    def assign(self, residents: Residents) -> Assigned:
        """Return the assignment of each waiting claim that a placed pod uses.

        Of one pod's claims the smaller ones get volumes first, as by kube-scheduler.
        """
        mounted, last = self._last
        if mounted is residents.claims:
            return last
        order = list(self._list_mounted(residents))
        known = len(last.order)
        assigned = last.copy() if order[:known] == last.order else Assigned()
        for key, position in order[len(assigned.order) :]:
            self._assign_claim(assigned, key, position)
        self._last = residents.claims, assigned
        return assigned

    def _list_mounted(self, residents: Residents) -> Iterator[tuple[Key, int]]:
        """Yield the waiting claims of placed pods, each with the first node position."""
        waiting, positions = self._surroundings.waiting_claims, self._nodes.positions
        for key in [key for key in residents.claims if key in waiting] if waiting else ():
            users = [positions[name] for name in residents.claims[key] if name in positions]
            if users:
                yield key, min(users)

    def _assign_claim(self, assigned: Assigned, key: Key, position: int) -> None:
        claim = self._surroundings.waiting_claims[key]
        volume = self.static_volumes(claim).match_at(position, assigned.volumes)
        if volume:
            assigned.volumes.add(volume)
        else:
            column = assigned.charged.get(claim.storage_class)
            if column is None:
                column = np.zeros(len(self._nodes), dtype=np.int64)
                assigned.charged[claim.storage_class] = column
            column[position] = min(int(column[position]) + claim.storage, UNLIMITED)
        assigned.by_claim[key] = Assignment(claim, self._nodes.names[position], volume)
        assigned.order.append((key, position))

    def list_contended(self, keys: Collection[Key]) -> Iterator[tuple[str, object]]:
        """Yield what pods with these claims compete for: the claims, static volumes and free
        storage by StorageClass, and attachments by driver.
        """
        for claim in self._surroundings.claims_at(keys):
            of = claim.storage_class
            if self._surroundings.waits(claim) and (of in self._available or self._capacity(of)):
                yield "class", of
        for key in keys:
            yield "claim", key
        for volume in self._surroundings.csi_volumes_at(keys):
            if (self.volume_limits(volume.driver) < UNLIMITED).any():
                yield "driver", volume.driver


def _suits(volume: Volume, claim: Claim) -> bool:
    """Return True if the volume has the size, mode, access modes and VolumeAttributesClass that the
    claim requests.
    """
    return (
        volume.capacity >= claim.storage
        and volume.block is claim.block
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
        and set(claim.access_modes).issubset(volume.access_modes)
    )

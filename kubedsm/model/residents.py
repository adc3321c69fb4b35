"""Counts of running pods by node, for scheduling rules between pods such as affinity and spread.

Bound, reserved and terminating pods count until completion. Pods are distinguished by namespace and
the labels that selectors use. Updates are incremental.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar

import attrs
import numpy as np

from kubedsm.model.model import (
    Disk,
    HostPort,
    NodeName,
    Pod,
    PodAffinityTerm,
    PodClass,
    SchedulingRules,
    SpreadConstraint,
    Uid,
)
from kubedsm.model.node_index import Ints, NodeIndex, Positions, Step
from kubedsm.model.selectors import Selector, keys_of, selects
from kubedsm.model.surroundings import Claim, CSIVolume, StorageClass, Surroundings, Volume

K = TypeVar("K", bound=Hashable)
#: positive numbers by node
Counts = Mapping[NodeName, int]
#: cached selections, above which the next snapshot begins without cache
MOST_SELECTIONS = 64
#: kube-scheduler's default
HARD_POD_AFFINITY_WEIGHT = 1
#: counts of `Residents`
_BOOKS = (
    "peers", "holders", "keepers", "wishes", "ports", "claims", "disks", "volumes", "attached",
)  # fmt: skip


@attrs.frozen(slots=True, cache_hash=True)
class Selection:
    """Selection of pods by an affinity or spread rule: pod selector, with named or selected
    namespaces.
    """

    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None
    #: terminating pods do not count
    living: bool = False

    @classmethod
    def of(cls, term: PodAffinityTerm) -> Self:
        return cls(term.selector, term.namespaces, term.namespace_selector)

    @classmethod
    def of_spread(cls, constraint: SpreadConstraint) -> Self:
        return cls(constraint.selector, (constraint.namespace,))

    def covers(self, namespace: str, labels: Mapping[str, str], surroundings: Surroundings) -> bool:
        return selects(self.selector, labels) and (
            namespace in self.namespaces
            or surroundings.namespace_selected(self.namespace_selector, namespace)
        )


class Peer(NamedTuple):
    """Properties of a running pod that selectors can see: namespace, labels used by any selector,
    and termination.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class Keeper(NamedTuple):
    """Group of equal running pods whose required affinity or spread rules an arriving pod may
    violate.
    """

    pod_class: PodClass
    namespace: str
    labels: tuple[tuple[str, str], ...]


def wishes_of(rules: SchedulingRules) -> Iterator[tuple[int, PodAffinityTerm]]:
    """Yield the pod's preferred affinity terms with weights, negative for anti-affinity.

    Required terms have kube-scheduler's hardPodAffinityWeight.
    """
    for term in rules.affinity:
        yield HARD_POD_AFFINITY_WEIGHT, term
    if rules.preferences:
        yield from rules.preferences.affinity
        for weight, term in rules.preferences.anti_affinity:
            yield -weight, term


def keys_looked_at(classes: Iterable[PodClass]) -> tuple[str, ...] | None:
    """Return the pod labels that selectors use, sorted; None without inter-pod rules."""
    keys: set[str] = set()
    found = False
    for pod_class in classes:
        rules = pod_class.rules
        selectors = [term.selector for term in (*rules.affinity, *rules.anti_affinity)]
        selectors += [constraint.selector for constraint in rules.spread]
        if liked := rules.preferences:
            selectors += [term.selector for _, term in (*liked.affinity, *liked.anti_affinity)]
            selectors += [constraint.selector for constraint in liked.spread]
        found = found or bool(selectors)
        keys.update(*map(keys_of, selectors))
    return tuple(sorted(keys)) if found else None


def is_seen_alike(one: Pod, other: Pod) -> bool:
    """Return True if affinity and spread rules cannot distinguish two states of the same pod."""
    return (
        one.terminating is other.terminating
        and one.finished is other.finished
        and (one.pod_class is other.pod_class or one.pod_class == other.pod_class)
        and one.labels == other.labels
    )


def standing(
    pods: Mapping[Uid, Pod], placed: Mapping[Uid, NodeName]
) -> Iterator[tuple[Pod, NodeName]]:
    """Yield the unfinished pods that are bound to a node, or have capacity reserved there, with
    their nodes.
    """
    for uid, node in placed.items():
        pod = pods.get(uid)
        if pod is not None and not pod.finished:
            yield pod, node


@attrs.frozen(slots=True, eq=False)
class Residents:
    """Counts of running pods by node, as affinity, spread, port and volume rules need them;
    immutable, with cached queries.
    """

    nodes: NodeIndex
    surroundings: Surroundings
    #: distinguishing labels, sorted; None without inter-pod rules
    keys: tuple[str, ...] | None
    peers: Mapping[Peer, Counts] = attrs.field(factory=dict)
    #: pods by anti-affinity term
    holders: Mapping[PodAffinityTerm, Counts] = attrs.field(factory=dict)
    #: pods by required affinity or spread
    keepers: Mapping[Keeper, Counts] = attrs.field(factory=dict)
    #: pods by preferred term
    wishes: Mapping[tuple[int, PodAffinityTerm], Counts] = attrs.field(factory=dict)
    #: pods by occupied port
    ports: Mapping[HostPort, Counts] = attrs.field(factory=dict)
    #: pods by mounted claim (namespace and name)
    claims: Mapping[tuple[str, str], Counts] = attrs.field(factory=dict)
    #: pods by disk
    disks: Mapping[Disk, Counts] = attrs.field(factory=dict)
    #: mounted claims by bound volume
    volumes: Mapping[CSIVolume, Counts] = attrs.field(factory=dict)
    #: attached volumes by CSI driver, each counted once per node
    attached: Mapping[str, Counts] = attrs.field(factory=dict)
    #: cached counts by selections
    selected: dict[tuple[Selection, ...], Ints] = attrs.field(factory=dict)
    #: shared cache of selection results
    _covering: dict[Peer, dict[tuple[Selection, ...], bool]] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        nodes: NodeIndex,
        surroundings: Surroundings,
        keys: tuple[str, ...] | None,
        placed: Iterable[tuple[Pod, NodeName]],
    ) -> Self:
        return cls(nodes, surroundings, keys).after((pod, node, 1) for pod, node in placed)

    def with_nodes(self, nodes: NodeIndex, surroundings: Surroundings) -> Self:
        """Return the same pod counts for the current node index and the current volumes and
        namespaces.
        """
        before = self.surroundings
        same = attrs.evolve(self, nodes=nodes, surroundings=surroundings, selected={}, covering={})
        then, now = before.kinds, surroundings.kinds
        if all(now.get(kind) is then.get(kind) for kind in (Claim, Volume, StorageClass)):
            return same
        drafts = _Draft[CSIVolume]({}), _Draft[str]({})
        for claim, counts in self.claims.items():
            for node, number in counts.items():
                _attach_volumes(drafts, surroundings.csi_volumes_at((claim,)), node, number)
        volumes, attached = drafts
        return attrs.evolve(same, volumes=volumes.books, attached=attached.books)

    def visible_labels(self, pod: Pod) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the pod's namespace, and its labels that any selector uses."""
        if self.keys is None:
            return "", ()
        labels = pod.labels
        return pod.namespace, tuple([(key, labels[key]) for key in self.keys if key in labels])

    def after(self, steps: Iterable[Step]) -> Self:
        """Return the pod counts after arrivals and departures of pods at nodes."""
        drafts: dict[str, _Draft[Any]] = {name: _Draft(getattr(self, name)) for name in _BOOKS}
        known = {selections: column.copy() for selections, column in self.selected.items()}
        for pod, node, by in steps:
            rules = pod.pod_class.rules
            if self.keys is not None:
                peer = Peer(*self.visible_labels(pod), pod.terminating)
                drafts["peers"].count((peer,), node, by)
                position = self.nodes.positions.get(node) if known else None
                for selections, column in known.items() if position is not None else ():
                    if self.is_covered(selections, peer):
                        column[position] += by
                if rules.anti_affinity:
                    drafts["holders"].count(rules.anti_affinity, node, by)
                if (rules.affinity or rules.spread) and not pod.terminating:
                    keeper = Keeper(pod.pod_class, peer.namespace, peer.labels)
                    drafts["keepers"].count((keeper,), node, by)
                if rules.affinity or rules.preferences:
                    drafts["wishes"].count(wishes_of(rules), node, by)
            if not (rules.ports or rules.claims or rules.disks):
                continue
            drafts["ports"].count(rules.ports, node, by)
            drafts["disks"].count(rules.disks, node, by)
            # Volumes are assigned to unbound claims in this order.
            drafts["claims"].count(self.surroundings.sort_claims(rules.claim_keys), node, by)
            for claim in rules.claim_keys:
                bound = self.surroundings.csi_volumes_at((claim,))
                _attach_volumes((drafts["volumes"], drafts["attached"]), bound, node, by)
        books: dict[str, Any] = {name: draft.books for name, draft in drafts.items()}
        return attrs.evolve(self, selected=known, **books)

    def counts(self, selections: tuple[Selection, ...]) -> Ints:
        """Return, for each node, the number of pods that satisfy all the given selections."""
        known = self.selected.get(selections)
        if known is None:
            known = np.zeros(len(self.nodes), dtype=np.int64)
            for peer, counts in self.peers.items():
                if self.is_covered(selections, peer):
                    self._add_pod(known, counts)
            self.selected[selections] = known
        return known

    def column(self, counts: Counts) -> Ints:
        """Convert pod counts by node name to an array by node position."""
        column = np.zeros(len(self.nodes), dtype=np.int64)
        self._add_pod(column, counts)
        return column

    def _add_pod(self, column: Ints, counts: Counts) -> None:
        positions = self.nodes.positions
        for node, number in counts.items():
            if node in positions:
                column[positions[node]] += number

    def where(self, counts: Counts) -> Positions:
        """Return the positions of nodes with counted running pods, without nodes deleted since."""
        positions = self.nodes.positions
        return np.array([positions[name] for name in counts if name in positions], dtype=np.intp)

    def is_covered(self, selections: tuple[Selection, ...], peer: Peer) -> bool:
        known = self._covering.setdefault(peer, {})
        if selections not in known:
            labels = dict(peer.labels)
            known[selections] = all(
                not (selection.living and peer.terminating)
                and selection.covers(peer.namespace, labels, self.surroundings)
                for selection in selections
            )
        return known[selections]


class _Draft(Generic[K]):
    """Copy-on-write draft of pod counts by node: unchanged entries are shared with the original."""

    def __init__(self, books: Mapping[K, Counts]) -> None:
        self.books = books
        self._own: dict[K, dict[NodeName, int]] = {}

    def count(self, keys: Iterable[K], node: NodeName, by: int) -> None:
        for key in keys:
            counts = self._own.get(key)
            if counts is None:
                if not self._own:
                    self._books = dict(self.books)
                    self.books = self._books
                counts = self._own[key] = dict(self.books.get(key, ()))
            counts[node] = counts.get(node, 0) + by
            if not counts[node]:
                del counts[node]
            if counts:
                self._books[key] = counts
            else:
                self._books.pop(key, None)


def _attach_volumes(
    drafts: tuple[_Draft[CSIVolume], _Draft[str]],
    bound: Iterable[CSIVolume],
    node: NodeName,
    by: int,
) -> None:
    volumes, attached = drafts
    for volume in bound:
        there = node in volumes.books.get(volume, ())
        volumes.count((volume,), node, by)
        came = (node in volumes.books.get(volume, ())) - there
        if came:
            attached.count((volume.driver,), node, came)

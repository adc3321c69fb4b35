"""The pods on the nodes, as the rules about other pods need to know them.

All that is bound or reserved and has not finished is there, terminating pods included. Pods are
counted by what can be told of them: by namespace and those labels that some selector looks at.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Self, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.core.world.model import (
    Disk,
    HostPort,
    Pod,
    PodAffinityTerm,
    PodClass,
    SchedulingRules,
)
from kubedsm.core.world.selectors import Selector, keys_of, selects
from kubedsm.core.world.surroundings import CSIVolume, Surroundings

K = TypeVar("K")
#: how many there are, by position of the node; no zeros
Counts = dict[int, int]
Ints = NDArray[np.int64]
#: kube-scheduler's default
HARD_POD_AFFINITY_WEIGHT = 1


@attrs.frozen(slots=True, cache_hash=True)
class Selection:
    """Pods that are selected, in these namespaces or the selected ones."""

    selector: Selector
    namespaces: tuple[str, ...]
    namespace_selector: Selector = None
    #: terminating pods do not count
    living: bool = False

    @classmethod
    def of(cls, term: PodAffinityTerm) -> Self:
        return cls(term.selector, term.namespaces, term.namespace_selector)

    def covers(self, namespace: str, labels: Mapping[str, str], surroundings: Surroundings) -> bool:
        return selects(self.selector, labels) and (
            namespace in self.namespaces
            or surroundings.namespace_selected(self.namespace_selector, namespace)
        )


class Peer(NamedTuple):
    """What selectors see of a pod."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    terminating: bool


class Keeper(NamedTuple):
    """What is told of a pod whose rules others may break by coming or by leaving."""

    pod_class: PodClass
    namespace: str
    labels: tuple[tuple[str, str], ...]


def wishes_of(rules: SchedulingRules) -> Iterator[tuple[int, PodAffinityTerm]]:
    """What pods with these rules like to have near them, and how much; below zero, how little.

    What they demand counts a little, as by kube-scheduler's hardPodAffinityWeight.
    """
    for term in rules.affinity:
        yield HARD_POD_AFFINITY_WEIGHT, term
    if rules.preferences:
        yield from rules.preferences.affinity
        for weight, term in rules.preferences.anti_affinity:
            yield -weight, term


def keys_looked_at(classes: Iterable[PodClass]) -> frozenset[str] | None:
    """The labels that rules of these about pods look at; None if they have no such rule."""
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
    return frozenset(keys) if found else None


@attrs.frozen(slots=True, eq=False)
class Residents:
    """It never changes: a pod that comes or goes makes another; `counts` only remembers."""

    size: int
    #: the labels that are told apart, in order; None if no rule looks at pods
    keys: tuple[str, ...] | None
    surroundings: Surroundings
    peers: dict[Peer, Counts] = attrs.field(factory=dict)
    #: pods with that anti-affinity term
    holders: dict[PodAffinityTerm, Counts] = attrs.field(factory=dict)
    #: pods that stay, and require affinity or an even spread
    keepers: dict[Keeper, Counts] = attrs.field(factory=dict)
    #: pods with that wish
    wishes: dict[tuple[int, PodAffinityTerm], Counts] = attrs.field(factory=dict)
    #: pods that occupy that port
    ports: dict[HostPort, Counts] = attrs.field(factory=dict)
    #: how many pods mount a claim, by its namespace and name
    claims: dict[tuple[str, str], int] = attrs.field(factory=dict)
    #: pods that use that disk
    disks: dict[Disk, Counts] = attrs.field(factory=dict)
    #: how many pods use a volume
    volumes: dict[CSIVolume, Counts] = attrs.field(factory=dict)
    #: how many volumes a CSI driver has attached, each once a node
    attached: dict[str, Counts] = attrs.field(factory=dict)
    _known: dict[tuple[Selection, ...], Ints] = attrs.field(factory=dict)
    #: what covers which is the same for all that are made of each other
    _covering: dict[Peer, dict[tuple[Selection, ...], bool]] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        size: int,
        keys: frozenset[str] | None,
        surroundings: Surroundings,
        placed: Iterable[tuple[Pod, int]],
    ) -> Self:
        """`placed`: pods, and the positions of their nodes; `size`: how many nodes there are."""
        residents = cls(size, None if keys is None else tuple(sorted(keys)), surroundings)
        for pod, position in placed:
            residents._put(pod, position)
        return residents

    def visible(self, pod: Pod) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Namespace and labels of the pod, as far as any rule looks at them."""
        if self.keys is None:
            return "", ()
        labels = pod.labels
        return pod.namespace, tuple([(key, labels[key]) for key in self.keys if key in labels])

    def _put(self, pod: Pod, position: int) -> None:
        if self.keys is not None:
            namespace, labels = self.visible(pod)
            counts = self.peers.setdefault(Peer(namespace, labels, pod.terminating), {})
            counts[position] = counts.get(position, 0) + 1
        rules = pod.pod_class.rules
        for term in rules.anti_affinity:
            counts = self.holders.setdefault(term, {})
            counts[position] = counts.get(position, 0) + 1
        for keeper in self._kept_by(pod):
            _count(self.keepers.setdefault(keeper, {}), position, 1)
        for wish in wishes_of(rules):
            counts = self.wishes.setdefault(wish, {})
            counts[position] = counts.get(position, 0) + 1
        for port in rules.ports:
            _count(self.ports.setdefault(port, {}), position, 1)
        for claim in rules.claims:
            _count(self.claims, claim.key, 1)
        for volume in self._csi_volumes(rules):
            users = self.volumes.setdefault(volume, {})
            if position not in users:
                _count(self.attached.setdefault(volume.driver, {}), position, 1)
            _count(users, position, 1)
        for disk in rules.disks:
            _count(self.disks.setdefault(disk, {}), position, 1)

    def changed(self, pod: Pod, position: int, by: int) -> Self:
        """The same with one such pod more (by = 1) or less (by = -1) on that node."""
        rules = pod.pod_class.rules
        peer = Peer(*self.visible(pod), pod.terminating)
        claims = dict(self.claims) if rules.claims else self.claims
        for claim in rules.claims:
            _count(claims, claim.key, by)
        csi_volumes = self._csi_volumes(rules)
        volumes = _changed(self.volumes, csi_volumes, position, by)
        attached = [
            volume.driver
            for volume in csi_volumes
            if (position in volumes.get(volume, ())) != (position in self.volumes.get(volume, ()))
        ]
        return attrs.evolve(
            self,
            peers=self.peers if self.keys is None else _changed(self.peers, [peer], position, by),
            holders=_changed(self.holders, rules.anti_affinity, position, by),
            keepers=_changed(self.keepers, self._kept_by(pod), position, by),
            wishes=_changed(self.wishes, wishes_of(rules), position, by),
            ports=_changed(self.ports, rules.ports, position, by),
            claims=claims,
            disks=_changed(self.disks, rules.disks, position, by),
            volumes=volumes,
            attached=_changed(self.attached, attached, position, by),
            known=dict(self._recounted(peer, position, by)),
        )

    def _kept_by(self, pod: Pod) -> Collection[Keeper]:
        rules = pod.pod_class.rules
        if pod.terminating or not (rules.affinity or rules.spread):
            return ()
        return (Keeper(pod.pod_class, *self.visible(pod)),)

    def _csi_volumes(self, rules: SchedulingRules) -> Collection[CSIVolume]:
        if not rules.claims:
            return ()
        return self.surroundings.csi_volumes_at(rules.claim_keys)

    def _recounted(
        self, peer: Peer, position: int, by: int
    ) -> Iterator[tuple[tuple[Selection, ...], Ints]]:
        labels, covering = dict(peer.labels), self._covering.setdefault(peer, {})
        for selections, counts in self._known.items():
            if selections not in covering:
                covering[selections] = self._covered(selections, peer, labels)
            if covering[selections]:
                changed = counts.copy()
                changed[position] += by
                yield selections, changed
            else:
                yield selections, counts

    def counts(self, selections: tuple[Selection, ...]) -> Ints:
        """On each node, how many pods are covered by all of these."""
        known = self._known.get(selections)
        if known is None:
            known = np.zeros(self.size, dtype=np.int64)
            for peer, counts in self.peers.items():
                if self._covered(selections, peer, dict(peer.labels)):
                    _add(known, counts)
            self._known[selections] = known
        return known

    def attached_by(self, driver: str) -> Ints:
        """On each node, how many volumes that CSI driver has attached."""
        attached = np.zeros(self.size, dtype=np.int64)
        _add(attached, self.attached.get(driver, {}))
        return attached

    def _covered(
        self, selections: tuple[Selection, ...], peer: Peer, labels: Mapping[str, str]
    ) -> bool:
        return all(
            not (selection.living and peer.terminating)
            and selection.covers(peer.namespace, labels, self.surroundings)
            for selection in selections
        )


def _add(column: Ints, counts: Counts) -> None:
    positions = np.fromiter(counts.keys(), np.intp, len(counts))
    column[positions] += np.fromiter(counts.values(), np.int64, len(counts))


def _count(counts: dict[K, int], key: K, by: int) -> None:
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]


def _changed(books: dict[K, Counts], keys: Iterable[K], position: int, by: int) -> dict[K, Counts]:
    changed = books
    for key in keys:
        changed = dict(changed) if changed is books else changed
        counts = dict(changed.get(key, {}))
        _count(counts, position, by)
        if counts:
            changed[key] = counts
        else:
            changed.pop(key, None)
    return changed

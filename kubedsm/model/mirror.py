"""Cluster mirror: observed objects, reservations for binds and migrations in flight, and capacity
accounting.

The mirror is the single owner of all three: events change objects, `reserve` and `claim` the rest.
Capacity counts once for every pod that holds some: bound and not finished (terminating pods and
other schedulers' included), or reserved. Nothing here awaits, so a decision on a snapshot and its
reservation cannot be interleaved. Accounts are updated with each event, so a snapshot costs no pass
over all pods.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

import attrs
import msgspec

from kubedsm.model.census import Tally, counts_alike
from kubedsm.model.events import (
    Change,
    ClusterEvent,
    Freed,
    HistoryRewound,
    KindKnown,
    MeasuredApplied,
    NodeApplied,
    NodeAvoided,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
    is_older,
)
from kubedsm.model.measured import NOTHING_MEASURED
from kubedsm.model.model import (
    MIGRATING_LABEL,
    PULL_LABEL,
    TEMPLATE_HASH_LABEL,
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    Tier,
    Tiers,
    Uid,
    Workload,
)
from kubedsm.model.node_index import FreeCapacity, NodeIndex, Step
from kubedsm.model.persistent_map import Map
from kubedsm.model.residents import MOST_SELECTIONS, Residents, is_seen_alike, standing
from kubedsm.model.snapshot import Counted, Snapshot
from kubedsm.model.surroundings import Claim, Surrounding, Surroundings, Volume, key_of

NOTHING = Resources()
#: pod changes without a snapshot after which residents are recounted
_MANY = 1000
#: node and capacity that a pod occupies there
Held = tuple[NodeName, Resources]


class ReservationError(Exception):
    """Error: the requested capacity cannot be reserved on the node."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Capacity reserved on a node for a pod about to be bound, or for a migration."""

    holder: str
    node: NodeName
    requests: Resources


@attrs.frozen(slots=True)
class ReplacementClaim:
    """Claim of a migration on its future replacement pod: a description by which the new pod is
    recognised.
    """

    workload: Workload
    pod_class: PodClass
    #: the pod template's hash; empty if the owner has none
    template_hash: str = ""
    #: the very name, where replacements get their predecessors'
    name: str = ""

    @classmethod
    def of(cls, pod: Pod) -> "ReplacementClaim":
        same_name = pod.workload.kind == "StatefulSet"
        return cls(
            pod.workload,
            pod.pod_class,
            pod.labels.get(TEMPLATE_HASH_LABEL, ""),
            pod.name if same_name else "",
        )

    def fits(self, pod: Pod) -> bool:
        return (
            pod.workload == self.workload
            and pod.pod_class == self.pod_class
            and self.name in ("", pod.name)
            and self.template_hash in ("", pod.labels.get(TEMPLATE_HASH_LABEL))
        )


class ClusterMirror:
    """Mirror of the cluster for one scheduler: observed objects and capacity reservations.

    followed: pods of running plans, if there are plans. on_released: called for released
    reservations.
    """

    def __init__(
        self,
        scheduler_name: str = "kubedsm",
        tiers: Tiers | None = None,
        followed: Container[Uid] | None = None,
        on_released: "Callable[[Change, ClusterMirror], None] | None" = None,
    ) -> None:
        self._scheduler_name = scheduler_name
        self._followed = followed
        self._on_released = on_released
        #: tier labels for nodes that are applied from now on
        self.tiers = tiers or Tiers()
        # Published values are immutable: updates replace them.
        self._nodes: Mapping[NodeName, Node] = {}
        self._pods: Map[Uid, Pod] = Map()
        #: free capacity of each node, changed by the mirror only; negative if over-committed
        self.free: Map[NodeName, Resources] = Map()
        #: node of each pod, and pods of each node; unknown nodes included
        self._placed: Map[Uid, NodeName] = Map()
        self._here: dict[NodeName, set[Uid]] = defaultdict(set)
        self.surroundings = Surroundings()
        #: last sample
        self.measured = NOTHING_MEASURED
        #: bytes per second of the last observed image pull, by node
        self.pull_speeds: Map[NodeName, float] = Map()
        #: used and reserved capacity
        self._taken: dict[NodeName, Resources] = {}
        self._tally = Tally(scheduler_name)
        #: index, None after a node changed; published capacity, and nodes changed since
        self._index: NodeIndex | None = None
        self._room: FreeCapacity | None = None
        self._refilled: set[NodeName] = set()
        #: published residents, and former states of pods changed since
        self._residents: Residents | None = None
        self._touched: dict[Uid, tuple[Pod | None, NodeName | None]] = {}
        self._uids: dict[tuple[str, str], Uid] = {}
        self._reservations: dict[str, Reservation] = {}
        self._claims: dict[str, ReplacementClaim] = {}
        #: migration that claimed each replacement; for others to read
        self.claimed: dict[Uid, str] = {}
        #: pods with a label of migrations or image pulls
        self._labelled: dict[Uid, None] = {}
        #: number of changes of any kind
        self.changes = 0

    # Events.

    def apply(self, event: ClusterEvent) -> Change:
        if not isinstance(event, NodeApplied):
            self.changes += 1
        match event:
            case PodApplied(pod):
                return self._apply_pod(pod)
            case PodDeleted(uid):
                return self._forget_pod(uid)
            case HistoryRewound(kind):
                self._void_versions(kind)
                return Change()
            case NodeApplied(node):
                return self._apply_node(node)
            case NodeDeleted(name):
                before = self._nodes.get(name)
                if before is not None:
                    self._set_node(name, None)
                return Change(node_before=before)
            case MeasuredApplied(sample):
                known, self.measured = self.measured, sample.after(self.measured, self._placed)
                return Change(measured_before=known, measured_after=self.measured)
            case _:
                return self._apply_surrounding(event)

    def _void_versions(self, kind: type[Surrounding] | None) -> None:
        """Have any state of a pod (None), or of an object of the kind, be newer than the known."""
        if kind is not None:
            self.surroundings = self.surroundings.without_versions(kind)
            return
        self._pods = self._pods.update(
            {uid: attrs.evolve(pod, resource_version="") for uid, pod in self._pods.items()}
        )

    def _apply_node(self, node: Node) -> Change:
        before = self._nodes.get(node.name)
        after = attrs.evolve(node, tier=self.tiers.of(node.labels))
        if after != before:
            self.changes += 1
            self._set_node(node.name, after)
        elif after.images != before.images:
            self._set_node(node.name, after)
        return Change(node_before=before, node_after=after)

    def _apply_surrounding(
        self, event: SurroundingApplied | SurroundingDeleted | KindKnown | NodeAvoided
    ) -> Change:
        match event:
            case SurroundingApplied(thing):
                former = self.surroundings.of(type(thing)).get(key_of(thing))
                thing = _latest(former, thing)
                self.surroundings = self.surroundings.with_object(thing)
                return Change(surrounding_before=former, surrounding_after=thing)
            case SurroundingDeleted(kind, key):
                former = self.surroundings.of(kind).get(key)
                self.surroundings = self.surroundings.without_object(kind, key)
                return Change(surrounding_before=former)
            case KindKnown(kind):
                self.surroundings = self.surroundings.with_kind(kind)
                return Change(known=kind)
            case NodeAvoided(key, node, avoided):
                claim = self.surroundings.of(Claim).get(key)
                if claim is None:
                    return Change()
                others = claim.failed_on - {node}
                now = attrs.evolve(claim, failed_on=others | {node} if avoided else others)
                self.surroundings = self.surroundings.with_object(now)
                return Change(surrounding_before=claim, surrounding_after=now)

    def _apply_pod(self, pod: Pod) -> Change:
        key = (pod.namespace, pod.name)
        known = self._uids.get(key)
        if known is not None and known != pod.uid:
            # Deletion and creation under one name can arrive as a single change.
            self._forget_pod(known)
        if pod.detached and pod.scheduler_name != self._scheduler_name:
            pod = attrs.evolve(pod, detached=False)  # our migrations never touch the pod
        before = self._pods.get(pod.uid)
        if before is not None and is_older(pod.resource_version, before.resource_version):
            return Change(pod_before=before, pod_after=before)
        if before is not None:
            # If an API server gives two pods one uid, the latest counts.
            del self._uids[before.namespace, before.name]
        self._uids[key] = pod.uid
        if MIGRATING_LABEL in pod.labels or PULL_LABEL in pod.labels:
            self._labelled[pod.uid] = None
        else:
            self._labelled.pop(pod.uid, None)
        held, reserved = before.held if before else None, self._reservations.get(pod.uid)
        self._set_pod(pod.uid, pod, pod.node_name if reserved is None else reserved.node)
        if reserved is not None and not held and pod.held == (reserved.node, reserved.requests):
            # The reserved capacity becomes the pod's.
            del self._reservations[pod.uid]
            held = pod.held
        freed = self._rebook_pod(held, pod.held)
        if pod.node_name is not None or pod.finished or pod.terminating:
            self.release(pod.uid)
        elif before is None and self._claims:
            claimant = next((c for c, claim in self._claims.items() if claim.fits(pod)), None)
            if claimant is not None:
                del self._claims[claimant]
                self.claimed[pod.uid] = claimant
        return Change(pod_before=before, pod_after=pod, freed=freed)

    def _forget_pod(self, uid: Uid) -> Change:
        self.release(uid)
        pod = self._pods.get(uid)
        if pod is None:
            return Change()
        if self._uids.get((pod.namespace, pod.name)) == uid:
            del self._uids[pod.namespace, pod.name]
        self._labelled.pop(uid, None)
        self.claimed.pop(uid, None)
        self._set_pod(uid, None, None)
        return Change(pod_before=pod, freed=self._rebook_pod(pod.held, None))

    # Objects.

    def pod(self, uid: Uid) -> Pod | None:
        return self._pods.get(uid)

    def pods(self) -> list[Pod]:
        """Return all pods as observed by the reflectors."""
        return list(self._pods.values())

    def labelled_pods(self) -> list[Pod]:
        """Return the pods with the label of a migration or of an image pull."""
        return [self._pods[uid] for uid in self._labelled]

    def pods_on(self, name: NodeName) -> list[Pod]:
        """Return the pods bound to the node."""
        here = map(self._pods.__getitem__, self._here.get(name, ()))
        return [pod for pod in here if pod.node_name == name]

    def node(self, name: NodeName) -> Node | None:
        return self._nodes.get(name)

    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    # Reservations and claims.

    def reserve(self, holder: str, node: NodeName, requests: Resources) -> None:
        """Reserve capacity on a node until `release`, or until the pod of that uid is bound.

        Raise ReservationError if the holder has a reservation or is bound, or the node is gone or
        full.
        """
        if holder in self._reservations:
            raise ReservationError(
                f"{holder} already holds a reservation on {self._reservations[holder].node}"
            )
        pod = self._pods.get(Uid(holder))
        if pod is not None and pod.node_name is not None:
            raise ReservationError(f"{pod} is on {pod.node_name} already")
        if node not in self._nodes:
            raise ReservationError(f"node {node} is gone")
        free = dict(self.free[node].items())
        short = [n for n, amount in requests.items() if amount > 0 and amount > free.get(n, 0)]
        if short:
            raise ReservationError(f"node {node} has too little {', '.join(short)}")
        self.changes += 1
        self._add_reservation(Reservation(holder, node, requests))

    def release(self, holder: str) -> None:
        """Release the capacity reservation of the holder, if any."""
        reservation = self._give_back(holder)
        if reservation is None or self._on_released is None:
            return
        pod = self._pods.get(Uid(holder))
        node, there = reservation.node, None
        here = pod is not None and pod.held is not None and pod.node_name == node
        left = pod.requests if pod is not None and here else NOTHING
        if reservation.requests == left:
            return
        if pod is not None:
            there = attrs.evolve(pod, node_name=node, phase="Pending")
            if pod.node_name != node:
                # A pod bound elsewhere has an event of its own: here the pod is gone.
                pod = attrs.evolve(pod, node_name=None)
        room = Freed(node, reservation.requests - left)
        self._on_released(Change(pod_before=there, pod_after=pod, freed=room), self)

    def _give_back(self, holder: str) -> Reservation | None:
        reservation = self._reservations.pop(holder, None)
        if reservation is not None:
            self.changes += 1
            self._book_capacity(reservation.node, reservation.requests, sign=-1)
            pod = self._pods.get(Uid(holder))
            if pod is not None:
                self._set_pod(pod.uid, pod, pod.node_name)
        return reservation

    def _add_reservation(self, reservation: Reservation) -> None:
        self._reservations[reservation.holder] = reservation
        self._book_capacity(reservation.node, reservation.requests)
        pod = self._pods.get(Uid(reservation.holder))
        if pod is not None:
            self._set_pod(pod.uid, pod, reservation.node)

    def hand_over(self, holder: str, pod: str) -> None:
        """Transfer a migration's reservation to the replacement pod, until the pod is bound."""
        reservation = self._give_back(holder)
        if reservation is not None:
            self._add_reservation(Reservation(pod, reservation.node, reservation.requests))

    @property
    def held(self) -> list[str]:
        """Ids of pods and migrations that hold a capacity reservation or a replacement claim."""
        return [*self._reservations, *self._claims]

    def has_reservation(self, holder: str) -> bool:
        return holder in self._reservations

    def nominate(self, pod: Pod, node: NodeName) -> None:
        """Reserve capacity that is about to come free: free capacity may be negative meanwhile."""
        holder = _nomination_holder(pod.uid)
        self._give_back(holder)
        self.changes += 1
        self._add_reservation(Reservation(holder, node, pod.requests))

    def withdraw(self, uid: Uid, *, silently: bool = False) -> None:
        """Release the capacity reserved by the pod's nomination, if any; with `silently`, without
        notifying observers.
        """
        if silently:
            self._give_back(_nomination_holder(uid))
        else:
            self.release(_nomination_holder(uid))

    def sum_nominations(self, uids: Iterable[Uid]) -> dict[NodeName, Resources]:
        """Return the total capacity reserved by the nominations of these pods."""
        held: dict[NodeName, Resources] = {}
        for uid in uids:
            nomination = self._reservations.get(_nomination_holder(uid))
            if nomination is not None:
                more = held.get(nomination.node, NOTHING)
                held[nomination.node] = more + nomination.requests
        return held

    def claim(self, claimant: str, claim: ReplacementClaim) -> None:
        """Claim a future replacement pod: the next pod matching the description is assigned."""
        self._claims[claimant] = claim

    def end_claim(self, claimant: str) -> None:
        """End a migration's claim on a replacement pod; an assigned pod becomes an ordinary pod
        again.
        """
        self._claims.pop(claimant, None)
        for uid in [uid for uid, by in self.claimed.items() if by == claimant]:
            del self.claimed[uid]

    def leaves_to_place(self, pod: Pod) -> bool:
        """Return True if this scheduler must place the pod, False if a migration places the pod or
        the pod belongs to another scheduler.
        """
        return pod.scheduler_name == self._scheduler_name and pod.uid not in self.claimed

    def find_replacement(self, claimant: str) -> Pod | None:
        """Return the replacement pod assigned to a migration's claim; None if no pod is assigned
        yet.
        """
        uid = next((uid for uid, by in self.claimed.items() if by == claimant), None)
        return None if uid is None else self._pods.get(uid)

    # Accounting.

    def _set_node(self, name: NodeName, node: Node | None) -> None:
        """Add or replace an observed node, or delete it (None)."""
        before = self._nodes.get(name)
        was, is_ = (each is not None and each.tier is Tier.EDGE for each in (before, node))
        for uid in self._here.get(name, ()) if was is not is_ else ():
            self._tally.count(self._pods[uid], name, on_edge=is_)
            self._tally.count(self._pods[uid], name, on_edge=was, times=-1)
        self._index = None
        if node is None:
            self._nodes = {n: other for n, other in self._nodes.items() if n != name}
            self.free = self.free.delete(name)
        else:
            self._nodes = {**self._nodes, name: node}
            self._book_capacity(name, NOTHING)

    def _set_pod(self, uid: Uid, pod: Pod | None, node: NodeName | None) -> None:
        """Replace, add or delete (None) a pod that counts on the node, apart from its capacity."""
        before, source = self._pods.get(uid), self._placed.get(uid)
        if before is pod and source == node:
            return
        if self._residents is not None and uid not in self._touched:
            self._touched[uid] = before, source
            if len(self._touched) > 2 * len(self._pods) + _MANY:
                self._residents = None
        if before is not pod:
            self._pods = self._pods.delete(uid) if pod is None else self._pods.set(uid, pod)
        if source is not None and source != node:
            self._here[source].discard(uid)
            if not self._here[source]:
                del self._here[source]
            self._placed = self._placed.delete(uid)
        if node is not None and source != node:
            self._placed = self._placed.set(uid, node)
            self._here[node].add(uid)
        alike = before is not None and pod is not None and counts_alike(before, pod)
        if source != node or not alike:
            # The new state first: a count that fell to zero would lose its place in the order.
            self._tally_pod(pod, node, alike=alike)
            self._tally_pod(before, source, times=-1, alike=alike)

    def _rebook_pod(self, held: Held | None, holds: Held | None) -> Freed | None:
        """Replace the capacity that a pod uses on a node by its new usage; return the capacity
        freed, if any.
        """
        if held == holds:
            return None
        if holds:
            self._book_capacity(*holds)
        if held is None:
            return None
        self._book_capacity(*held, sign=-1)
        at, amount = held
        return Freed(at, amount - holds[1] if holds and holds[0] == at else amount)

    def _tally_pod(
        self, pod: Pod | None, name: NodeName | None, times: int = 1, *, alike: bool = False
    ) -> None:
        """Count the pod, or with times = -1 no longer; alike: as before, but for the node."""
        node = None if name is None else self._nodes.get(name)
        on_edge = node is not None and node.tier is Tier.EDGE
        if pod is not None and not alike:
            self._tally.count(pod, name, on_edge=on_edge, times=times)
        elif pod is not None and name is not None:
            self._tally.count_on(name, pod, on_edge=on_edge, times=times)

    def _book_capacity(self, name: NodeName, amount: Resources, sign: int = 1) -> None:
        """Add an amount to the used or reserved capacity of a node, or subtract it (sign = -1)."""
        taken = self._taken.get(name, NOTHING)
        if amount is not NOTHING:
            taken = taken + amount if sign > 0 else taken - amount
            if taken == NOTHING:
                self._taken.pop(name, None)
            else:
                self._taken[name] = taken
        node = self._nodes.get(name)
        if node is not None:
            self.free = self.free.set(name, node.allocatable - taken)
            self._refilled.add(name)

    # Snapshots.

    def snapshot(self, at: float = 0.0) -> Snapshot:
        pods, census = self._pods, self._tally.census()
        if self._labelled and (unproven := self._list_unproven()):
            pods = pods.update(unproven)
            self._recount_pods(self._pods, pods, unproven)
            census = self._tally.census()
            self._recount_pods(pods, self._pods, unproven)
        if self._index is None or self._room is None:
            self._index = NodeIndex(self._nodes)
            self._room = FreeCapacity(self._index, self.free)
        elif self._refilled:
            self._room = self._room.now(self.free, self._refilled)
        self._refilled.clear()
        index, room = self._index, self._room
        residents = self._count_residents(census.looked_at, index)
        return Snapshot(
            nodes=self._nodes,
            pods=pods,
            free=self.free,
            placed=self._placed,
            scheduler_name=self._scheduler_name,
            surroundings=self.surroundings,
            measured=self.measured,
            pull_speeds=self.pull_speeds,
            at=at,
            counted=Counted(census, index, room, residents),
        )

    def _list_unproven(self) -> dict[Uid, Pod]:
        """Return pods that carry a migration label but belong to no migration plan, with the label
        ignored.

        Any client may label pods.
        """
        if self._followed is None:
            return {}
        return {
            pod.uid: attrs.evolve(pod, detached=False)
            for pod in self.labelled_pods()
            if pod.detached and pod.uid not in self._followed
        }

    def _recount_pods(
        self, before: Map[Uid, Pod], after: Map[Uid, Pod], uids: Iterable[Uid]
    ) -> None:
        for uid in uids:
            self._tally_pod(after[uid], self._placed.get(uid))
            self._tally_pod(before[uid], self._placed.get(uid), times=-1)

    def _count_residents(self, keys: tuple[str, ...] | None, index: NodeIndex) -> Residents:
        known = self._residents
        if known is None or known.keys != keys:
            placed = standing(self._pods, self._placed)
            known = Residents.of(index, self.surroundings, keys, placed)
        else:
            outdated = known.nodes is not index or known.surroundings is not self.surroundings
            if outdated or len(known.selected) > MOST_SELECTIONS:
                known = known.with_nodes(index, self.surroundings)
            steps = list(self._list_steps(known)) if self._touched else ()
            if steps:
                known = known.after(steps)
        self._touched.clear()
        self._residents = known
        return known

    def _list_steps(self, known: Residents) -> Iterator[Step]:
        """Yield arrivals and departures of pods at nodes since the last update of the pod counts
        for inter-pod rules.
        """
        for uid, (was, source) in self._touched.items():
            pod, node = self._pods.get(uid), self._placed.get(uid)
            if source == node and was is not None and pod is not None and is_seen_alike(was, pod):
                continue
            rules = [state.pod_class.rules for state in (was, pod) if state is not None]
            if known.keys is None and not any(each.speaks_of_others for each in rules):
                continue
            if was is not None and source is not None and not was.finished:
                yield was, source, -1
            if pod is not None and node is not None and not pod.finished:
                yield pod, node, 1

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounted capacity disagrees with the observed pods, nodes
        and reservations.
        """
        seen = self.snapshot()
        free = {name: node.allocatable for name, node in seen.nodes.items()}
        placed = {uid: pod.node_name for uid, pod in seen.pods.items() if pod.node_name is not None}
        holding = [pod.held for pod in seen.pods.values() if pod.held]
        for reservation in self._reservations.values():
            holding.append((reservation.node, reservation.requests))
            if reservation.holder in seen.pods:
                placed[Uid(reservation.holder)] = reservation.node
        for name, amount in holding:
            if name in free:
                free[name] -= amount
        _require_truth(
            free == dict(seen.free),
            "free capacity differs from allocatable minus pods and reservations",
        )
        _require_truth(placed == dict(seen.placed), "a pod is counted on another node")
        counted = attrs.evolve(seen, counted=None).census
        _require_truth(counted == seen.census, "incremental aggregates differ from recomputed ones")
        ours = {MIGRATING_LABEL, PULL_LABEL}
        labelled = {uid for uid, pod in self._pods.items() if not ours.isdisjoint(pod.labels)}
        _require_truth(
            labelled == self._labelled.keys(), "the index of labelled pods differs from the pods"
        )
        keys = {(pod.namespace, pod.name): uid for uid, pod in self._pods.items()}
        _require_truth(keys == self._uids, "two pods have one name")
        for holder, reservation in self._reservations.items():
            pod_or_none = self._pods.get(Uid(holder))
            _require_truth(
                pod_or_none is None or pod_or_none.node_name is None,
                f"{pod_or_none} is bound and still holds a reservation on {reservation.node}",
            )
        _require_truth(
            all(uid in self._pods for uid in self.claimed), "a claim refers to a deleted pod"
        )


def _latest(former: Surrounding | None, thing: Surrounding) -> Surrounding:
    """Return the newer state of an object; a claim keeps the nodes that failed to provision."""
    if isinstance(former, Claim | Volume) and isinstance(thing, Claim | Volume):
        if is_older(thing.resource_version, former.resource_version):
            return former
        if isinstance(former, Claim) and isinstance(thing, Claim) and former.uid == thing.uid:
            return attrs.evolve(thing, failed_on=former.failed_on)
    return thing


def _nomination_holder(uid: Uid) -> str:
    return f"nomination of {uid}"


def _require_truth(truth: bool, otherwise: str) -> None:
    if not truth:
        raise AssertionError(otherwise)

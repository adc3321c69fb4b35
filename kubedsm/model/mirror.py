"""Cluster mirror: observed objects, and reservations for actions in flight.

The mirror is the single owner of both: events change objects, `reserve` and `claim` the rest.
Capacity counts once for every pod that holds some: bound and not finished (terminating pods and
other schedulers' included), or reserved. Nothing here awaits, so a decision on a snapshot and its
reservation cannot be interleaved.
"""

from collections.abc import Callable, Container, Iterable

import attrs

from kubedsm.model.books import Books
from kubedsm.model.events import (
    Change,
    ClusterEvent,
    Freed,
    HistoryRewound,
    KindKnown,
    MeasuredApplied,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
    SurroundingDeleted,
    SurroundingEvent,
)
from kubedsm.model.measured import NOTHING_MEASURED, Measured
from kubedsm.model.model import (
    TEMPLATE_HASH_LABEL,
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    Tiers,
    Uid,
    Workload,
)
from kubedsm.model.resource_versions import is_older
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Surroundings, key_of

NOTHING = Resources()


class ReservationError(Exception):
    """The capacity is not free."""


@attrs.frozen(slots=True)
class Reservation:
    """Capacity held on a node, by a pod to be bound or by a migration."""

    holder: str
    node: NodeName
    requests: Resources


@attrs.frozen(slots=True)
class ReplacementClaim:
    """Description of the replacement of a migrated pod."""

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
    """Cluster mirror of one scheduler.

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
        self._books = Books(scheduler_name)
        self._uids: dict[tuple[str, str], Uid] = {}
        self._reservations: dict[str, Reservation] = {}
        self._claims: dict[str, ReplacementClaim] = {}
        self._claimed: dict[Uid, str] = {}
        self._surroundings = Surroundings()
        self._measured = NOTHING_MEASURED
        #: pods with the migration label
        self._marked: set[Uid] = set()
        #: how often anything may have become different
        self.changes = 0

    def apply(self, event: ClusterEvent) -> Change:
        if not isinstance(event, NodeApplied):
            self.changes += 1
        match event:
            case PodApplied(pod):
                return self._pod_applied(pod)
            case PodDeleted(uid):
                return self._forget_pod(uid)
            case HistoryRewound():
                self._books.forget_versions()
                return Change()
            case NodeApplied(node):
                before = self._books.nodes.get(node.name)
                after = attrs.evolve(node, tier=self.tiers.of(node.labels))
                self.changes += self._books.put_node(after)
                return Change(node_before=before, node_after=after)
            case NodeDeleted(name):
                return Change(node_before=self._books.drop_node(name))
            case MeasuredApplied(sample):
                known, self._measured = (
                    self._measured,
                    sample.after(self._measured, self._books.placed),
                )
                return Change(measured_before=known, measured_after=self._measured)
            case _:
                return self._surroundings_changed(event)

    def _surroundings_changed(self, event: SurroundingEvent) -> Change:
        match event:
            case SurroundingApplied(thing):
                known = self._surroundings.get(type(thing), key_of(thing))
                self._surroundings = self._surroundings.having(thing)
                return Change(surrounding_before=known, surrounding_after=thing)
            case SurroundingDeleted(kind, key):
                known = self._surroundings.get(kind, key)
                self._surroundings = self._surroundings.lacking(kind, key)
                return Change(surrounding_before=known)
            case KindKnown(kind):
                self._surroundings = self._surroundings.knowing(kind)
                return Change(known=kind)

    def _pod_applied(self, pod: Pod) -> Change:
        key = (pod.namespace, pod.name)
        known = self._uids.get(key)
        if known is not None and known != pod.uid:
            # Deletion and creation under one name can arrive as a single change.
            self._forget_pod(known)
        if pod.detached and pod.scheduler_name != self._scheduler_name:
            pod = attrs.evolve(pod, detached=False)  # our migrations never touch the pod
        before = self._books.pods.get(pod.uid)
        if before is not None and is_older(pod.resource_version, before.resource_version):
            return Change(pod_before=before, pod_after=before)
        if before is not None:
            # If an API server gives two pods one uid, the latest counts.
            del self._uids[before.namespace, before.name]
        self._uids[key] = pod.uid
        (self._marked.add if pod.detached else self._marked.discard)(pod.uid)
        held = self._reservations.get(pod.uid)
        room = self._books.put_pod(pod, pod.node_name if held is None else held.node)
        if pod.node_name is not None or pod.finished or pod.terminating:
            self.release(pod.uid)
        elif before is None:
            self._assign_claim(pod)
        return Change(pod_before=before, pod_after=pod, freed=room)

    def _forget_pod(self, uid: Uid) -> Change:
        self.release(uid)
        pod = self._books.pods.get(uid)
        if pod is None:
            return Change()
        if self._uids.get((pod.namespace, pod.name)) == uid:
            del self._uids[pod.namespace, pod.name]
        self._marked.discard(uid)
        self._claimed.pop(uid, None)
        return Change(pod_before=pod, freed=self._books.drop_pod(uid))

    def pod(self, uid: Uid) -> Pod | None:
        return self._books.pods.get(uid)

    def pods(self) -> list[Pod]:
        """Return all pods as observed."""
        return list(self._books.pods.values())

    def pods_on(self, name: NodeName) -> list[Pod]:
        """Return the pods bound to the node."""
        return [pod for pod in self._books.pods_at(name) if pod.node_name == name]

    def node(self, name: NodeName) -> Node | None:
        return self._books.nodes.get(name)

    def nodes(self) -> list[Node]:
        return list(self._books.nodes.values())

    @property
    def surroundings(self) -> Surroundings:
        return self._surroundings

    def reserve(self, holder: str, node: NodeName, requests: Resources) -> None:
        """Reserve capacity until `release`, or until the pod of that uid is bound.

        Raise ReservationError if the holder has a reservation or is bound, or the node is gone or
        full.
        """
        if holder in self._reservations:
            raise ReservationError(f"{holder} holds room on {self._reservations[holder].node}")
        pod = self._books.pods.get(Uid(holder))
        if pod is not None and pod.node_name is not None:
            raise ReservationError(f"{pod} is on {pod.node_name} already")
        if node not in self._books.nodes:
            raise ReservationError(f"node {node} is gone")
        free = dict(self.free(node).items())
        short = [name for name, amount in requests.items() if amount > max(0, free.get(name, 0))]
        if short:
            raise ReservationError(f"node {node} has not enough {', '.join(short)}")
        self.changes += 1
        self._hold(Reservation(holder, node, requests))

    def release(self, holder: str) -> None:
        """Release the reservation, if any."""
        reservation = self._give_back(holder)
        if reservation is None or self._on_released is None:
            return
        pod = self._books.pods.get(Uid(holder))
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
            self._books.hold(reservation.node, reservation.requests, sign=-1)
            pod = self._books.pods.get(Uid(holder))
            if pod is not None:
                self._books.move_to(pod.uid, pod.node_name)
        return reservation

    def _hold(self, reservation: Reservation) -> None:
        self._reservations[reservation.holder] = reservation
        self._books.hold(reservation.node, reservation.requests)
        self._books.move_to(Uid(reservation.holder), reservation.node)

    def hand_over(self, holder: str, pod: str) -> None:
        """Transfer a migration's reservation to its pod, until that is bound."""
        reservation = self._give_back(holder)
        if reservation is not None:
            self._hold(attrs.evolve(reservation, holder=pod))

    @property
    def held(self) -> list[str]:
        """Holders of reservations and claims."""
        return [*self._reservations, *self._claims]

    def reserved(self, holder: str) -> bool:
        return holder in self._reservations

    def nominate(self, pod: Pod, node: NodeName) -> None:
        """Reserve capacity that is about to come free: free capacity may be negative meanwhile."""
        holder = _nomination_holder(pod.uid)
        self._give_back(holder)
        self.changes += 1
        self._hold(Reservation(holder, node, pod.requests))

    def withdraw(self, uid: Uid, *, silently: bool = False) -> None:
        """Release the pod's nomination, if any; silently, without callback."""
        if silently:
            self._give_back(_nomination_holder(uid))
        else:
            self.release(_nomination_holder(uid))

    def held_for(self, uids: Iterable[Uid]) -> dict[NodeName, Resources]:
        """Return the capacity to which these pods are nominated."""
        held: dict[NodeName, Resources] = {}
        for uid in uids:
            nomination = self._reservations.get(_nomination_holder(uid))
            if nomination is not None:
                more = held.get(nomination.node, NOTHING)
                held[nomination.node] = more + nomination.requests
        return held

    def claim(self, claimant: str, claim: ReplacementClaim) -> None:
        """Assign the next pod that fits the description to the claimant."""
        self._claims[claimant] = claim

    def unclaim(self, claimant: str) -> None:
        """End a claim, and release the pod it got."""
        self._claims.pop(claimant, None)
        self._claimed = {uid: by for uid, by in self._claimed.items() if by != claimant}

    def claimant(self, uid: Uid) -> str | None:
        return self._claimed.get(uid)

    def leaves_to_place(self, pod: Pod) -> bool:
        """Return whether the pod is ours to place and no migration's."""
        return pod.scheduler_name == self._scheduler_name and pod.uid not in self._claimed

    def claimed_by(self, claimant: str) -> Pod | None:
        """Return the pod that the claim got, if it exists."""
        uid = next((uid for uid, by in self._claimed.items() if by == claimant), None)
        return None if uid is None else self._books.pods.get(uid)

    def _assign_claim(self, pod: Pod) -> None:
        claimant = next((c for c, claim in self._claims.items() if claim.fits(pod)), None)
        if claimant is not None:
            del self._claims[claimant]
            self._claimed[pod.uid] = claimant

    def free(self, name: NodeName) -> Resources:
        """Return the free capacity. Raise KeyError for an unknown node."""
        return self._books.free[name]

    @property
    def measured(self) -> Measured:
        """Last sample."""
        return self._measured

    def snapshot(self, at: float = 0.0) -> Snapshot:
        return self._books.snapshot(self._surroundings, at, self._measured, self._unproven_pods())

    def _unproven_pods(self) -> dict[Uid, Pod]:
        """Return marked pods without a plan: they count as usual, since any client may
        mark pods.
        """
        if self._followed is None:
            return {}
        doubtful = (self._books.pods[uid] for uid in self._marked if uid not in self._followed)
        return {pod.uid: attrs.evolve(pod, detached=False) for pod in doubtful}

    def check_invariants(self) -> None:
        """Raise AssertionError if the accounting disagrees with the objects."""
        seen = self._books.snapshot(self._surroundings, 0.0)
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
            free == dict(seen.free), "the free room is not what nodes, pods and reservations leave"
        )
        _require_truth(placed == dict(seen.placed), "a pod is not where it counts")
        counted = attrs.evolve(seen, counted=None).census
        _require_truth(counted == seen.census, "what is counted along is not what there is")
        marked = {uid for uid, pod in self._books.pods.items() if pod.detached}
        _require_truth(marked == self._marked, "other pods are marked than are known to be")
        keys = {(pod.namespace, pod.name): uid for uid, pod in self._books.pods.items()}
        _require_truth(keys == self._uids, "two pods go by one name")
        for holder, reservation in self._reservations.items():
            pod_or_none = self._books.pods.get(Uid(holder))
            _require_truth(
                pod_or_none is None or pod_or_none.node_name is None,
                f"{pod_or_none} is bound and still holds a reservation on {reservation.node}",
            )
        _require_truth(
            all(uid in self._books.pods for uid in self._claimed), "a claim outlives its pod"
        )


def _nomination_holder(uid: Uid) -> str:
    return f"nomination of {uid}"


def _require_truth(truth: bool, otherwise: str) -> None:
    if not truth:
        raise AssertionError(otherwise)

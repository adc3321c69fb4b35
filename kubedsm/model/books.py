"""Incremental accounting of nodes and pods: free capacity, placements, census, residents.

Everything is updated with each event, so a snapshot costs no pass over all pods.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import attrs
from immutables import Map

from kubedsm.model.census import Tally, counts_alike
from kubedsm.model.events import Freed
from kubedsm.model.measured import NOTHING_MEASURED, Measured
from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Uid
from kubedsm.model.node_index import NodeIndex, Room
from kubedsm.model.residents import Residents, Step, is_seen_alike, sort_keys, standing
from kubedsm.model.snapshot import Counted, Snapshot
from kubedsm.model.surroundings import Surroundings

_NOTHING = Resources()
#: pod changes without a snapshot after which residents are recounted
_MANY = 1000
#: pod and node
_Place = tuple[Pod | None, NodeName | None]


@attrs.define(eq=False)
class Books:
    scheduler_name: str
    # Published values are immutable: updates replace them.
    nodes: Mapping[NodeName, Node] = attrs.field(factory=dict, init=False)
    pods: Map[Uid, Pod] = attrs.field(factory=Map, init=False)
    #: free capacity; negative on an over-committed node
    free: Map[NodeName, Resources] = attrs.field(factory=Map, init=False)
    #: node of each pod, and pods of each node; unknown nodes included
    _placed: Map[Uid, NodeName] = attrs.field(factory=Map, init=False)
    _here: dict[NodeName, set[Uid]] = attrs.field(factory=lambda: defaultdict(set), init=False)
    #: used and reserved capacity by node
    _used: dict[NodeName, Resources] = attrs.field(factory=dict, init=False)
    _reserved: dict[NodeName, Resources] = attrs.field(factory=dict, init=False)
    _tally: Tally = attrs.field(init=False)
    #: index, None after a node changed; published capacity, and nodes changed since
    _index: NodeIndex | None = attrs.field(default=None, init=False)
    _room: Room | None = attrs.field(default=None, init=False)
    _refilled: set[NodeName] = attrs.field(factory=set, init=False)
    #: published residents, and former states of pods changed since
    _residents: Residents | None = attrs.field(default=None, init=False)
    _touched: dict[Uid, _Place] = attrs.field(factory=dict, init=False)

    @_tally.default
    def _nothing_counted(self) -> Tally:
        return Tally(self.scheduler_name)

    def put_node(self, node: Node) -> bool:
        """Apply the node; return whether anything changed."""
        known = self.nodes.get(node.name)
        if known == node:
            return False
        self.nodes = {**self.nodes, node.name: node}
        self._index = None
        self._refill_node(node.name)
        self._retier_node(known, node)
        return True

    def drop_node(self, name: NodeName) -> Node | None:
        known = self.nodes.get(name)
        if known is not None:
            self.nodes = {n: node for n, node in self.nodes.items() if n != name}
            self.free = self.free.delete(name)
            self._index = None
            self._retier_node(known, None)
        return known

    def put_pod(self, pod: Pod, counts_at: NodeName | None) -> Freed | None:
        """Apply the pod; return the freed capacity."""
        self._touch_pod(pod.uid)
        before = self.pods.get(pod.uid)
        self.pods = self.pods.set(pod.uid, pod)
        if before is not None and counts_alike(before, pod):
            self.move_to(pod.uid, counts_at)
            return self._rebook_pod(before, pod)
        if before is not None:
            self._count_pod(before, times=-1)
        self._place_pod(pod.uid, counts_at)
        self._count_pod(pod)
        return self._rebook_pod(before, pod)

    def drop_pod(self, uid: Uid) -> Freed | None:
        self._touch_pod(uid)
        pod = self.pods[uid]
        self._count_pod(pod, times=-1)
        self._place_pod(uid, None)
        self.pods = self.pods.delete(uid)
        return self._rebook_pod(pod, None)

    def pods_at(self, name: NodeName) -> Iterator[Pod]:
        """Return the pods that count on the node."""
        return map(self.pods.__getitem__, self._here.get(name, ()))

    def forget_versions(self) -> None:
        """Clear resource versions: any state is newer than these."""
        self.pods = self.pods.update(
            {uid: attrs.evolve(pod, resource_version="") for uid, pod in self.pods.items()}
        )

    def move_to(self, uid: Uid, counts_at: NodeName | None) -> None:
        """Let a known pod count on another node."""
        if uid not in self.pods or self._placed.get(uid) == counts_at:
            return
        self._touch_pod(uid)
        pod, source, before = self.pods[uid], self._placed.get(uid), self._on_edge(uid)
        self._place_pod(uid, counts_at)
        self._tally.move(pod, source, counts_at)
        after = self._on_edge(uid)
        if before != after:
            self._tally.retier(pod, to_edge=after)

    def hold(self, node: NodeName, amount: Resources, sign: int = 1) -> None:
        """Reserve capacity, or release it."""
        _book_amount(self._reserved, node, amount, sign)
        self._refill_node(node)

    @property
    def placed(self) -> Mapping[Uid, NodeName]:
        """Node at which each pod counts; immutable."""
        return self._placed

    def snapshot(
        self,
        surroundings: Surroundings,
        at: float,
        measured: Measured = NOTHING_MEASURED,
        instead: Mapping[Uid, Pod] | None = None,
    ) -> Snapshot:
        """Return a snapshot; instead: pods that replace their namesakes."""
        instead = instead or {}
        pods = self.pods.update(instead) if instead else self.pods
        for uid, pod in instead.items():
            self._replace_pod(self.pods[uid], pod)
        census = self._tally.census()
        index, room = self._node_columns()
        residents = self._residents_now(census.looked_at, index, surroundings)
        for uid, pod in instead.items():
            self._replace_pod(pod, self.pods[uid])
        return Snapshot(
            nodes=self.nodes,
            pods=pods,
            free=self.free,
            placed=self._placed,
            scheduler_name=self.scheduler_name,
            surroundings=surroundings,
            measured=measured,
            at=at,
            counted=Counted(
                census, index, room, residents, self.nodes, pods, self._placed, self.free
            ),
        )

    def _node_columns(self) -> tuple[NodeIndex, Room]:
        if self._index is None or self._room is None:
            self._index = NodeIndex(self.nodes)
            self._room = Room(self._index, self.free)
        elif self._refilled:
            self._room = self._room.now(self.free, self._refilled)
        self._refilled.clear()
        return self._index, self._room

    def _touch_pod(self, uid: Uid) -> None:
        """Remember the pod's state before a change."""
        if self._residents is not None and uid not in self._touched:
            self._touched[uid] = self._place_of(uid)
            if len(self._touched) > 2 * len(self.pods) + _MANY:
                self._residents = None

    def _place_of(self, uid: Uid) -> _Place:
        return self.pods.get(uid), self._placed.get(uid)

    def _residents_now(
        self, keys: frozenset[str] | None, index: NodeIndex, surroundings: Surroundings
    ) -> Residents:
        known = self._residents
        if known is None or known.keys != sort_keys(keys):
            placed = standing(self.pods, self._placed)
            known = Residents.of(index, surroundings, keys, placed)
        else:
            known = known.amid(index, surroundings)
            if self._touched:
                known = known.after(self._list_steps())
        self._touched.clear()
        self._residents = known
        return known

    def _list_steps(self) -> Iterator[Step]:
        for uid, (was, source) in self._touched.items():
            pod, node = self._place_of(uid)
            if source == node and was is not None and pod is not None and is_seen_alike(was, pod):
                continue
            if was is not None and source is not None and not was.finished:
                yield was, source, -1
            if pod is not None and node is not None and not pod.finished:
                yield pod, node, 1

    def _replace_pod(self, before: Pod, after: Pod) -> None:
        self._count_pod(before, times=-1)
        self._count_pod(after)

    def _count_pod(self, pod: Pod, times: int = 1) -> None:
        node = self._placed.get(pod.uid)
        self._tally.count(pod, node, on_edge=self._on_edge(pod.uid), times=times)

    def _on_edge(self, uid: Uid) -> bool:
        name = self._placed.get(uid)
        node = None if name is None else self.nodes.get(name)
        return node is not None and node.tier is Tier.EDGE

    def _place_pod(self, uid: Uid, node: NodeName | None) -> None:
        before = self._placed.get(uid)
        if before == node:
            return
        if before is not None:
            self._here[before].discard(uid)
            if not self._here[before]:
                del self._here[before]
        if node is None:
            self._placed = self._placed.delete(uid)
        else:
            self._placed = self._placed.set(uid, node)
            self._here[node].add(uid)

    def _retier_node(self, before: Node | None, after: Node | None) -> None:
        was, is_ = (node is not None and node.tier is Tier.EDGE for node in (before, after))
        named = after or before
        if was == is_ or named is None:
            return
        for uid in self._here.get(named.name, ()):
            self._tally.retier(self.pods[uid], to_edge=is_)

    def _rebook_pod(self, before: Pod | None, after: Pod | None) -> Freed | None:
        """Update used capacity; return the freed capacity."""
        held = before.held if before else None
        holds = after.held if after else None
        if held == holds:
            return None
        if held:
            _book_amount(self._used, *held, sign=-1)
            self._refill_node(held[0])
        if holds:
            _book_amount(self._used, *holds)
            self._refill_node(holds[0])
        if held is None:
            return None
        node, amount = held
        return Freed(node, amount - holds[1] if holds and holds[0] == node else amount)

    def _refill_node(self, name: NodeName) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        free = node.allocatable
        for booked in (self._used, self._reserved):
            if name in booked:
                free -= booked[name]
        self.free = self.free.set(name, free)
        self._refilled.add(name)


def _book_amount(
    books: dict[NodeName, Resources], node: NodeName, amount: Resources, sign: int = 1
) -> None:
    booked = books.get(node, _NOTHING)
    booked = booked + amount if sign > 0 else booked - amount
    if booked == _NOTHING:
        books.pop(node, None)
    else:
        books[node] = booked

"""Whose pods get which places, so that the replicas of each workload stand as far apart as can be.

`match` and the cloud say how many pods of a kind go to a node; here they are dealt out. Then pods
can go to other nodes of their tier that have room, where replicas are less together: those of one
batch in one zone, or where the placement comes from a heuristic that knows of no replicas. What
pods like is kept as it was.
"""

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.goals.replica_spread import ReplicaSpread, spreads
from kubedsm.core.packing.problem import Packing, Targets
from kubedsm.core.packing.transport import Transport
from kubedsm.core.world.deadline import Deadline
from kubedsm.core.world.model import NodeName, Pod, Workload
from kubedsm.core.world.node_order import Zone

_FULL = 2**62
#: A kind, and a workload; None for the pods that nothing is dealt out by.
_Group = tuple[int, Workload | None]


@attrs.define(eq=False)
class DealtTier:
    """The nodes of a packing, and the pods that were dealt out to them."""

    packing: Packing
    #: N x S
    loads: Ints
    #: of all tiers
    spread: ReplicaSpread
    names: list[NodeName] = attrs.field(init=False)
    zones: set[Zone] = attrs.field(init=False)
    members: dict[_Group, list[Pod]] = attrs.field(factory=dict)
    #: N, how many pods of a group each node gets
    places: dict[_Group, Ints] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.names = [node.name for node in self.packing.nodes]
        self.zones = {self.spread.zones[name] for name in self.names}

    @classmethod
    def of(
        cls, packing: Packing, loads: Ints, chosen: Sequence[Sequence[Pod]], spread: ReplicaSpread
    ) -> "DealtTier":
        """The chosen pods of each kind, as many as have a place; they join `spread`."""
        tier = cls(packing, loads.copy(), spread)
        for kind, (pods, number) in enumerate(zip(chosen, loads.sum(axis=0).tolist(), strict=True)):
            members: dict[_Group, list[Pod]] = {}
            for pod in pods[:number]:
                members.setdefault((kind, pod.workload if spreads(pod) else None), []).append(pod)
            if members:
                tier._deal(kind, {group: len(of_group) for group, of_group in members.items()})
                tier.members |= members
        return tier

    @property
    def sizes(self) -> Iterator[tuple[int, Workload, int]]:
        """How many pods there are of a kind and a workload that is spread."""
        for (kind, workload), members in self.members.items():
            if workload is not None:
                yield kind, workload, len(members)

    @property
    def targets(self) -> Targets:
        return tuple(
            (pod, self.names[node])
            for group, pods in self.members.items()
            for pod, node in zip(pods, _listed(self.places[group]), strict=True)
        )

    def _deal(self, kind: int, sizes: dict[_Group, int]) -> None:
        nodes = np.flatnonzero(self.loads[:, kind])
        slots = self.loads[nodes, kind]
        shares = self._shares(nodes, sizes, slots) if len(sizes) > 1 else slots[None]
        for group, share in zip(sizes, shares, strict=True):
            self.places[group] = np.zeros(len(self.names), dtype=np.int64)
            self.places[group][nodes] = share
            for at in np.flatnonzero(share).tolist():
                self._put(group, int(nodes[at]), int(share[at]))

    def _shares(self, nodes: Ints, sizes: dict[_Group, int], slots: Ints) -> Ints:
        names = [self.names[node] for node in nodes.tolist()]
        crowds = np.array([self._company(group, names) for group in sizes], dtype=np.int64)
        codes: dict[Zone, int] = {}
        zones = np.array([codes.setdefault(self.spread.zones[n], len(codes)) for n in names])
        transport = Transport(
            # What a pod costs wherever it goes tells nothing apart.
            crowds - crowds.min(axis=1, keepdims=True),
            (zones[:, None] == zones).astype(np.int64) * (len(codes) > 1),
            np.array([workload is None for _, workload in sizes]),
        )
        return transport.dealt(np.array(list(sizes.values()), dtype=np.int64), slots)

    def _company(self, group: _Group, names: Sequence[NodeName]) -> Ints:
        _, workload = group
        if workload is None:
            return np.zeros(len(names), dtype=np.int64)
        return self.spread.companies(workload, names)

    def _put(self, group: _Group, node: int, number: int) -> None:
        _, workload = group
        if workload is not None:
            self.spread.put(workload, self.names[node], number)

    def even_out(self, deadline: Deadline) -> int:
        """Bring pods to where they have less company; how many were moved.

        Each move makes the cost less, so this ends.
        """
        room = self.packing.room_after(self.loads)
        moves, before = 0, -1
        while before != moves and not deadline.passed:
            before = moves
            moves += sum(self._even_out(group, room) for group in self.places)
        return moves

    def _even_out(self, group: _Group, room: Ints) -> int:
        moves, places = 0, self.places[group]
        for node in np.flatnonzero(places).tolist():
            while places[node] and (best := self._better(group, node, room)) is not None:
                moves += 1
                for at, by in ((node, -1), (best, 1)):
                    self._put(group, at, by)
                    places[at] += by
                    self.loads[at, group[0]] += by
                    room[at] -= by * self.packing.requests[group[0]]
        return moves

    def _better(self, group: _Group, node: int, room: Ints) -> int | None:
        """Where one of the group's pods on the node would have the least company, if that is less.

        Where it fits, and likes to be as much.
        """
        (kind, workload), packing, spread = group, self.packing, self.spread
        if workload is None:
            return None
        zone, in_zone = spread.zones[self.names[node]], spread.in_zone[workload]
        here = spread.company(workload, self.names[node]) - 2
        if here <= min(in_zone[other] - (other == zone) for other in self.zones):
            return None
        fits = (self.loads[:, kind] < packing.most[:, kind]) & (room >= packing.requests[kind]).all(
            axis=1
        )
        fits &= packing.penalties[:, kind] <= packing.penalties[node, kind]
        # It is no company to itself: elsewhere in its zone it is counted once too often.
        own = np.array([spread.zones[name] == zone for name in self.names])
        company = np.where(fits, self._company(group, self.names) - own, _FULL)
        company[node] = here
        best = int(company.argmin())
        return best if company[best] < here else None


def _listed(numbers: Ints) -> list[int]:
    listed: list[int] = np.repeat(np.arange(len(numbers)), numbers).tolist()
    return listed

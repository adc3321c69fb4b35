"""Whose pods get which places, so that the replicas of each workload stand as far apart as can be.

`match` and the cloud say how many pods of a kind go to a node; here they are dealt out. Then pods
can go to other nodes of their tier that have room, where replicas are less together: those of one
batch in one zone, or where the placement comes from a heuristic that knows of no replicas. What
pods like is kept as it was.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, Workload
from kubedsm.model.node_index import Codes
from kubedsm.model.node_order import Zone
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.replica_spread import ReplicaSpread, spreads
from kubedsm.optimizer.matching.problem import Packing, Targets
from kubedsm.optimizer.matching.transport import Transport

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
    #: N, a number for the zone of each node
    codes: Codes = attrs.field(init=False)
    zones: set[Zone] = attrs.field(init=False)
    members: dict[_Group, list[Pod]] = attrs.field(factory=dict)
    #: how many pods of a group the nodes get that get any
    places: dict[_Group, Counter[int]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        rows, zone = self.packing.rows, self.packing.rows.index.zone
        self.codes = zone.codes[rows.positions]
        self.zones = {zone.values[code] for code in np.unique(self.codes).tolist()}

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
            (pod, self._name(node))
            for group, pods in self.members.items()
            for pod, node in zip(pods, sorted(self.places[group].elements()), strict=True)
        )

    def _name(self, node: int) -> NodeName:
        rows = self.packing.rows
        name: NodeName = rows.index.names[rows.positions[node]]
        return name

    def _deal(self, kind: int, sizes: dict[_Group, int]) -> None:
        nodes = np.flatnonzero(self.loads[:, kind])
        slots = self.loads[nodes, kind]
        shares = self._shares(nodes, sizes, slots) if len(sizes) > 1 else slots[None]
        for group, share in zip(sizes, shares, strict=True):
            self.places[group] = Counter()
            for at in np.flatnonzero(share).tolist():
                self._put(group, int(nodes[at]), int(share[at]))

    def _shares(self, nodes: Ints, sizes: dict[_Group, int], slots: Ints) -> Ints:
        crowds = np.array([self._company(workload)[nodes] for _, workload in sizes])
        transport = Transport(
            # What a pod costs wherever it goes tells nothing apart.
            crowds - crowds.min(axis=1, keepdims=True),
            self.codes[nodes],
            np.array([workload is None for _, workload in sizes]),
        )
        return transport.dealt(np.array(list(sizes.values()), dtype=np.int64), slots)

    def _company(self, workload: Workload | None) -> Ints:
        """N, what one more pod of it would cost on each node."""
        rows = self.packing.rows
        if workload is None:
            return np.zeros(len(rows.positions), dtype=np.int64)
        company: Ints = self.spread.by_node(workload, rows.index)[rows.positions]
        return company

    def _put(self, group: _Group, node: int, number: int) -> None:
        _, workload = group
        self.places[group][node] += number
        if workload is not None:
            self.spread.put(workload, self._name(node), number)

    def even_out(self, deadline: Deadline) -> int:
        """Bring pods to where they have less company; how many were moved.

        Each move makes the cost less, so this ends.
        """
        room = self.packing.room_after(self.loads)
        moves, still = 0, 0
        for group in cycle(self.places):
            if still == len(self.places) or deadline.passed:
                break
            moved = self._even_out(group, room)
            still = 0 if moved else still + 1
            moves += moved
        return moves

    def _even_out(self, group: _Group, room: Ints) -> int:
        """Each of the group's pods to where it has the least company, if it has less there.

        Where it fits, and likes to be as much.
        """
        (kind, workload), packing, places = group, self.packing, self.places[group]
        if workload is None or not self._crowded(workload, places):
            return 0
        moves, requests = 0, packing.requests[kind]
        penalties, most = packing.penalties[:, kind], packing.most[:, kind]
        fits = (self.loads[:, kind] < most) & (room >= requests).all(axis=1)
        company = self._company(workload)
        for node in sorted(+places):
            while places[node]:
                # It is no company to itself, on its node and in its zone.
                here = company[node] - 2
                open_to = fits & (penalties <= penalties[node])
                elsewhere = np.where(open_to, company - (self.codes == self.codes[node]), _FULL)
                elsewhere[node] = here
                best = int(elsewhere.argmin())
                if elsewhere[best] >= here:
                    break
                moves += 1
                for at, by in ((node, -1), (best, 1)):
                    self._put(group, at, by)
                    self.loads[at, kind] += by
                    room[at] -= by * requests
                    fits[at] = self.loads[at, kind] < most[at] and (room[at] >= requests).all()
                    company[at] += by
                    company[self.codes == self.codes[at]] += by
        return moves

    def _crowded(self, workload: Workload, nodes: Iterable[int]) -> bool:
        """Whether it would be less company to one of its pods on these nodes to be alone somewhere.

        As far as the zones go, whatever room there is.
        """
        spread, in_zone = self.spread, self.spread.in_zone[workload]
        least = min(in_zone[zone] for zone in self.zones)
        for name in map(self._name, nodes):
            there = in_zone[spread.zones[name]]
            if spread.on_node[workload][name] + there - 2 > least - (there == least):
                return True
        return False

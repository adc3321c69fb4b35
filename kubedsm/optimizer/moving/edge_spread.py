"""How the replicas of each workload stand together on the edge, and what a change adds to that.

The pairs of `core.goals.replica_spread` that are on the edge: what leaves for the cloud finds its
place there later. Those on a node are exact. Those in a zone depend on what happens on its other
nodes: a pod counts as many as there are in the zone before anything moves; and none where all of
the edge is one zone, since no place there is any better.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.replica_spread import spreads
from kubedsm.optimizer.moving.edge_items import Item

#: Replicas together beyond which no more are told apart.
_MOST = 255


@attrs.frozen(eq=False)
class EdgeSpread:
    """Of I items, of W workloads, on N nodes. Arrays are made when first asked for."""

    #: I
    items: tuple[Item, ...]
    #: N: codes of their zones
    zones: Ints
    #: which node is which of the N
    rows: Mapping[NodeName, int]
    #: how many replicas of a workload are where
    standing: Mapping[Workload, Mapping[NodeName, int]]
    #: otherwise it adds nothing
    matters: bool

    def only(self, items: Sequence[int]) -> "EdgeSpread":
        """The same for some of the items, given by index."""
        return attrs.evolve(self, items=tuple(self.items[item] for item in items))

    @cached_property
    def _workloads(self) -> list[Workload | None]:
        """I: of each item; None if its pods have constraints of their own."""
        return [i.workload if self.matters and spreads(i.like) else None for i in self.items]

    @cached_property
    def named(self) -> tuple[Workload, ...]:
        """W."""
        return tuple(dict.fromkeys(filter(None, self._workloads)))

    @cached_property
    def workloads(self) -> Ints:
        """I x W: 1 for the workload of the item."""
        of_item = [[workload == other for other in self.named] for workload in self._workloads]
        return np.array(of_item, dtype=np.int64).reshape(len(self.items), len(self.named))

    @cached_property
    def _replicas(self) -> Ints:
        """N x W: on the node."""
        replicas = np.zeros((len(self.zones), len(self.named)), dtype=np.int64)
        for column, workload in enumerate(self.named):
            for name, number in self.standing.get(workload, {}).items():
                if name in self.rows:
                    replicas[self.rows[name], column] = number
        return replicas

    @cached_property
    def company(self) -> Ints:
        """N x W: replicas on the node."""
        return np.minimum(self._replicas, _MOST)

    @cached_property
    def neighbours(self) -> Ints:
        """N x W: replicas on the edge nodes of its zone."""
        codes, zones = np.unique(self.zones, return_inverse=True)
        if len(codes) <= 1:
            return np.zeros_like(self._replicas)
        in_zone = np.zeros((len(codes), len(self.named)), dtype=np.int64)
        np.add.at(in_zone, zones, self._replicas)
        return np.minimum(in_zone[zones], _MOST)

    def most_added(self, touches: int) -> int:
        """No less than what changes may add or take away, all nodes together."""
        if not self.company.size:
            return 0
        return touches * (int(self.company.max() + self.neighbours.max()) + touches)

    def added(self, nodes: Ints, changes: Ints) -> Ints:
        """What each of K changes, K x I, adds on its node, K."""
        more = changes @ self.workloads
        on_node = more * (2 * self.company[nodes] + more - 1) // 2
        added: Ints = (on_node + more * self.neighbours[nodes]).sum(axis=1)
        return added

"""How the replicas of each workload stand together on the edge, and what a change adds to that.

The pairs of `core.goals.replica_spread` that are on the edge: what leaves for the cloud finds its
place there later. Those on a node are exact. Those in a zone depend on what happens on its other
nodes: a pod counts as many as there are in the zone before anything moves; and none where all of
the edge is one zone, since no place there is any better.
"""

from collections.abc import Sequence
from typing import Self

import attrs
import numpy as np

from kubedsm.core.goals.fragmentation import Ints
from kubedsm.core.goals.replica_spread import ReplicaSpread, spreads
from kubedsm.core.moving.edge_items import Item
from kubedsm.core.world.model import Node
from kubedsm.core.world.node_order import Zone, zone_of
from kubedsm.core.world.snapshot import Snapshot

#: Replicas together beyond which no more are told apart.
_MOST = 255


@attrs.frozen(eq=False)
class EdgeSpread:
    """Of I items, of W workloads, on N nodes."""

    #: I x W: 1 for the workload of the item, unless its pods have constraints of their own
    workloads: Ints
    #: N x W: replicas on the node
    company: Ints
    #: N x W: replicas on the edge nodes of its zone
    neighbours: Ints

    @classmethod
    def of(cls, snapshot: Snapshot, items: Sequence[Item], nodes: Sequence[Node]) -> Self:
        named = list(dict.fromkeys(i.workload for i in items if spreads(i.pods[0])))
        placed = ReplicaSpread.of(snapshot, set(named)).on_node
        counts = [[placed[w][n.name] if w in placed else 0 for w in named] for n in nodes]
        company = np.array(counts, dtype=np.int64).reshape(len(nodes), len(named))
        codes: dict[Zone, int] = {}
        zones = [codes.setdefault(zone_of(node), len(codes)) for node in nodes]
        in_zone = np.zeros((len(codes), len(named)), dtype=np.int64)
        np.add.at(in_zone, zones, company)
        of_item = [[spreads(i.pods[0]) and i.workload == w for w in named] for i in items]
        return cls(
            np.array(of_item, dtype=np.int64).reshape(len(items), len(named)),
            np.minimum(company, _MOST),
            np.minimum(in_zone[zones], _MOST) if len(codes) > 1 else np.zeros_like(company),
        )

    @classmethod
    def none(cls, nodes: int, items: int) -> Self:
        """Where it does not matter."""
        of_node = np.zeros((nodes, 0), dtype=np.int64)
        return cls(np.zeros((items, 0), dtype=np.int64), of_node, of_node)

    def only(self, items: Sequence[int]) -> "EdgeSpread":
        """The same for some of the items, given by index."""
        return attrs.evolve(self, workloads=self.workloads[items])

    def most_added(self, touches: int) -> int:
        """No less than what changes may add or take away, all nodes together."""
        if not self.company.size:
            return 0
        return touches * (int(self.company.max() + self.neighbours.max()) + touches)

    def added(self, node: int, changes: Ints) -> Ints:
        """What each of K changes, K x I, of the node adds."""
        more = changes @ self.workloads
        on_node = more * (2 * self.company[node] + more - 1) // 2
        added: Ints = (on_node + more * self.neighbours[node]).sum(axis=1)
        return added

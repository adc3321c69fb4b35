"""How the replicas of workloads stand together: what of a workload is lost with a node, or a zone.

The cost is the number of pairs of replicas on one node, and of pairs in one zone: c (c - 1) / 2 of
c replicas, so that what one more adds is the number of those that it joins, and the least sum is
the most even spread. (Twice that and the number of replicas are the sum of squares.)

It stands for what kube-scheduler does by default, with PodTopologySpread's built-in constraints
(hostname, maxSkew 3, and zone, maxSkew 5, both ScheduleAnyway), for pods without
topologySpreadConstraints of their own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, Workload
from kubedsm.model.node_index import NodeIndex, Zone
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Ints


def spreads(pod: Pod) -> bool:
    """Whether the pod leaves it to us how far it is from its like."""
    rules = pod.pod_class.rules
    return not (rules.spread or rules.preferences.spread)


def pairs(number: int) -> int:
    return number * (number - 1) // 2


@attrs.define
class ReplicaSpread:
    """Where the replicas of workloads are; it changes as its owner puts and takes them.

    Replicas that are terminating, finished or detached do not count.
    """

    zones: Mapping[NodeName, Zone]
    on_node: dict[Workload, Counter[NodeName]]
    in_zone: dict[Workload, Counter[Zone]]

    @classmethod
    def of(cls, snapshot: Snapshot, workloads: Iterable[Workload] | None = None) -> Self:
        """Of these workloads, or of all: bound pods, and those that a node is reserved for."""
        found = cls(snapshot.index.zones, {}, {})
        standing = snapshot.census.standing
        for workload in standing if workloads is None else workloads:
            for node, number in standing.get(workload, {}).items():
                if node in found.zones:
                    found.put(workload, node, number)
        return found

    def copy(self) -> Self:
        """Another that changes by itself."""
        return attrs.evolve(
            self,
            on_node={workload: Counter(counts) for workload, counts in self.on_node.items()},
            in_zone={workload: Counter(counts) for workload, counts in self.in_zone.items()},
        )

    def put(self, workload: Workload, node: NodeName, number: int = 1) -> None:
        """That many replicas come to the node; they leave it if the number is below zero."""
        if workload not in self.on_node:
            self.on_node[workload], self.in_zone[workload] = Counter(), Counter()
        self.on_node[workload][node] += number
        self.in_zone[workload][self.zones[node]] += number

    def company(self, workload: Workload, node: NodeName) -> int:
        """What one more replica there would cost: those on the node, and those in its zone."""
        if workload not in self.on_node:
            return 0
        return self.on_node[workload][node] + self.in_zone[workload][self.zones[node]]

    def by_node(self, workload: Workload, nodes: NodeIndex) -> Ints:
        """The same for each node of the index, which has all nodes of the zones."""
        joined = np.zeros(len(nodes), dtype=np.int64)
        if workload not in self.on_node:
            return joined
        for name, number in self.on_node[workload].items():
            joined[nodes.positions[name]] = number
        in_zone, zone = self.in_zone[workload], nodes.zone
        joined += np.array([in_zone[each] for each in zone.values], dtype=np.int64)[zone.codes]
        return joined

    @property
    def cost(self) -> int:
        """Of all together: pairs on a node, and pairs in a zone."""
        on_nodes = [number for counts in self.on_node.values() for number in counts.values()]
        in_zones = [number for counts in self.in_zone.values() for number in counts.values()]
        return sum(map(pairs, on_nodes)) + sum(map(pairs, in_zones))

"""Replica spread: pairs of a workload's replicas on the same node, and in the same zone.

The cost of c replicas is c (c - 1) / 2. One more replica costs the number of replicas that it
joins, and the least total cost is the most even spread. This cost represents kube-scheduler's
default PodTopologySpread constraints, for pods without spread constraints.
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


def has_default_spread(pod: Pod) -> bool:
    """Return True if the pod has no spread constraints of its own, so default spreading applies."""
    rules = pod.pod_class.rules
    return not (rules.spread or rules.preferences.spread)


def pairs(number: int) -> int:
    return number * (number - 1) // 2


@attrs.define
class ReplicaSpread:
    """Replica counts of each workload by node and by zone; mutable, for one owner.

    Terminating, finished and detached replicas do not count.
    """

    zones: Mapping[NodeName, Zone]
    on_node: dict[Workload, Counter[NodeName]]
    in_zone: dict[Workload, Counter[Zone]]

    @classmethod
    def of(cls, snapshot: Snapshot, workloads: Iterable[Workload] | None = None) -> Self:
        """Count bound and reserved replicas of the given workloads, or of all workloads."""
        found = cls(snapshot.index.zones, {}, {})
        standing = snapshot.census.standing
        for workload in standing if workloads is None else workloads:
            for node, number in standing.get(workload, {}).items():
                if node in found.zones:
                    found.put(workload, node, number)
        return found

    def copy(self) -> Self:
        """Return an independent copy of the replica counts."""
        return type(self)(
            self.zones,
            {workload: counts.copy() for workload, counts in self.on_node.items()},
            {workload: counts.copy() for workload, counts in self.in_zone.items()},
        )

    def put(self, workload: Workload, node: NodeName, number: int = 1) -> None:
        """Add replicas of a workload to the node; a negative number removes replicas."""
        if workload not in self.on_node:
            self.on_node[workload], self.in_zone[workload] = Counter(), Counter()
        self.on_node[workload][node] += number
        self.in_zone[workload][self.zones[node]] += number

    def company(self, workload: Workload, node: NodeName) -> int:
        """Return the spread cost of another replica on the node: replicas of the workload on the
        node and in its zone.
        """
        if workload not in self.on_node:
            return 0
        return self.on_node[workload][node] + self.in_zone[workload][self.zones[node]]

    def by_node(self, workload: Workload, nodes: NodeIndex) -> Ints:
        """Return the spread cost of an additional replica on each node: existing replicas there,
        plus replicas in the node's zone.
        """
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
        """Total spread cost: pairs of a workload's replicas sharing a node, plus pairs sharing a
        zone.
        """
        on_nodes = [number for counts in self.on_node.values() for number in counts.values()]
        in_zones = [number for counts in self.in_zone.values() for number in counts.values()]
        return sum(map(pairs, on_nodes)) + sum(map(pairs, in_zones))

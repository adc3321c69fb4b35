"""Snapshot: immutable view of the cluster, the input of all placement and migration decisions."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import attrs
import numpy as np

from kubedsm.model.census import Census, census_of
from kubedsm.model.images import sum_localities
from kubedsm.model.measured import NOTHING_MEASURED, Measured
from kubedsm.model.model import Node, NodeName, Pod, Resources, Share, Taint, Tier, Uid, Workload
from kubedsm.model.node_index import FreeCapacity, NodeIndex, NodeRows, Step
from kubedsm.model.persistent_map import changed
from kubedsm.model.residents import Residents, standing
from kubedsm.model.surroundings import Surroundings


@attrs.frozen(slots=True, eq=False)
class Counted:
    """Aggregates of one snapshot (pod counts, node index, free capacity), which the cluster mirror
    updates with each event.
    """

    census: Census
    index: NodeIndex
    room: FreeCapacity
    residents: Residents


@attrs.frozen(slots=True)
class Snapshot:
    """Immutable view of the cluster; capacity reserved for binds and migrations in flight is not
    counted as free.

    `free` is allocatable less the requests of pods bound to, terminating on, or reserved on the
    node. `placed` has the node of each pod, or the one reserved for it.
    """

    nodes: Mapping[NodeName, Node]
    pods: Mapping[Uid, Pod]
    free: Mapping[NodeName, Resources]
    placed: Mapping[Uid, NodeName]
    #: pods of this scheduler only; pods that count for QoS, pending ones included
    scheduler_name: str = "kubedsm"
    surroundings: Surroundings = attrs.field(factory=Surroundings)
    measured: Measured = NOTHING_MEASURED
    #: time in seconds since the epoch; 0 if unknown
    at: float = 0.0
    #: bytes per second of the last observed image pull, by node
    pull_speeds: Mapping[NodeName, float] = attrs.field(factory=dict)

    #: None: counted from scratch. Required again with other nodes, pods, placements or capacity.
    counted: Counted | None = attrs.field(default=None, eq=False, repr=False)

    @cached_property
    def census(self) -> Census:
        if self.counted:
            return self.counted.census
        edge = {name for name, node in self.nodes.items() if node.tier is Tier.EDGE}
        pods = ((pod, self.placed.get(uid)) for uid, pod in self.pods.items())
        return census_of(self.scheduler_name, pods, edge)

    @cached_property
    def index(self) -> NodeIndex:
        return self.counted.index if self.counted else NodeIndex(self.nodes)

    @cached_property
    def room(self) -> FreeCapacity:
        return self.counted.room if self.counted else FreeCapacity(self.index, self.free)

    @cached_property
    def residents(self) -> Residents:
        if self.counted:
            return self.counted.residents
        keys = self.census.looked_at
        return Residents.of(self.index, self.surroundings, keys, standing(self.pods, self.placed))

    def in_turn(
        self,
        tier: Tier,
        room: FreeCapacity | None = None,
        more: int = 0,
        pods: Iterable[Pod] = (),
    ) -> NodeRows:
        """Return the tier's nodes in the order in which pods are placed on them; each pod placed so
        far shifts the start by one node.

        Zones are interleaved; in the cloud, nodes with the fewest pods come first. The start
        depends on the snapshot alone, so decisions are reproducible. room, more: free capacity and
        further pods. pods: to be placed; nodes with their images precede otherwise equal nodes.
        """
        room = self.room if room is None else room
        positions = self.index.of_tier(tier)
        start = (len(self.placed) + more) % max(1, len(positions))
        positions = np.concatenate((positions[start:], positions[:start]))
        orders = []
        if self.index.images:
            orders.append(-sum_localities(pods, self.index)[positions])
        if tier is Tier.CLOUD:
            orders.append((self.index.size("pods") - room.column("pods"))[positions])
        if orders:
            positions = positions[np.lexsort(orders)]
        return NodeRows(self.index, room, positions)

    def of_tier(self, tier: Tier) -> list[Node]:
        """Return the tier's nodes in name order."""
        return [node for node in self.index.nodes if node.tier is tier]

    def is_replica(self, pod: Pod) -> bool:
        """Return True if the pod is of this scheduler, and counts in the edge share of its
        workload.
        """
        return pod.scheduler_name == self.scheduler_name and pod.counts_for_qos

    def schedulable(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pending pods of this scheduler, oldest first, except pods in terminating
        namespaces.
        """
        return sorted(
            (
                pod
                for pod in pods
                if pod.scheduler_name == self.scheduler_name
                and pod.waits_for_node
                and pod.uid not in self.placed
                and pod.namespace not in self.surroundings.terminating_namespaces
            ),
            key=attrgetter("created", "namespace", "name"),
        )

    def with_placed(self, targets: Mapping[Uid, NodeName | None]) -> "Snapshot":
        """Return the snapshot with these pods on these nodes, whether they fit or not, and their
        former capacity released; None: on no node.
        """
        pods: dict[Uid, Pod] = {}
        free: dict[NodeName, Resources] = {}
        placed: dict[Uid, NodeName] = {}
        steps: list[Step] = []
        for uid, node in targets.items():
            pod, source = self.pods.get(uid), self.placed.get(uid)
            if pod is None:
                continue
            if source is not None and not pod.finished:
                steps.append((pod, source, -1))
            if node is not None and node in self.free:
                pods[uid], placed[uid] = attrs.evolve(pod, node_name=node), node
                steps.append((pods[uid], node, 1))
        for pod, node, by in steps:
            if node in self.free:
                left = free.get(node, self.free[node])
                free[node] = left - pod.requests if by > 0 else left + pod.requests
        gone = [uid for uid in targets if uid in self.placed and uid not in placed]
        after = attrs.evolve(
            self,
            pods=changed(self.pods, pods),
            free=changed(self.free, free),
            placed=changed(self.placed, placed, gone),
            counted=None,
        )
        if self.counted is None or 2 * len(steps) > len(self.placed):
            return after
        counted = attrs.evolve(
            self.counted,
            census=self.census.after(steps, self.scheduler_name, self.nodes),
            room=self.room.now(after.free, free),
            residents=self.residents.after(step for step in steps if not step[0].finished),
        )
        return attrs.evolve(after, counted=counted)

    def with_free(self, more: Mapping[NodeName, Resources]) -> "Snapshot":
        """Return the snapshot with the given amounts added to the free capacity of nodes; unknown
        nodes are ignored.
        """
        here = more.keys() & self.free.keys()
        if not here:
            return self
        free = {**self.free, **{name: self.free[name] + more[name] for name in here}}
        return self._replace(fields={"free": free}, room=self.room.now(free, here))

    def with_taints(self, taints: Mapping[NodeName, Taint]) -> "Snapshot":
        """Return the snapshot with an additional taint, the first, on the given nodes."""
        nodes = dict(self.nodes)
        for name in taints.keys() & nodes.keys():
            node = nodes[name]
            nodes[name] = attrs.evolve(node, taints=(taints[name], *node.taints))
        index = NodeIndex(nodes)
        residents = self.residents.with_nodes(index, self.surroundings)
        return self._replace(
            fields={"nodes": nodes},
            index=index,
            room=FreeCapacity(index, self.free),
            residents=residents,
        )

    def with_gated(self, is_gated: Callable[[Pod], bool]) -> "Snapshot":
        """Return the snapshot in which the chosen pending pods are gated; pod counts stay
        unchanged.
        """
        gated = {
            uid: attrs.evolve(pod, gated=True)
            for uid, pod in self.pods.items()
            if pod.waits_for_node and is_gated(pod)
        }
        return self._replace(fields={"pods": {**self.pods, **gated}}) if gated else self

    def with_shares(self, shares: Mapping[Workload, Share]) -> "Snapshot":
        """Return the snapshot with the given edge shares of workloads in place of the counted
        shares.
        """
        return self._replace(census=attrs.evolve(self.census, shares=shares))

    def without(self, uids: Iterable[Uid]) -> "Snapshot":
        """Return the snapshot with the given pods removed from their nodes, and their capacity
        released.
        """
        return self.with_placed(dict.fromkeys(uids))

    def _replace(self, *, fields: Mapping[str, Any] | None = None, **counted: Any) -> "Snapshot":
        """Return a copy of the snapshot with changed fields, keeping all aggregates except the
        given ones.
        """
        known = self.counted or Counted(self.census, self.index, self.room, self.residents)
        return attrs.evolve(self, counted=attrs.evolve(known, **counted), **(fields or {}))

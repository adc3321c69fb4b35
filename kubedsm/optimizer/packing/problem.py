"""Packing problem: movable and pending pods of the whole cluster as one placement problem."""

from collections.abc import Iterable
from functools import cache, cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import (
    NodeName,
    Pod,
    PodClass,
    Tier,
    Workload,
    serving_order,
)
from kubedsm.model.node_index import Column, FreeCapacity, NodeRows, column_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.optimizer.matching.problem import Kind, PlacementProblem, Rank
from kubedsm.optimizer.moving.edge_items import EdgeRules, nodes_open_to
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.plugins.feasibility import EquivalenceClass

#: Tier and code of the site, if a pod stays there.
_Place = tuple[Tier | None, int] | None
#: Key of a kind; workload only if its edge share has a benefit.
_Alike = tuple[PodClass | EquivalenceClass, Workload | None, _Place]


@attrs.frozen(eq=False, kw_only=True)
class ClusterProblem(PlacementProblem):
    """Packing problem: placement of all running and pending pods on all nodes, starting from the
    current placement.

    Node capacity excludes the usage of the pods being placed.
    """

    snapshot: Snapshot
    #: N x S, where pods of each kind run
    old: Ints
    #: S, how many pods of each kind must have a node
    least: Ints
    #: S, by priority, 0 for the highest
    tiers: Ints
    #: the priority of each tier
    priorities: tuple[int, ...]
    #: S, workload of each kind; None without benefit of edge shares
    workloads: tuple[Workload | None, ...]
    #: None without constraints between pods
    rules: EdgeRules | None

    @classmethod
    def pose(
        cls,
        snapshot: Snapshot,
        movable: Movable,
        gains: Gains,
        *,
        allow_evictions: bool,
        sites: Column | None = None,
    ) -> Self:
        """Construct the packing problem (groups of interchangeable pods, nodes, current placement)
        from a snapshot.

        movable: returns why a pod must not be migrated, or None. Fixed pods only occupy capacity.
        If evictions are allowed, other pods may be evicted for pending pods of a higher priority.
        sites: site of each edge node. Running pods of workloads counted by site stay at their site.
        """
        rows = NodeRows(snapshot.index, snapshot.room, np.flatnonzero(~snapshot.index.tierless))
        ours = (p for p in snapshot.pods.values() if p.scheduler_name == snapshot.scheduler_name)
        running = [pod for pod in ours if pod.node_name in snapshot.nodes and not movable(pod)]
        pods = snapshot.schedulable(snapshot.pods.values())
        waiting = [pod for pod in pods if not pod.requests.beyond_any_node]
        rules = EdgeRules.of(snapshot, running)
        # As if none of the pods to be packed occupied a node.
        free = snapshot.without(pod.uid for pod in running).free
        emptied = attrs.evolve(rows, room=FreeCapacity(rows.index, free))
        found = _group_kinds(snapshot, [*running, *waiting], emptied, rules, gains, sites)
        kinds = [kind for kind, _ in found]
        problem = PlacementProblem.of(kinds, emptied)
        old = problem.count_loads((pod, pod.node_name) for pod in running)
        problem = attrs.evolve(problem, free=np.maximum(problem.free, old @ problem.requests))
        problem = attrs.evolve(problem, most=np.maximum(problem.fitting, old))
        priorities = sorted({kind.rank.priority for kind in kinds}, reverse=True)
        tiers = np.array([priorities.index(k.rank.priority) for k in kinds], dtype=np.int64)
        least = old.sum(axis=0)
        if allow_evictions:
            waits = [tier for tier, n in zip(tiers, problem.counts - least, strict=True) if n]
            least[tiers > min(waits, default=len(priorities))] = 0
        workloads = tuple(workload for _, workload in found)
        return cls(
            **attrs.asdict(problem, recurse=False),
            snapshot=snapshot,
            old=old,
            least=least,
            tiers=tiers,
            priorities=tuple(priorities),
            workloads=workloads,
            rules=rules,
        )

    @cached_property
    def waiting(self) -> tuple[tuple[Pod, ...], ...]:
        """Pending pods of each kind (group of interchangeable pods), oldest first."""
        kinds = self.kinds
        return tuple(tuple(pod for pod in k.pods if pod.node_name is None) for k in kinds)

    def asks_of(self, pod: Pod) -> Ints:
        """Return the resource requests of the pod as an array, one entry for each resource of the
        problem.
        """
        asks: Ints = self.requests[self.kind_of[pod.uid]]
        return asks

    def room_after(self, loads: Ints) -> Ints:
        """Return the available capacity (nodes x resources) after placing the given pod counts; may
        be negative.
        """
        room: Ints = self._free - (loads - self.old) @ self.requests
        return room

    @cached_property
    def _free(self) -> Ints:
        listed = [self.snapshot.free[node.name] for node in self.nodes]
        return np.stack([column_of(listed, axis) for axis in self.axes], axis=1)

    def list_fitting(self, pod: Pod, room: Ints) -> list[int]:
        """Return the positions of nodes accepting the pod with the given available capacity."""
        found: list[int] = np.flatnonzero(self.open_to(self.kind_of[pod.uid], room)).tolist()
        return found

    def without(self, refused: Iterable[tuple[Pod, NodeName]]) -> Self:
        """Return the packing problem in which nodes get no more pods of the groups that they
        rejected.
        """
        most = self.most.copy()
        for pod, node in refused:
            at = self.row_of[node], self.kind_of[pod.uid]
            most[at] = self.old[at]
        return attrs.evolve(self, most=most)

    def count_placed(self, loads: Ints) -> tuple[int, ...]:
        """Return the number of pods by priority level that the given pod counts by node place."""
        counts = np.bincount(self.tiers, loads.sum(axis=0), minlength=len(self.priorities))
        return tuple(counts.astype(np.int64).tolist())

    def count_kept(self, loads: Ints) -> Ints:
        """Return the number of running pods of each group that stay running, on any node, under the
        given pod counts by node.
        """
        kept: Ints = np.minimum(loads.sum(axis=0), self.old.sum(axis=0))
        return kept


def _group_kinds(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    rows: NodeRows,
    rules: EdgeRules | None,
    gains: Gains,
    sites: Column | None,
) -> list[tuple[Kind, Workload | None]]:
    @cache
    def worth(workload: Workload) -> bool:
        share = gains.shares.get(workload)
        if share is None:
            return False
        changes = (share.total - share.edge, -share.edge)
        return any(gains.of_workload(workload, change) for change in changes)

    def find_place(pod: Pod) -> _Place:
        """Return tier and site at which a running pod stays; None: anywhere."""
        share = gains.shares.get(pod.workload)
        if sites is None or pod.node_name is None or share is None or share.sites is None:
            return None
        position = rows.index.positions[pod.node_name]
        return rows.index.nodes[position].tier, int(sites.codes[position])

    alike: dict[_Alike, list[Pod]] = {}
    for pod in pods:
        key = pod.pod_class if rules is None else rules.feasibility.equivalence(pod)
        workload = pod.workload if worth(pod.workload) else None
        alike.setdefault((key, workload, find_place(pod)), []).append(pod)
    found = []
    for (_, workload, place), members in alike.items():
        members.sort(key=serving_order)
        one = members[0]
        mask = nodes_open_to(one, snapshot, rules)
        fitting = rows.mask & mask & ~rows.room.short(one.requests)
        if place is not None and sites is not None:
            tier, code = place
            there = rows.index.at(rows.index.of_tier(tier)) if tier else rows.index.none()
            fitting = fitting & there & (sites.codes == code)
        rank = Rank(priority=one.pod_class.priority)
        found.append((Kind(one.requests, tuple(members), fitting, rank), workload))
    return sorted(found, key=lambda entry: serving_order(entry[0].pods[0]))

"""Arrays of the migration problem of the edge (pods, nodes, objective and limits), as input of all
search algorithms.

A change of the edge is an integer matrix with a row for each node and a column for each item: the
number of arrivals (positive) or departures. QoS depends on column sums only. Replica spread counts
pairs of replicas on the edge: pairs on a node exactly, pairs in a zone as before any migration.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import (
    MOST_OF_A_NODE,
    Node,
    NodeName,
    Pod,
    Resources,
    Tier,
    Uid,
    Workload,
)
from kubedsm.model.node_index import NodeRows
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Ints, axes_of
from kubedsm.objective.fragmentation import rows as amounts_of
from kubedsm.objective.gains import Gain, Gains, Worths, less_price, net
from kubedsm.objective.lasting import Lasting, assume_prior
from kubedsm.objective.objective import NANO
from kubedsm.objective.replica_spread import has_default_spread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import UNLIMITED, PlacementProblem
from kubedsm.optimizer.moving.edge_items import Clash, EdgeRules, Item, group_edge_pods
from kubedsm.optimizer.moving.migration_graph import Order
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.move_order import Impasse
from kubedsm.optimizer.moving.suggestion import (
    Moves,
    SuggestLimits,
    count_disruptions,
    sum_gains,
)
from kubedsm.optimizer.placing.cloud import CloudHold
from kubedsm.optimizer.programming.in_order import Certificate

#: Cap on counted replicas.
_MOST = 255
#: Changes of one numpy call: hides call overhead, fits the CPU cache.
_BLOCK = 2**14


@attrs.frozen(eq=False)
class EdgeSpread:
    """Replica spread of workloads with movable pods on the edge nodes, and its change by
    migrations.
    """

    #: I x W: 1 for the workload of the item; 0 for pods with explicit spread constraints
    workloads: Ints
    #: N x W: replicas on the node, and on edge nodes in the same zone, capped
    company: Ints
    neighbours: Ints

    @classmethod
    def of(
        cls,
        items: Sequence[Item],
        rows: Mapping[NodeName, int],
        zones: Ints,
        standing: Mapping[Workload, Mapping[NodeName, int]],
        *,
        matters: bool,
    ) -> Self:
        """Count replicas by edge node and by zone, for the workloads of the given groups of
        interchangeable pods. Cloud replicas do not count: they may be those that migrate.

        zones: zone code of each node. standing: replicas of each workload by node.
        """
        spread = [
            item.workload if matters and has_default_spread(item.like) else None for item in items
        ]
        named = list(dict.fromkeys(filter(None, spread)))
        of_item = [[workload == other for other in named] for workload in spread]
        replicas = np.zeros((len(zones), len(named)), dtype=np.int64)
        for column, workload in enumerate(named):
            for name, number in standing.get(workload, {}).items():
                if name in rows:
                    replicas[rows[name], column] = number
        codes, zone = np.unique(zones, return_inverse=True)
        in_zone = np.zeros((len(codes), len(named)), dtype=np.int64)
        if len(codes) > 1:
            np.add.at(in_zone, zone, replicas)
        return cls(
            np.array(of_item, dtype=np.int64).reshape(len(items), len(named)),
            np.minimum(replicas, _MOST),
            np.minimum(in_zone[zone], _MOST),
        )

    def most_added(self, touches: int) -> int:
        """Return an upper bound on the spread cost that the given number of pod arrivals and
        departures can add.
        """
        if not self.company.size:
            return 0
        return touches * (int(self.company.max() + self.neighbours.max()) + touches)

    def added(self, nodes: Ints, changes: Ints) -> Ints:
        """Return the replica-spread cost that each change in a node's pod counts adds there."""
        more = changes @ self.workloads
        on_node = more * (2 * self.company[nodes] + more - 1) // 2
        added: Ints = (on_node + more * self.neighbours[nodes]).sum(axis=1)
        return added


@attrs.frozen(eq=False)
class EdgeProblem:
    """Migration problem of the edge as arrays: groups of interchangeable movable pods, edge nodes
    and resources.

    Arrays of items are made on first use.
    """

    items: tuple[Item, ...]
    snapshot: Snapshot
    #: edge nodes in filling order
    edge: NodeRows
    #: row of each edge node
    rows: Mapping[NodeName, int]
    axes: tuple[str, ...]
    #: N x R; negative on an over-committed node
    free: Ints
    #: N x R
    allocatable: Ints
    fragmentation: Fragmentation
    cloud: CloudHold
    #: immovable pods of this scheduler, including pending pods
    others: Sequence[Pod]
    #: None without rules between pods
    rules: EdgeRules | None
    gains: Gains
    #: gains in the unit of the price
    worths: Gains
    limits: SuggestLimits
    bounds: Bounds
    #: pending pods could start in the cloud: their capacity is worth what they gain at the edge
    optional: bool = False

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        movable: Movable,
        fragmentation: Fragmentation,
        gains: Gains,
        limits: SuggestLimits,
        bounds: Bounds,
        lasting: Lasting = assume_prior,
        new: Collection[Uid] = (),
    ) -> Self:
        """Return the problem of a snapshot; `new`: pending pods that could start in the cloud."""
        edge = snapshot.in_turn(Tier.EDGE)
        items, kinds, others, rules = group_edge_pods(snapshot, movable, new)
        packing = PlacementProblem.of(kinds, snapshot.in_turn(Tier.CLOUD))
        leaving = np.zeros(len(kinds), dtype=np.int64)
        for item in items:
            if item.cloud_kind is not None:
                leaving[item.cloud_kind] += len(item.on_edge)
        requests = [item.requests for item in items]
        axes = axes_of([*requests, *(vector for vector, _ in fragmentation.mix)])
        rows = {node.name: row for row, node in enumerate(edge.nodes)}
        free = [edge.room.column(axis)[edge.positions] for axis in axes]
        stranded = (pod for item in items for pod in item.stranded)
        waiting = Counter(pod.workload for pod in stranded if not new)
        return cls(
            items=items,
            snapshot=snapshot,
            edge=edge,
            rows=rows,
            axes=axes,
            free=np.clip(np.stack(free, axis=1), -MOST_OF_A_NODE, MOST_OF_A_NODE),
            allocatable=edge.allocatable(axes),
            fragmentation=fragmentation,
            cloud=CloudHold(attrs.evolve(packing, counts=leaving), bounds),
            others=others,
            rules=rules,
            gains=gains,
            worths=Worths(gains, lasting, waiting) if limits.price else gains,
            limits=limits,
            bounds=bounds,
            optional=bool(new),
        )

    def only(self, workloads: Iterable[Workload]) -> "EdgeProblem":
        """Return the problem in which only pods of the given workloads may migrate."""
        kept = sorted(at for workload in set(workloads) for at in self.items_by_workload[workload])
        return attrs.evolve(self, items=tuple(self.items[i] for i in kept))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.edge.nodes

    @cached_property
    def spread(self) -> EdgeSpread:
        zones = self.edge.index.zone.codes[self.edge.positions]
        standing, matters = self.snapshot.census.standing, self.limits.spread
        return EdgeSpread.of(self.items, self.rows, zones, standing, matters=matters)

    @cached_property
    def items_by_workload(self) -> Mapping[Workload, Sequence[int]]:
        """Indices of the items (groups of interchangeable movable pods) of each workload."""
        found: dict[Workload, list[int]] = {}
        for at, item in enumerate(self.items):
            found.setdefault(item.workload, []).append(at)
        return found

    @cached_property
    def requests(self) -> Ints:
        """Resource requests of one pod of each item (group of interchangeable pods), shape (items,
        resources).
        """
        return amounts_of([item.requests for item in self.items], self.axes)

    @cached_property
    def present(self) -> Ints:
        """Number of movable pods of each item (group of interchangeable pods) on each edge node,
        shape (nodes, items).
        """
        present = np.zeros((len(self.nodes), len(self.items)), dtype=np.int64)
        for column, item in enumerate(self.items):
            for name, pods in item.here.items():
                present[self.rows[name], column] = len(pods)
        return present

    @cached_property
    def most(self) -> Ints:
        """Maximum arrivals of pods on each edge node by scheduling rules, ignoring capacity, shape
        (nodes, groups of interchangeable pods).
        """
        most = np.zeros((len(self.nodes), len(self.items)), dtype=np.int64)
        for column, item in enumerate(self.items):
            most[:, column] = UNLIMITED * item.open_to
            for name, number in item.at_most.items():
                most[self.rows[name], column] = number
        return most

    @cached_property
    def staying(self) -> Ints:
        """Number of movable pods of each group of interchangeable pods now on the edge."""
        return np.array([len(item.on_edge) for item in self.items], dtype=np.int64)

    @cached_property
    def supply(self) -> Ints:
        """Number of pods of each item (group of interchangeable pods) outside the edge that may be
        migrated to, or placed on, the edge.
        """
        return np.array([item.supply for item in self.items], dtype=np.int64)

    @cached_property
    def waiting(self) -> Ints:
        """Number of stranded pods (pending without a feasible node) in each group of
        interchangeable pods.
        """
        return np.array([len(item.stranded) for item in self.items], dtype=np.int64)

    @cached_property
    def changeable(self) -> Ints:
        """Indices of edge nodes where a movable pod may arrive or from where a movable pod may
        leave.
        """
        changeable = np.zeros(len(self.nodes), dtype=np.bool_)
        distinct: set[tuple[Resources, bytes]] = set()
        for item in self.items:
            changeable[[self.rows[pod.node_name] for pod in item.on_edge if pod.node_name]] = True
            accepting = item.open_to.copy()
            accepting[[self.rows[name] for name, most in item.at_most.items() if not most]] = False
            distinct.add((item.requests, accepting.tobytes()))
        for requested, mask in distinct:
            [requests] = amounts_of([requested], self.axes)
            fits = ((requests <= self.free) | (requests == 0)).all(axis=1)
            changeable |= fits & np.frombuffer(mask, dtype=np.bool_)
        return np.flatnonzero(changeable)

    @cached_property
    def clashes(self) -> Sequence[Clash]:
        """Pairs of groups of interchangeable pods that must not share a node or topology domain."""
        pods = [item.like for item in self.items]
        deadline = self.bounds.deadline
        return () if self.rules is None else self.rules.clashes(pods, self.nodes, deadline)

    def item_of(self, pod: Pod) -> Item:
        """Return the item (group of interchangeable pods) that contains the pod."""
        return next(item for item in self.items if pod.uid in item.pods)

    def replace_item(self, item: Item, instead: Item) -> "EdgeProblem":
        items = tuple(instead if other is item else other for other in self.items)
        return attrs.evolve(self, items=items)

    @cached_property
    def to_fill(self) -> Ints:
        """Edge capacity by resource that pods from the cloud may fill, leaving the CPU and memory
        headroom free.
        """
        room: Ints = np.maximum(self.free, 0).sum(axis=0)
        kept = np.zeros_like(room)
        kept[:2] = np.rint(self.allocatable.sum(axis=0)[:2] * self.limits.headroom)
        left: Ints = np.maximum(room - kept, 0)
        return left

    @property
    def levels(self) -> list[int]:
        """Priority levels of the workloads, highest priority first."""
        return sorted({self.gains.level[workload] for workload in self.items_by_workload})

    @property
    def price(self) -> int:
        """Price of one migration in nano-units of benefit."""
        return round(self.limits.price * NANO)

    @property
    def placement_value(self) -> int:
        """Benefit of capacity for a pending pod in nano-units, next to its gain of QoS: more than
        the price of all migrations, or nothing if the pod could start in the cloud.
        """
        return 0 if self.optional else self.price * self.limits.max_moves

    def may_gain(self, workload: Workload) -> bool:
        """Return True if migrations to the edge could be beneficial for the workload."""
        share = self.gains.shares[workload]
        more = min(self.limits.max_moves, share.total - share.edge)
        waits = any(self.items[item].stranded for item in self.items_by_workload[workload])
        return (waits and not self.optional) or self.worths.of_workload(workload, more) > 0

    def cost(self, moves: Moves) -> int:
        """Return the price of the migrations, less the value of capacity for pending pods."""
        awaited = sum(move.source is None for move in moves)
        return self.price * count_disruptions(moves) - awaited * self.placement_value

    def net(self, moves: Moves) -> Gain:
        """Return the benefit of the migrations by priority level, less their price."""
        return net(sum_gains(self.worths, moves), self.cost(moves))

    def gain_arrays(self, vectors: Ints) -> tuple[Ints, Ints, Ints]:
        """Return QoS gains and benefits by priority level, and newly placed pending pods, for
        changes in edge pod counts.

        Gains and benefits have the shape (differences, levels).
        """
        workloads = [item.workload for item in self.items]
        gains = self.gains.of_vectors(workloads, vectors)
        worths = self.worths.of_vectors(workloads, vectors) if self.price else gains
        return gains, worths, np.clip(vectors, 0, self.waiting).sum(axis=1)

    def net_benefits(self, worths: Ints, awaited: Ints, moves: Ints) -> Ints:
        """Return the benefits less the price of migrations, for changes in edge pod counts, shape
        (changes, priority levels).

        The initial placement of a pod is no migration.
        """
        initial = self.price + self.placement_value
        return less_price(worths, self.price * moves - initial * awaited)

    def costs(self, nodes: Ints, room: Ints) -> Ints:
        """Return the fragmentation cost of the edge nodes with the given indices, for the given
        free capacity.

        room: nodes x resources.
        """
        return self.fragmentation.costs(self.axes, self.allocatable[nodes], np.maximum(room, 0))

    def added_fragmentation(self, nodes: Ints, free: Ints, vectors: Ints) -> Ints:
        """Return the fragmentation that each change in a node's pod counts adds on that node.

        free: nodes x resources.
        """
        before = self.costs(np.arange(len(free)), free)
        added = np.empty(len(nodes), dtype=np.int64)
        for start in range(0, len(nodes), _BLOCK):
            block = slice(start, start + _BLOCK)
            here = nodes[block]
            room = free[here] - vectors[block] @ self.requests
            added[block] = self.costs(here, room) - before[here]
        return added

    def cloud_room(self, pods: Iterable[Pod]) -> Ints:
        """Return the cloud capacity that the given pods occupy, shape (cloud nodes, resources)."""
        packing = self.cloud.packing
        room = np.zeros_like(packing.free)
        for pod in pods:
            if pod.node_name in packing.row_of:
                [requests] = amounts_of([pod.requests], packing.axes)
                room[packing.row_of[pod.node_name]] += requests
        return room

    def cloud_counts(self, differences: Ints) -> Ints | None:
        """Return the number of pods that leave the edge for the cloud, by group of interchangeable
        pods; None if no cloud node accepts one.

        differences: I, negative where pods leave.
        """
        counts = np.zeros(len(self.cloud.packing.kinds), dtype=np.int64)
        for item, number in zip(self.items, (-differences).tolist(), strict=True):
            if number > 0:
                if item.cloud_kind is None or number > item.away:
                    return None
                counts[item.cloud_kind] += number
        return counts


@attrs.frozen(eq=False)
class Proposal:
    """Migrations found by a search algorithm, before groups of dependent migrations are selected by
    benefit.
    """

    order: Order = attrs.field(factory=Order)
    #: nothing better exists within the limits
    proven: bool = True
    #: better solutions, rejected by rules between pods
    refused: tuple[Impasse, ...] = ()
    #: upper bound, if not proven
    certificate: Certificate | None = None
    #: priority level of the certificate
    level: int = 0

    @property
    def moves(self) -> Moves:
        return self.order.moves

"""Placement problem as arrays: groups of interchangeable pods, nodes, capacities and replica-spread
costs.

Pods of one *kind* are interchangeable for every node: identical resource requests and identical
feasible nodes. A kind may combine several pod equivalence classes. A set of pods is a vector with
one count for each kind. A placement is a matrix of counts, its *loads*, with a row for each node
and a column for each kind. With several priorities, the pods of one kind have identical
priorities and levels.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import NO_DEADLINE, Deadline
from kubedsm.model.model import Node, NodeName, Pod, PodClass, Resources, Uid, serving_order
from kubedsm.model.node_index import Mask, NodeIndex, NodeRows
from kubedsm.model.residents import Selection, wishes_of
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Key, Surroundings
from kubedsm.objective.fragmentation import Ints, axes_of
from kubedsm.objective.fragmentation import rows as amounts_of
from kubedsm.plugins.feasibility import EquivalenceClass, Feasibility
from kubedsm.plugins.plugin import ClassIndex
from kubedsm.plugins.plugins import fitting_nodes
from kubedsm.plugins.taints import PREFERS_NO_PODS
from kubedsm.plugins.volume_binding import are_unrestricted
from kubedsm.plugins.volumes import is_shared_disk


@attrs.frozen(eq=False)
class Ladders:
    """Convex replica-spread costs: on a node, each additional replica costs at least as much as the
    previous one.

    Nodes with identical charges share one ladder of steps.
    """

    #: ladder index of each node and kind
    which: Ints
    #: ladders x steps: non-decreasing cost of the next pod by number of pods
    steps: Ints

    @cached_property
    def totals(self) -> Ints:
        """Total replica-spread cost of 0, 1, 2, ... pods on a node for each cost sequence, shape
        (sequences, steps + 1).
        """
        totals = np.zeros((len(self.steps), self.steps.shape[1] + 1), dtype=np.int64)
        totals[:, 1:] = self.steps.cumsum(axis=1)
        return totals

    def of(self, nodes: Ints, loads: Ints) -> Ints:
        """Return the total replica-spread cost of each load: a row of pod counts for each of the
        nodes.
        """
        costs: Ints = self.totals[self.which[nodes], loads].sum(axis=1)
        return costs

    def least(self, kind: int, nodes: Ints, count: int) -> Ints:
        """Return the least total replica-spread cost of placing 0, 1, ... `count` interchangeable
        pods on the nodes.
        """
        times = np.bincount(self.which[nodes, kind])
        distinct = np.flatnonzero(times)
        return least_totals(self.steps[distinct], times[distinct], count)

    def greatest(self, counts: Iterable[int]) -> int:
        """Return an upper bound on the total replica-spread cost, given the number of pods in each
        group of interchangeable pods.
        """
        return sum(
            int(self.steps[:, count - 1].max(initial=0)) * count for count in counts if count
        )


def least_totals(steps: Ints, times: Ints, count: int) -> Ints:
    """Return the least total replica-spread cost of 0, 1, ... `count` pods on nodes, given each
    node's cost of one more pod.
    """
    steps = steps[:, :count]
    order = np.argsort(steps, axis=None, kind="stable")
    repeats = np.repeat(np.minimum(times, count), steps.shape[1])[order]
    enough = int(np.searchsorted(repeats.cumsum(), count)) + 1
    cheapest = np.repeat(steps.ravel()[order[:enough]], repeats[:enough])[:count]
    return np.concatenate(([0], cheapest.cumsum()))


def group_equal_rows(*looks: Ints) -> tuple[Ints, Ints]:
    """Group nodes with equal array rows: return the first node of each group, and the group of
    every node.
    """
    listed = np.ascontiguousarray(np.concatenate(looks, axis=1))
    if not listed.size:
        return np.arange(min(len(listed), 1)), np.zeros(len(listed), dtype=np.int64)
    whole = listed.view(np.dtype((np.void, listed.itemsize * listed.shape[1])))
    seen: dict[object, int] = {}
    listed_groups = [seen.setdefault(look, len(seen)) for look in whole.ravel().tolist()]
    which = np.array(listed_groups, dtype=np.int64)
    first = np.empty(len(seen), dtype=np.int64)
    # Of several nodes of a group, the last assignment stays.
    first[which[::-1]] = np.arange(len(which))[::-1]
    return first, which


def count_before(values: Ints) -> Ints:
    """Return, for each array element, the number of equal elements before it."""
    order = values.argsort(kind="stable")
    first = np.searchsorted(values[order], values[order])
    number = np.empty_like(values)
    number[order] = np.arange(len(values)) - first
    return number


#: Any number of pods.
UNLIMITED = 2**31
#: sums stay within 64 bits
_MOST_WORTH = 2**61
#: more than any preference penalty
_NOWHERE = 2**20
Targets = tuple[tuple[Pod, NodeName], ...]
#: priority, and precedence by age
Turn = tuple[int, int]


class Rank(NamedTuple):
    """Scheduling rank of a group of interchangeable pods: priority, workload level and precedence
    by age; greater ranks first.
    """

    #: pod priority
    priority: int = 0
    #: level of the workload: greatest priority of its pods in the batch
    level: int = 0
    #: 1 for the oldest placeable pod of its priority, if it has waited longer than the patience
    overdue: int = 0

    @property
    def turn(self) -> Turn:
        """Scheduling order by priority and age: one pod with a greater value precedes any number
        with a lesser.
        """
        return self.priority, self.overdue


NO_RANK = Rank()
#: all ranks are equal
NO_RANKS: Mapping[Uid, Rank] = MappingProxyType({})


@attrs.frozen(eq=False)
class Kind:
    """Group of interchangeable pods in scheduling order, with requests, feasible nodes and
    preference penalties.
    """

    requests: Resources
    pods: tuple[Pod, ...]
    #: nodes of an index that accept such a pod now
    nodes: Mask
    rank: Rank = NO_RANK
    #: nodes of the same index that accept at most one pod of the kind; None: no such node
    once: Mask | None = None
    #: preference penalty of each node: score below that of the best node; without zeros
    penalties: Mapping[NodeName, int] = attrs.field(factory=dict)


def group_kinds(
    pods: Iterable[Pod], rows: NodeRows, ranks: Mapping[Uid, Rank] = NO_RANKS
) -> tuple[Kind, ...]:
    """Group interchangeable pods (equal requests and feasible nodes) that have no affinity or
    spread rules between pods.
    """
    by_class: dict[tuple[PodClass, Rank], list[Pod]] = {}
    for pod in pods:
        by_class.setdefault((pod.pod_class, ranks.get(pod.uid, NO_RANK)), []).append(pod)
    index, room, found = rows.index, rows.room, list[Kind]()
    for (pod_class, rank), members in by_class.items():
        fitting = rows.mask & fitting_nodes(pod_class, index, room)
        found.append(Kind(pod_class.requests, tuple(members), fitting, rank))
    return merge_kinds((kind, None) for kind in found)


def merge_kinds(classes: Iterable[tuple[Kind, object]]) -> tuple[Kind, ...]:
    """Merge pod equivalence classes with identical requests, nodes, ranks, penalties and marks into
    groups of interchangeable pods, in reproducible order: by requests, then by oldest pod.
    """
    merged: dict[object, list[Kind]] = {}
    for kind, mark in classes:
        disliked = tuple(kind.penalties.items())
        key = kind.requests, kind.nodes.tobytes(), kind.rank, disliked, mark
        merged.setdefault(key, []).append(kind)
    listed = []
    for alike in merged.values():
        pods = sorted((pod for kind in alike for pod in kind.pods), key=serving_order)
        listed.append(attrs.evolve(alike[0], pods=tuple(pods)))
    return tuple(sorted(listed, key=lambda kind: (kind.requests, serving_order(kind.pods[0]))))


@attrs.frozen(eq=False)
class PlacementProblem:
    """Placement problem as integer arrays: groups of interchangeable pods, nodes and resources.

    Negative available capacity counts as zero: pods without requests for the resource still fit.
    """

    kinds: tuple[Kind, ...]
    rows: NodeRows
    #: resource names
    axes: tuple[str, ...]
    #: number of pods of each kind
    counts: Ints
    #: kinds x resources
    requests: Ints
    #: nodes x kinds: maximum pods that the node accepts, irrespective of capacity
    most: Ints
    #: nodes x kinds: preference penalty of each pod of the kind
    penalties: Ints
    #: nodes x resources
    allocatable: Ints
    #: nodes x resources
    free: Ints
    #: charges of the nodes; None without charges
    ladders: Ladders | None = None

    @classmethod
    def of(
        cls,
        kinds: Sequence[Kind],
        rows: NodeRows,
        measured: Iterable[Resources] = (),
        ladders: Ladders | None = None,
    ) -> Self:
        """Construct the arrays of a placement problem from groups of interchangeable pods and
        candidate nodes.

        The kinds refer to the same node index as the rows.
        measured: request vectors whose resources need additional columns.
        """
        axes = axes_of([*(kind.requests for kind in kinds), *measured])
        return cls(
            kinds=tuple(kinds),
            rows=rows,
            axes=axes,
            counts=np.array([len(kind.pods) for kind in kinds], dtype=np.int64),
            requests=amounts_of([kind.requests for kind in kinds], axes),
            most=_count_limits(kinds, rows),
            penalties=_penalty_matrix(kinds, rows),
            allocatable=rows.allocatable(axes),
            free=rows.free(axes),
            ladders=ladders,
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Candidate nodes of the placement; of otherwise equivalent nodes, the first is
        preferred.
        """
        return self.rows.nodes

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Mask of nodes feasible for each group of interchangeable pods, shape (nodes, groups)."""
        feasible: NDArray[np.bool_] = self.most > 0
        return feasible

    def open_to(self, kind: int, room: Ints | None = None) -> NDArray[np.bool_]:
        """Return the mask of nodes that accept one pod of the group; room: free capacity left."""
        room, requests = self.free if room is None else room, self.requests[kind]
        fits: NDArray[np.bool_] = self.most[:, kind] > 0
        for resource in np.flatnonzero(requests).tolist():
            fits &= room[:, resource] >= requests[resource]
        return fits

    @property
    def least_penalties(self) -> Ints:
        """Least preference penalty of each group of interchangeable pods on any feasible node; 0
        without feasible nodes.
        """
        least = np.where(self.feasible, self.penalties, _NOWHERE).min(0, initial=_NOWHERE)
        return np.where(self.feasible.any(axis=0), least, 0)

    @cached_property
    def fitting(self) -> Ints:
        """Number of pods of one group that fit on an otherwise unused node, shape (nodes, groups of
        interchangeable pods).
        """
        fitting: Ints = np.minimum(self.most, self.counts)
        for kind, requests in enumerate(self.requests):
            asked = np.flatnonzero(requests)
            if len(asked):
                room = (self.free[:, asked] // requests[asked]).min(axis=1)
                fitting[:, kind] = np.minimum(fitting[:, kind], room)
        return fitting

    @cached_property
    def weights(self) -> tuple[int, ...] | None:
        """Weight of a pod in each group of interchangeable pods: more than all pods of lower
        priority together.

        None if the total weight would exceed 64 bits.
        """
        turns = [kind.rank.turn for kind in self.kinds]
        worth: dict[Turn, int] = {}
        total = 0
        for turn in sorted(set(turns)):
            worth[turn] = total + 1
            counts = zip(self.counts.tolist(), turns, strict=True)
            total += worth[turn] * sum(n for n, of_kind in counts if of_kind == turn)
        return tuple(worth[turn] for turn in turns) if total < _MOST_WORTH else None

    def only(self, kinds: Ints) -> Self:
        """Return the placement problem restricted to some groups of interchangeable pods, given by
        index.
        """
        return attrs.evolve(
            self,
            kinds=tuple(self.kinds[kind] for kind in kinds.tolist()),
            counts=self.counts[kinds],
            requests=self.requests[kinds],
            most=self.most[:, kinds],
            penalties=self.penalties[:, kinds],
            ladders=self.ladders and attrs.evolve(self.ladders, which=self.ladders.which[:, kinds]),
        )

    def charges(self, kind: int, nodes: Ints | int, there: int = 0) -> Ints:
        """Return each node's replica-spread cost of another pod of the group after `there`
        arrivals.
        """
        if self.ladders is None:
            return np.zeros_like(nodes)
        steps, which = self.ladders.steps, self.ladders.which[nodes, kind]
        charges: Ints = steps[which, min(there, steps.shape[1] - 1)]
        return charges

    def worth(self, loads: Ints) -> int:
        """Return the number of placed pods, weighted by priority; loads: pod counts, shape (nodes,
        groups of interchangeable pods).
        """
        return int((loads.sum(axis=0) * np.array(self.weights or 1, dtype=np.int64)).sum())

    def nothing(self) -> Ints:
        """Return the placement without any pods: zeros of shape (nodes, groups of interchangeable
        pods).
        """
        return np.zeros((len(self.rows.positions), len(self.kinds)), dtype=np.int64)

    @cached_property
    def kind_of(self) -> Mapping[Uid, int]:
        return {pod.uid: at for at, kind in enumerate(self.kinds) for pod in kind.pods}

    @cached_property
    def row_of(self) -> Mapping[str | None, int]:
        return {node.name: row for row, node in enumerate(self.nodes)}

    def count_loads(self, placed: Iterable[tuple[Pod, NodeName | None]]) -> Ints:
        """Return the number of placed pods of each group on each node, shape (nodes, groups of
        interchangeable pods); pods on other nodes, or on none, do not count.
        """
        loads = self.nothing()
        for pod, name in placed:
            if name in self.row_of:
                loads[self.row_of[name], self.kind_of[pod.uid]] += 1
        return loads

    def room_after(self, loads: Ints) -> Ints:
        """Return the available capacity remaining after the placement, shape (nodes, resources)."""
        return self.free - loads @ self.requests

    def targets(self, loads: Ints, chosen: Sequence[Sequence[Pod]] | None = None) -> Targets:
        """Return pairs of a pod and its target node for a placement given as pod counts, node by
        node.

        Each kind is represented by its first pods, or by the chosen pods.
        """
        pods = [iter(kind.pods) for kind in self.kinds] if chosen is None else map(iter, chosen)
        queues = list(pods)
        return tuple(
            (next(queues[kind]), self.nodes[node].name)
            for node, kind in np.argwhere(loads).tolist()
            for _ in range(int(loads[node, kind]))
        )


def _count_limits(kinds: Sequence[Kind], rows: NodeRows) -> Ints:
    most = np.zeros((len(rows.positions), len(kinds)), dtype=np.int64)
    for column, kind in enumerate(kinds):
        most[:, column] = UNLIMITED * kind.nodes[rows.positions]
        if kind.once is not None:
            np.minimum(most[:, column], 1, out=most[:, column], where=kind.once[rows.positions])
    return most


def _penalty_matrix(kinds: Sequence[Kind], rows: NodeRows) -> Ints:
    penalties = np.zeros((len(rows.positions), len(kinds)), dtype=np.int64)
    for column, kind in enumerate(kinds):
        if kind.penalties:
            penalties[:, column] = [kind.penalties.get(node.name, 0) for node in rows.nodes]
    return penalties


def is_plain(snapshot: Snapshot, batch: Sequence[Pod]) -> bool:
    """Determine whether scheduling depends only on pod equivalence class and node.

    False if any pod has constraints or preferences about other pods, or is subject to any, if a
    volume claim may exclude a node, or if a node has a PreferNoSchedule taint.
    """
    of_pods = [pod.pod_class.rules for pod in batch]
    if not all(rules.is_plain for rules in of_pods):
        return False
    claims: Counter[Key] = Counter(key for of in of_pods if of.claims for key in of.claim_keys)
    if claims and not are_unrestricted(claims, Feasibility.of(snapshot).scene):
        return False
    if any(t.effect == PREFERS_NO_PODS for of in snapshot.index.taints.values for t in of or ()):
        return False
    keys = snapshot.census.looked_at
    if keys is None:
        return True
    seen = {
        (pod.namespace, tuple((key, pod.labels[key]) for key in keys if key in pod.labels))
        for pod in batch
    }
    rules = [pod_class.rules for pod_class in snapshot.census.classes]
    terms = {term for of_pod in rules for term in of_pod.anti_affinity}
    terms.update(term for of_pod in rules for _, term in wishes_of(of_pod))
    return not any(
        Selection.of(term).covers(namespace, dict(labels), snapshot.surroundings)
        for term in terms
        for namespace, labels in seen
    )


#: steps of work for a class of pods, and more for each node and term or constraint
_CLASS_STEPS, _NODE_STEPS, _TERM_STEPS = 100_000, 100, 50_000


def group_ruled_kinds(
    pods: Iterable[Pod],
    feasibility: Feasibility,
    surroundings: Surroundings,
    ranks: Mapping[Uid, Rank] = NO_RANKS,
    *,
    preferences: bool = True,
    distinguish: bool = False,
    deadline: Deadline = NO_DEADLINE,
) -> tuple[Kind, ...]:
    """Group interchangeable pods among those with affinity, spread or preference rules between
    pods, in reproducible order.

    Feasible nodes include those that other pods of the batch may open by affinity or spread
    constraints. Therefore no permitted placement is excluded. Pods that are limited to one per node
    form a kind with identical pods only. Other kinds may combine equivalence classes, unless
    `distinguish`: constraints between pods are validated afterwards, pod by pod.
    After the deadline, other pods are assumed to open nodes.
    """
    alike: dict[tuple[EquivalenceClass, Rank], list[Pod]] = {}
    for pod in pods:
        key = (feasibility.equivalence(pod), ranks.get(pod.uid, NO_RANK))
        alike.setdefault(key, []).append(pod)
    candidates = ClassIndex({candidate for candidate, _ in alike}, surroundings)
    each = _CLASS_STEPS + _NODE_STEPS * len(feasibility.index)

    def describe(candidate: EquivalenceClass, rank: Rank, members: Sequence[Pod]) -> Kind:
        open_to = feasibility.taking(members[0])
        terms = len(candidate.rules.affinity) + len(candidate.rules.spread)
        passed = deadline.spend(each + terms * _TERM_STEPS)
        if terms and (passed or _waits_for_others(candidate, candidates)):
            open_to = feasibility.verdict(members[0]).openable
            for term in candidate.rules.affinity:
                open_to = open_to & feasibility.index.label(term.topology_key).present
        once = open_to & _exclusive_nodes(candidate, feasibility.index, surroundings)
        return Kind(
            candidate.pod_class.requests,
            tuple(members),
            open_to,
            rank,
            once if once.any() else None,
            _penalised_nodes(members[0], feasibility, open_to) if preferences else {},
        )

    described = ((c, describe(c, rank, members)) for (c, rank), members in alike.items())
    return merge_kinds(
        (kind, candidate if distinguish or kind.once is not None else None)
        for candidate, kind in described
    )


def _waits_for_others(candidate: EquivalenceClass, candidates: ClassIndex) -> bool:
    """Determine whether placing other pods of the batch may open further nodes to the candidate."""
    rules = candidate.rules
    near = [set(candidates.covered(Selection.of(term))) for term in rules.affinity]
    return bool(near and set.intersection(*near)) or any(
        candidates.covered(Selection.of_spread(constraint)) for constraint in rules.spread
    )


def _exclusive_nodes(
    candidate: EquivalenceClass, index: NodeIndex, surroundings: Surroundings
) -> Mask:
    """Return the nodes that accept at most one pod of the candidate's equivalence class."""
    rules = candidate.rules
    if rules.ports or any(not is_shared_disk(disk) for disk in rules.disks):
        return index.every()
    once = index.none()
    for term in rules.anti_affinity:
        if candidate.is_selected(term, surroundings):
            once |= index.label(term.topology_key).present
    return once


def _penalised_nodes(pod: Pod, feasibility: Feasibility, open_to: Mask) -> dict[NodeName, int]:
    """Return the preference penalty of each node with a non-zero penalty, by node name."""
    nodes, names = np.flatnonzero(open_to), feasibility.index.names
    penalties = feasibility.penalties_at(pod, nodes)
    found = zip(nodes[penalties > 0].tolist(), penalties[penalties > 0].tolist(), strict=True)
    return {names[at]: penalty for at, penalty in found}

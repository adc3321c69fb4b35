"""Placement problem as arrays: kinds of pods, nodes, capacities, and charges for replicas.

Pods of one *kind* are interchangeable for every node: equal requests and equal feasible nodes.
Several pod classes may be one kind. A set of pods is a vector of counts, one a kind, and a
placement is a matrix of counts, its *loads*: one row a node, one column a kind. With several
priorities, the pods of a kind have equal priorities and levels.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.model import Node, NodeName, Pod, PodClass, Resources, Uid, serving_order
from kubedsm.model.node_index import Mask, NodeRows
from kubedsm.objective.fragmentation import Ints, axes_of, canonical
from kubedsm.objective.fragmentation import rows as amounts_of
from kubedsm.plugins.plugins import fitting_nodes


@attrs.frozen(eq=False)
class Ladders:
    """Convex charges of N nodes for S kinds: no pod costs less than the one before.

    Nodes that charge alike share one of the D ladders of P steps.
    """

    #: N x S, index of the ladder
    which: Ints
    #: D x P, non-decreasing cost of the next pod by number of pods
    steps: Ints

    @cached_property
    def totals(self) -> Ints:
        """D x (P + 1), cumulative charge for a number of pods."""
        totals = np.zeros((len(self.steps), self.steps.shape[1] + 1), dtype=np.int64)
        totals[:, 1:] = self.steps.cumsum(axis=1)
        return totals

    def of(self, nodes: Ints, loads: Ints) -> Ints:
        """Return the charge of each of these loads, K x S, on its node."""
        costs: Ints = self.totals[self.which[nodes], loads].sum(axis=1)
        return costs

    def least(self, kind: int, nodes: Ints, count: int) -> Ints:
        """Return the least charges of 0, 1, ... count pods of a kind on these nodes."""
        distinct, times = np.unique(self.which[nodes, kind], return_counts=True)
        return least_totals(self.steps[distinct], times, count)

    def greatest(self, counts: Iterable[int]) -> int:
        """Return an upper bound on the charge for these numbers of pods."""
        return sum(
            int(self.steps[:, count - 1].max(initial=0)) * count for count in counts if count
        )


def least_totals(steps: Ints, times: Ints, count: int) -> Ints:
    """Return the least charges of 0, 1, ... count pods on nodes with these ladders."""
    steps = steps[:, :count]
    order = np.argsort(steps, axis=None, kind="stable")
    repeats = np.repeat(np.minimum(times, count), steps.shape[1])[order]
    enough = int(np.searchsorted(repeats.cumsum(), count)) + 1
    cheapest = np.repeat(steps.ravel()[order[:enough]], repeats[:enough])[:count]
    return np.concatenate(([0], cheapest.cumsum()))


def group_equal_rows(*looks: Ints) -> tuple[Ints, Ints]:
    """Return the first node of each distinct row, and for all nodes the index of their row.

    N x any.
    """
    listed = np.ascontiguousarray(np.hstack(looks))
    if not listed.size:
        return np.arange(min(len(listed), 1)), np.zeros(len(listed), dtype=np.int64)
    whole = listed.view(np.dtype((np.void, listed.itemsize * listed.shape[1])))
    seen: dict[object, int] = {}
    which = [seen.setdefault(look, len(seen)) for look in whole.ravel().tolist()]
    first = np.full(len(seen), len(which), dtype=np.int64)
    np.minimum.at(first, which, np.arange(len(which)))
    return first, np.array(which, dtype=np.int64)


#: Any number of pods.
UNLIMITED = 2**31
#: sums stay within 64 bits
_MOST_WORTH = 2**61
#: more than any penalty
_NOWHERE = 2**20
Targets = tuple[tuple[Pod, NodeName], ...]
#: priority, and how far beyond all patience
Turn = tuple[int, int]


class Rank(NamedTuple):
    """Rank of a kind; kinds with a greater rank are served first."""

    #: of the pods
    priority: int = 0
    #: level of the workload: greatest priority of its pods in the batch
    level: int = 0
    #: how often the patience has passed
    overdue: int = 0

    @property
    def turn(self) -> Turn:
        """Pods with a greater turn are placed before any number with a lesser."""
        return self.priority, self.overdue


NO_RANK = Rank()


@attrs.frozen(eq=False)
class Kind:
    """Interchangeable pods, in serving order."""

    requests: Resources
    pods: tuple[Pod, ...]
    #: nodes of an index that accept such a pod now
    nodes: Mask
    rank: Rank = NO_RANK
    #: nodes of the same index that never accept a second one; None: no such node
    once: Mask | None = None
    #: penalty of each node: score below that of the best node; without zeros
    penalties: Mapping[NodeName, int] = attrs.field(factory=dict)


def group_kinds(
    pods: Iterable[Pod], rows: NodeRows, ranks: Mapping[Uid, Rank] | None = None
) -> tuple[Kind, ...]:
    """Return the kinds of these pods on these nodes, rules between pods aside."""
    by_class: dict[tuple[PodClass, Rank], list[Pod]] = {}
    for pod in pods:
        by_class.setdefault((pod.pod_class, ranks[pod.uid] if ranks else NO_RANK), []).append(pod)
    merged: dict[tuple[Resources, bytes, Rank], tuple[Mask, list[Pod]]] = {}
    for (pod_class, of_class), members in by_class.items():
        fitting = rows.mask & fitting_nodes(pod_class, rows.index, rows.room)
        key = (pod_class.requests, fitting.tobytes(), of_class)
        merged.setdefault(key, (fitting, []))[1].extend(members)
    return sort_kinds(
        Kind(requests, tuple(sorted(members, key=serving_order)), fitting, of_kind)
        for (requests, _, of_kind), (fitting, members) in merged.items()
    )


def sort_kinds(listed: Iterable[Kind]) -> tuple[Kind, ...]:
    """Sort kinds by requests, then by the names of their nodes, then by their oldest pods."""
    return tuple(
        sorted(
            listed,
            key=lambda kind: (
                canonical(kind.requests),
                kind.nodes.nonzero()[0].tolist(),
                serving_order(kind.pods[0]),
            ),
        )
    )


@attrs.frozen(eq=False)
class Packing:
    """S kinds of pods to be placed on N nodes with R resources.

    Negative free capacity counts as zero: a pod without a request for the resource still fits.
    """

    kinds: tuple[Kind, ...]
    rows: NodeRows
    #: the names of the R resources
    axes: tuple[str, ...]
    #: S
    counts: Ints
    #: S x R
    requests: Ints
    #: N x S, most pods of the kind that the node accepts, capacity aside
    most: Ints
    #: N x S, penalty of each pod of the kind
    penalties: Ints
    #: N x R
    allocatable: Ints
    #: N x R
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
        """Build the arrays; the kinds must be of the index of these rows.

        measured: request vectors whose resources need a column too.
        """
        axes = axes_of([*(kind.requests for kind in kinds), *measured])
        return cls(
            kinds=tuple(kinds),
            rows=rows,
            axes=axes,
            counts=np.array([len(kind.pods) for kind in kinds], dtype=np.int64),
            requests=amounts_of([kind.requests for kind in kinds], axes),
            most=_count_limits(kinds, rows),
            penalties=_penalty_matrix(kinds, rows.nodes),
            allocatable=rows.allocatable(axes),
            free=rows.free(axes),
            ladders=ladders,
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes in filling order: the first are filled first among equals."""
        return self.rows.nodes

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """N x S, the nodes of each kind."""
        feasible: NDArray[np.bool_] = self.most > 0
        return feasible

    @property
    def least_penalties(self) -> Ints:
        """S, the least penalty of each kind on any of its nodes; 0 for a kind without nodes."""
        least = np.where(self.feasible, self.penalties, _NOWHERE).min(0, initial=_NOWHERE)
        return np.where(self.feasible.any(axis=0), least, 0)

    @property
    def fitting(self) -> Ints:
        """N x S, how many pods of each kind fit on the node without other kinds."""
        fitting: Ints = np.minimum(self.most, self.counts)
        for kind, requests in enumerate(self.requests):
            asked = np.flatnonzero(requests)
            if len(asked):
                room = (self.free[:, asked] // requests[asked]).min(axis=1)
                fitting[:, kind] = np.minimum(fitting[:, kind], room)
        return fitting

    @cached_property
    def weights(self) -> tuple[int, ...] | None:
        """Weight of a pod of each kind: more than that of all lesser pods together.

        None if the sum would overflow 64 bits.
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
        """Return the problem restricted to these kinds."""
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
        """Return the charge of each node for the next pod of the kind, `there` having come."""
        if self.ladders is None:
            return np.zeros_like(nodes)
        steps, which = self.ladders.steps, self.ladders.which[nodes, kind]
        charges: Ints = steps[which, min(there, steps.shape[1] - 1)]
        return charges

    def worth(self, loads: Ints) -> int:
        """Return the weighted number of pods of a placement."""
        return int((loads.sum(axis=0) * np.array(self.weights or 1, dtype=np.int64)).sum())

    def nothing(self) -> Ints:
        """Return the loads of the empty placement."""
        return np.zeros((len(self.nodes), len(self.kinds)), dtype=np.int64)

    def room_after(self, loads: Ints) -> Ints:
        """Return the free capacity, N x R, after the placement."""
        return self.free - loads @ self.requests

    def targets(self, loads: Ints, chosen: Sequence[Sequence[Pod]] | None = None) -> Targets:
        """Return pod and node pairs: of each kind the first pods (or the chosen), node by node."""
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


def _penalty_matrix(kinds: Sequence[Kind], nodes: Sequence[Node]) -> Ints:
    penalties = np.zeros((len(nodes), len(kinds)), dtype=np.int64)
    for column, kind in enumerate(kinds):
        if kind.penalties:
            penalties[:, column] = [kind.penalties.get(node.name, 0) for node in nodes]
    return penalties

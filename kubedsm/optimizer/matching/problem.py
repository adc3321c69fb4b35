"""What nodes charge for the pods of a kind: for each next one as much as for the last, or more."""

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
from kubedsm.plugins.class_verdicts import fitting_nodes


@attrs.frozen(eq=False)
class Ladders:
    """Of N nodes and S kinds; nodes that charge alike share one of the D ladders of P steps."""

    #: N x S, which ladder it is
    which: Ints
    #: D x P, what the next pod costs when so many have come; never less than the one before
    steps: Ints

    @cached_property
    def totals(self) -> Ints:
        """D x (P + 1), what so many pods cost together."""
        totals = np.zeros((len(self.steps), self.steps.shape[1] + 1), dtype=np.int64)
        totals[:, 1:] = self.steps.cumsum(axis=1)
        return totals

    def of(self, nodes: Ints, loads: Ints) -> Ints:
        """What each of these loads, K x S, costs on its node."""
        costs: Ints = self.totals[self.which[nodes], loads].sum(axis=1)
        return costs

    def least(self, kind: int, nodes: Ints, count: int) -> Ints:
        """What 0, 1, ... count pods of a kind cost at least on some of these nodes, room aside."""
        distinct, times = np.unique(self.which[nodes, kind], return_counts=True)
        return least_totals(self.steps[distinct], times, count)

    def greatest(self, counts: Iterable[int]) -> int:
        """So many pods of each kind cost no more, on these nodes or others of the same ladders."""
        return sum(
            int(self.steps[:, count - 1].max(initial=0)) * count for count in counts if count
        )


def least_totals(steps: Ints, times: Ints, count: int) -> Ints:
    """What 0, 1, ... count pods cost at least on nodes with these ladders, each there so often."""
    steps = steps[:, :count]
    order = np.argsort(steps, axis=None, kind="stable")
    repeats = np.repeat(np.minimum(times, count), steps.shape[1])[order]
    enough = int(np.searchsorted(repeats.cumsum(), count)) + 1
    cheapest = np.repeat(steps.ravel()[order[:enough]], repeats[:enough])[:count]
    return np.concatenate(([0], cheapest.cumsum()))


def alike(*looks: Ints) -> tuple[Ints, Ints]:
    """The first node of each look, and for all nodes which of these it looks like; N x any each."""
    listed = np.ascontiguousarray(np.hstack(looks))
    if not listed.size:
        return np.arange(min(len(listed), 1)), np.zeros(len(listed), dtype=np.int64)
    whole = listed.view(np.dtype((np.void, listed.itemsize * listed.shape[1])))
    seen: dict[object, int] = {}
    which = [seen.setdefault(look, len(seen)) for look in whole.ravel().tolist()]
    first = np.full(len(seen), len(which), dtype=np.int64)
    np.minimum.at(first, which, np.arange(len(which)))
    return first, np.array(which, dtype=np.int64)


#: Where no more are told apart, any number of pods may be on a node.
UNLIMITED = 2**31
#: far enough from the end of 64 bits to add it up
_MOST_WORTH = 2**61
#: more than any penalty
_NOWHERE = 2**20
Targets = tuple[tuple[Pod, NodeName], ...]
#: priority, and how far beyond all patience
Turn = tuple[int, int]


class Rank(NamedTuple):
    """What a kind goes before, if priorities are told apart: the greater rank is served first."""

    #: of the pods
    priority: int = 0
    #: of their workload: the greatest priority of its pods in the batch
    level: int = 0
    #: of the pods, among those of their priority: how far they are beyond all patience
    overdue: int = 0

    @property
    def turn(self) -> Turn:
        """Pods with a greater one are placed before any number with a lesser."""
        return self.priority, self.overdue


NO_RANK = Rank()


@attrs.frozen(eq=False)
class Kind:
    """Pods that are interchangeable, in the order in which they are served."""

    requests: Resources
    pods: tuple[Pod, ...]
    #: of an index, the nodes that take such a pod, as they are now
    nodes: Mask
    rank: Rank = NO_RANK
    #: of the same index, the nodes that would never take a second one; None: there is none
    once: Mask | None = None
    #: how much less than the best of its nodes such a pod likes a node; without zeros
    penalties: Mapping[NodeName, int] = attrs.field(factory=dict)


def kinds(
    pods: Iterable[Pod], rows: NodeRows, ranks: Mapping[Uid, Rank] | None = None
) -> tuple[Kind, ...]:
    """The kinds of these pods on these nodes, in canonical order, as if no pod spoke of others.

    ranks: of the pods, if some go before others.
    """
    by_class: dict[tuple[PodClass, Rank], list[Pod]] = {}
    for pod in pods:
        by_class.setdefault((pod.pod_class, ranks[pod.uid] if ranks else NO_RANK), []).append(pod)
    merged: dict[tuple[Resources, bytes, Rank], tuple[Mask, list[Pod]]] = {}
    for (pod_class, of_class), members in by_class.items():
        fitting = rows.mask & fitting_nodes(pod_class, rows.index, rows.room)
        key = (pod_class.requests, fitting.tobytes(), of_class)
        merged.setdefault(key, (fitting, []))[1].extend(members)
    return in_order(
        Kind(requests, tuple(sorted(members, key=serving_order)), fitting, of_kind)
        for (requests, _, of_kind), (fitting, members) in merged.items()
    )


def in_order(listed: Iterable[Kind]) -> tuple[Kind, ...]:
    """By what they request, then the names of their nodes, then their oldest pods."""
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
    """S kinds of pods to be put on N nodes with room for R resources.

    Room below zero counts as none: a pod that asks for nothing of a resource still fits.
    """

    kinds: tuple[Kind, ...]
    rows: NodeRows
    #: the names of the R resources
    axes: tuple[str, ...]
    #: S
    counts: Ints
    #: S x R
    requests: Ints
    #: N x S, how many pods of the kind the node takes at most, whatever its room
    most: Ints
    #: N x S, how much each pod of the kind would rather not be there
    penalties: Ints
    #: N x R
    allocatable: Ints
    #: N x R
    free: Ints
    #: what the nodes charge for pods; None for nothing
    ladders: Ladders | None = None

    @classmethod
    def of(
        cls,
        kinds: Sequence[Kind],
        rows: NodeRows,
        measured: Iterable[Resources] = (),
        ladders: Ladders | None = None,
    ) -> Self:
        """The kinds are of the index of these rows.

        measured: request vectors whose resources must have a column too.
        """
        axes = axes_of([*(kind.requests for kind in kinds), *measured])
        return cls(
            kinds=tuple(kinds),
            rows=rows,
            axes=axes,
            counts=np.array([len(kind.pods) for kind in kinds], dtype=np.int64),
            requests=amounts_of([kind.requests for kind in kinds], axes),
            most=_most(kinds, rows),
            penalties=_penalties(kinds, rows.nodes),
            allocatable=rows.allocatable(axes),
            free=rows.free(axes),
            ladders=ladders,
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The first ones are filled first, where nothing else tells them apart."""
        return self.rows.nodes

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """N x S, the nodes of each kind."""
        feasible: NDArray[np.bool_] = self.most > 0
        return feasible

    @property
    def least_penalties(self) -> Ints:
        """S, of the nodes of each kind the one that it likes best; 0 if it has none."""
        least = np.where(self.feasible, self.penalties, _NOWHERE).min(0, initial=_NOWHERE)
        return np.where(self.feasible.any(axis=0), least, 0)

    @property
    def fitting(self) -> Ints:
        """N x S, how many of the pods of each kind the node takes, if none of another come."""
        fitting: Ints = np.minimum(self.most, self.counts)
        for kind, requests in enumerate(self.requests):
            asked = np.flatnonzero(requests)
            if len(asked):
                room = (self.free[:, asked] // requests[asked]).min(axis=1)
                fitting[:, kind] = np.minimum(fitting[:, kind], room)
        return fitting

    @cached_property
    def weights(self) -> tuple[int, ...] | None:
        """What a pod of each kind counts: more than all that it goes before together.

        None if the sum of all would be too much for 64 bits.
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
        """With these of its kinds alone."""
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
        """What each of the nodes charges for the next pod of that kind when so many have come."""
        if self.ladders is None:
            return np.zeros_like(nodes)
        steps, which = self.ladders.steps, self.ladders.which[nodes, kind]
        charges: Ints = steps[which, min(there, steps.shape[1] - 1)]
        return charges

    def worth(self, loads: Ints) -> int:
        """How many pods such a placement has; those of higher priority count first."""
        return int((loads.sum(axis=0) * np.array(self.weights or 1, dtype=np.int64)).sum())

    def nothing(self) -> Ints:
        """The loads of a placement that places no pod."""
        return np.zeros((len(self.nodes), len(self.kinds)), dtype=np.int64)

    def room_after(self, loads: Ints) -> Ints:
        """The free room, N x R, once the pods of that placement are there too."""
        return self.free - loads @ self.requests

    def targets(self, loads: Ints, chosen: Sequence[Sequence[Pod]] | None = None) -> Targets:
        """Which pod goes where: of each kind its first pods (or the chosen), node by node."""
        pods = [iter(kind.pods) for kind in self.kinds] if chosen is None else map(iter, chosen)
        queues = list(pods)
        return tuple(
            (next(queues[kind]), self.nodes[node].name)
            for node, kind in np.argwhere(loads).tolist()
            for _ in range(int(loads[node, kind]))
        )


def _most(kinds: Sequence[Kind], rows: NodeRows) -> Ints:
    most = np.zeros((len(rows.positions), len(kinds)), dtype=np.int64)
    for column, kind in enumerate(kinds):
        most[:, column] = UNLIMITED * kind.nodes[rows.positions]
        if kind.once is not None:
            np.minimum(most[:, column], 1, out=most[:, column], where=kind.once[rows.positions])
    return most


def _penalties(kinds: Sequence[Kind], nodes: Sequence[Node]) -> Ints:
    penalties = np.zeros((len(nodes), len(kinds)), dtype=np.int64)
    for column, kind in enumerate(kinds):
        if kind.penalties:
            penalties[:, column] = [kind.penalties.get(node.name, 0) for node in nodes]
    return penalties

"""What the pods of a kind cost on a node, one after the other, for the replicas that they join.

A pod costs as many as there are of its workload on the node, and in its zone, when it comes. Of the
pods of a kind those come first that cost least there: a ladder. Sums of ladders are what a
placement costs at least, whoever gets which place in the end; `dealing` comes as near as it can.
Left out are the replicas of one batch that come to a zone together, but not to a node, and what a
pod costs wherever it goes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np

from kubedsm.model.model import Workload
from kubedsm.model.node_index import Mask, NodeIndex, Positions
from kubedsm.model.node_rows import NodeRows
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.replica_spread import ReplicaSpread, spreads
from kubedsm.optimizer.matching.ladders import Ladders, alike, least_totals
from kubedsm.optimizer.matching.problem import Kind


@attrs.frozen(eq=False)
class Crowds:
    """How many of each workload of a kind are on the nodes, and in their zones, before a batch."""

    #: of the kind's workloads that we spread
    columns: Mapping[Workload, int]
    #: of each node of an index, which crowd there is
    group: Ints
    #: a row each, a column for each workload
    crowds: Ints
    #: for each workload the least of all nodes that the kind can go to
    floor: Ints

    @classmethod
    def of(
        cls, open_to: Mask, workloads: Iterable[Workload], nodes: NodeIndex, spread: ReplicaSpread
    ) -> Self:
        """open_to: of the index, the nodes that the kind can go to."""
        columns = {workload: column for column, workload in enumerate(workloads)}
        group, crowds = _crowds(columns, nodes, spread)
        seen = np.unique(group[open_to])
        none = np.zeros(len(columns), dtype=np.int64)
        return cls(columns, group, crowds, crowds[seen].min(axis=0) if len(seen) else none)

    def everywhere(self, workload: Workload) -> int:
        """What a pod of it costs wherever it goes."""
        return int(self.floor[self.columns[workload]])

    def times(self, positions: Positions) -> Ints:
        """How often there is each of the crowds on nodes at these positions."""
        return np.bincount(self.group[positions], minlength=len(self.crowds))

    def least(self, workload: Workload, times: Ints, number: int) -> int:
        """What so many pods of it cost at least beyond that on some of the nodes, room aside.

        times: of these nodes.
        """
        column = self.columns[workload]
        beyond = self.crowds[times > 0, column] - self.floor[column]
        steps = beyond[:, None] + np.arange(number)
        return int(least_totals(steps, times[times > 0], number)[-1])


@attrs.frozen(eq=False)
class ReplicaLadders:
    """Of the kinds of a batch, on the nodes of both tiers."""

    #: of all nodes of an index
    ladders: Ladders
    #: of each kind
    crowds: tuple[Crowds, ...]
    #: without the batch
    spread: ReplicaSpread

    @classmethod
    def of(cls, kinds: Sequence[Kind], nodes: NodeRows, spread: ReplicaSpread) -> Self:
        which = np.zeros((len(nodes.index), len(kinds)), dtype=np.int64)
        longest = max((len(kind.pods) for kind in kinds), default=0)
        known: dict[bytes, int] = {}
        steps: list[Ints] = []
        crowds = []
        for column, kind in enumerate(kinds):
            sizes = Counter(pod.workload for pod in kind.pods if spreads(pod))
            of_kind = Crowds.of(kind.nodes & nodes.mask, sizes, nodes.index, spread)
            crowds.append(of_kind)
            numbers = []
            for ladder in _steps(of_kind, list(sizes.values()), len(kind.pods), longest):
                number = known.setdefault(ladder.tobytes(), len(steps))
                if number == len(steps):
                    steps.append(ladder)
                numbers.append(number)
            which[:, column] = np.array(numbers, dtype=np.int64)[of_kind.group]
        listed = np.array(steps, dtype=np.int64).reshape(len(steps), longest)
        return cls(Ladders(which, listed), tuple(crowds), spread)

    def on(self, nodes: NodeRows) -> Ladders:
        """Of these nodes only."""
        return attrs.evolve(self.ladders, which=self.ladders.which[nodes.positions])


def _steps(of_kind: Crowds, sizes: Sequence[int], pods: int, longest: int) -> Ints:
    """The ladder of each crowd; pods that we do not spread cost nothing."""
    counts = np.array(sizes, dtype=np.int64)
    nth = np.arange(int(counts.sum())) - np.repeat(counts.cumsum() - counts, counts)
    steps = np.zeros((len(of_kind.crowds), longest), dtype=np.int64)
    # A node that the kind cannot go to may have fewer than the floor.
    beyond = np.maximum(of_kind.crowds - of_kind.floor, 0)
    steps[:, pods - len(nth) : pods] = np.sort(np.repeat(beyond, counts, axis=1) + nth, axis=1)
    steps[:, pods:] = steps[:, pods - 1 : pods]
    return steps


def _crowds(
    workloads: Iterable[Workload], nodes: NodeIndex, spread: ReplicaSpread
) -> tuple[Ints, Ints]:
    """Which crowd there is on each node, and the crowds; nodes without replicas are as their zone.

    A column for each workload.
    """
    zone, at = nodes.zone, nodes.positions
    none: Counter[Any] = Counter()
    on_nodes = [spread.on_node.get(workload, none) for workload in workloads]
    in_zones = [spread.in_zone.get(workload, none) for workload in workloads]
    taken = sorted({at[name] for counts in on_nodes for name in counts if name in at})
    by_zone = _filled(in_zones, {each: row for row, each in enumerate(zone.values)})
    by_node = _filled(on_nodes, {nodes.names[node]: row for row, node in enumerate(taken)})
    by_node += by_zone[zone.codes[taken]]
    group = zone.codes.copy()
    group[taken] = len(by_zone) + np.arange(len(taken))
    everything = np.concatenate((by_zone, by_node))
    first, which = alike(everything)
    return which[group], everything[first]


def _filled(columns: Sequence[Counter[Any]], rows: Mapping[Any, int]) -> Ints:
    """The numbers in these columns, of what has a row."""
    filled = np.zeros((len(rows), len(columns)), dtype=np.int64)
    for column, counts in enumerate(columns):
        for each, number in counts.items():
            if each in rows:
                filled[rows[each], column] = number
    return filled

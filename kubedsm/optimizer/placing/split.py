"""Optimal distribution of edge capacity among the workloads of a batch: (max, +) convolution over
pod counts.

QoS is a sum over workloads, and each term depends only on the number of edge pods of the workload.
Therefore a table over count vectors replaces the 2^n subsets of a batch. Components of kinds
connected by common workloads have separate tables, which are added.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import attrs
import numpy as np
from numpy.typing import NDArray

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Share, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.objective import (
    EVENNESS,
    Objective,
    Prospect,
    QosTargets,
    scores_and_unevenness,
)
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Kind, PlacementProblem

Bools = NDArray[np.bool_]

#: Less than any sum of scores.
_IMPOSSIBLE = -(2**61)
#: Steps of work for a way to take pods of a workload, and for a cell.
_WAY_STEPS, _CELL_STEPS = 5_000, 2

#: How many pods of a workload, of a kind.
Picks = dict[tuple[Workload, int], int]


@attrs.frozen(eq=False)
class Member:
    """Workload of a batch, with its pods by column of the edge's placement problem.

    A column is a group of interchangeable pods, or the part of a group at one edge site.
    """

    workload: Workload
    #: pods of the column's group
    counts: Ints
    #: group of each column
    owners: tuple[int, ...]
    #: level of all its groups
    level: int

    @property
    def ways(self) -> int:
        """Number of combinations of the workload's pods by column: possibly beyond 64 bits."""
        return math.prod((self.counts + 1).tolist())

    def kinds(self) -> list[int]:
        """Return the columns of groups that contain pods of the workload."""
        kinds: list[int] = self.counts.nonzero()[0].tolist()
        return kinds

    @abstractmethod
    def value(self, kinds: Sequence[int], taken: Sequence[int]) -> int:
        """Return the workload's QoS score, less a penalty for uneven edge shares, with `taken` edge
        pods of each column.
        """

    def takes(self, kinds: Sequence[int], most: Iterable[int]) -> Iterable[tuple[int, ...]]:
        """Return all combinations of the workload's pods by column within the limits, fewest pods
        first.
        """
        greatest = (min(int(self.counts[k]), n) for k, n in zip(kinds, most, strict=True))
        combinations = product(*(range(n + 1) for n in greatest))
        owners = [self.owners[column] for column in kinds]
        if len({*owners}) == len(owners):
            return combinations
        limits = {self.owners[column]: int(self.counts[column]) for column in kinds}
        return (taken for taken in combinations if _is_within(limits, owners, taken))


def _is_within(limits: Mapping[int, int], owners: Sequence[int], taken: Sequence[int]) -> bool:
    """Return True if each group has the pods taken from its columns together."""
    left = dict(limits)
    for owner, number in zip(owners, taken, strict=True):
        left[owner] -= number
    return min(left.values()) >= 0


@attrs.frozen(eq=False)
class Demand(Member):
    """Workload of a batch whose QoS depends on its number of edge pods only."""

    #: score less unevenness by number of the batch's edge pods
    values: Ints
    #: unevenness, subtracted in `values`
    uneven: Ints
    prospect: Prospect

    def scores(self, objective: Objective) -> Ints:
        """Return the workload's QoS by number of edge pods, in nano-units, without the penalty for
        uneven edge shares.
        """
        prospect = self.prospect
        return objective.scores(prospect.edge, prospect.total, prospect.qos_target)

    def wants(self, number: int) -> bool:
        """Determine whether the objective prefers `number` of the workload's pods on the edge."""
        most = self.prospect.qos_target.most
        return most is None or int(self.prospect.edge[number]) <= most

    def value(self, kinds: Sequence[int], taken: Sequence[int]) -> int:
        del kinds
        return int(self.values[sum(taken)])


def count_pods(kinds: Sequence[Kind]) -> dict[Workload, Ints]:
    """Return the number of each workload's pods in each group, in name order."""
    counts: dict[Workload, Ints] = {}
    for kind, of_kind in enumerate(kinds):
        for workload, number in Counter(pod.workload for pod in of_kind.pods).items():
            if workload not in counts:
                counts[workload] = np.zeros(len(kinds), dtype=np.int64)
            counts[workload][kind] = number
    return dict(sorted(counts.items()))


def list_demands(
    problem: PlacementProblem,
    shares: Mapping[Workload, Share],
    qos_targets: QosTargets,
    objective: Objective,
) -> tuple[Demand, ...]:
    """Return the workloads of a placement problem with their QoS by number of pods at the edge, in
    name order.
    """
    counts, owners = count_pods(problem.kinds), tuple(range(len(problem.kinds)))
    prospects = []
    for workload, of_workload in counts.items():
        share = shares.get(workload, Share())
        edge = share.edge + np.arange(int(of_workload.sum()) + 1)
        prospects.append(Prospect(edge, share.total, qos_targets(workload)))
    scores, uneven = scores_and_unevenness(objective, prospects)
    return tuple(
        Demand(
            workload,
            of_workload,
            owners,
            problem.kinds[int(of_workload.argmax())].rank.level,
            scores[at] - uneven[at],
            uneven[at],
            prospects[at],
        )
        for at, (workload, of_workload) in enumerate(counts.items())
    )


@attrs.frozen(eq=False)
class _Component:
    """Kinds connected by common workloads, with the best QoS of each count vector."""

    kinds: tuple[int, ...]
    members: tuple[Member, ...]
    #: best QoS of each vector for the first member, for the first two, ...
    layers: tuple[Ints, ...]

    @property
    def level(self) -> int:
        return self.members[0].level

    def picks(self, vector: Sequence[int]) -> Iterator[tuple[tuple[Workload, int], int]]:
        """Yield the edge pods by workload and kind for a count vector; ties favour the first."""
        left = tuple(vector)
        for index in range(len(self.members) - 1, -1, -1):
            member, taken, source = self.members[index], left, left
            # The first member takes the rest.
            for taken in member.takes(self.kinds, left) if index else ():
                source = tuple(n - t for n, t in zip(left, taken, strict=True))
                before, here = self.layers[index - 1][source], self.layers[index][left]
                if before + member.value(self.kinds, taken) == here:
                    break
            left = source
            for kind, number in zip(self.kinds, taken, strict=True):
                if number:
                    yield (member.workload, kind), number


@attrs.frozen(eq=False)
class Split:
    """Greatest QoS for each combination of edge pod counts of a batch, summed over independent sets
    of workloads.
    """

    components: tuple[_Component, ...]
    #: S
    limits: tuple[int, ...]

    def best(self, among: Bools) -> Bools:
        """Return the combinations of edge pod counts with the greatest QoS by priority level, then
        the most even edge shares.
        """
        values = self.values()
        rounding = sum(len(component.members) for component in self.components)
        for unlike in (EVENNESS + rounding, rounding):
            for of_level in values:
                among = among & (of_level >= of_level[among].max() - unlike)
        return among

    def values(self) -> list[Ints]:
        """Return the greatest QoS for every combination of edge pod counts, by priority level,
        highest level first.
        """
        found: dict[int, Ints] = {}
        for component in sorted(self.components, key=lambda c: -c.level):
            grid = component.layers[-1]
            shape = [1] * len(self.limits)
            for kind, size in zip(component.kinds, grid.shape, strict=True):
                shape[kind] = size
            nothing = np.zeros(tuple(n + 1 for n in self.limits), dtype=np.int64)
            found[component.level] = found.get(component.level, nothing) + grid.reshape(shape)
        return list(found.values())

    def picks(self, vector: Ints) -> Picks:
        """Return how many edge pods each workload gets from each group of interchangeable pods,
        given the edge pods of each group.
        """
        return {
            pick: number
            for component in self.components
            for pick, number in component.picks([int(vector[kind]) for kind in component.kinds])
        }


def split_vectors(members: Sequence[Member], limits: Ints, bounds: Bounds) -> Split | None:
    """Compute how workloads best share the edge pods, for every combination of edge pod counts up
    to the limits.

    Return None above the exact-search limit.
    """
    greatest = tuple(limits.tolist())
    components, owned = [], [member.kinds() for member in members]
    for kinds in connect_kinds(owned, len(greatest)):
        involved = tuple(m for m, of in zip(members, owned, strict=True) if of and of[0] in kinds)
        shape = tuple(greatest[kind] + 1 for kind in kinds)
        cells, ways = math.prod(shape), sum(member.ways for member in involved)
        if cells * ways > bounds.steps or cells * len(involved) > bounds.states:
            return None
        layers = _convolve(involved, kinds, shape, bounds.deadline)
        if layers is None:
            return None
        components.append(_Component(kinds, involved, layers))
    return Split(tuple(components), greatest)


def _convolve(
    members: Sequence[Member],
    kinds: Sequence[int],
    shape: tuple[int, ...],
    deadline: Deadline,
) -> tuple[Ints, ...] | None:
    """Compute the (max, +) convolution of workload scores, by layers; None after the deadline."""
    layers: list[Ints] = []
    for member in members:
        if deadline.spend(member.ways * (_WAY_STEPS + _CELL_STEPS * math.prod(shape))):
            return None
        following = np.full(shape, _IMPOSSIBLE, dtype=np.int64)
        for taken in member.takes(kinds, (size - 1 for size in shape)):
            value = member.value(kinds, taken)
            if not layers:
                following[taken] = value
                continue
            target = following[tuple(slice(n, None) for n in taken)]
            part = tuple(slice(size - n) for n, size in zip(taken, shape, strict=True))
            np.maximum(target, layers[-1][part] + value, out=target)
        layers.append(following)
    return tuple(layers)


def connect_kinds(together: Iterable[Sequence[int]], number: int) -> list[tuple[int, ...]]:
    """Return the connected components of pod groups, given sets of groups that belong together."""
    group = list(range(number))
    for kinds in together:
        for kind in kinds[1:]:
            old, new = group[kind], group[kinds[0]]
            if old != new:
                group = [new if g == old else g for g in group]
    return [tuple(kind for kind in range(number) if group[kind] == g) for g in dict.fromkeys(group)]

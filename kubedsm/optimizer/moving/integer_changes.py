"""Best change of the edge as an integer programme, for the solver above the exact-search limit.

Variables count, for each item, the pods coming to and leaving each node. QoS gained by a workload
is a sum of consecutive steps, a variable for each additional pod on the edge, for arbitrary
functions of the difference. Departures to the cloud need capacity there, available or released by
other migrations. Migration cycles and rules between pods, clashes aside, are checked afterwards.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Self

import attrs
import numpy as np

from kubedsm.model.model import Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.fragmentation import rows as amounts_of
from kubedsm.objective.gains import LEAST_GAIN, Gains, select_worthwhile
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.matching.problem import count_before, group_equal_rows
from kubedsm.optimizer.moving.best_changes import Solution
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.programming.in_order import Certificate, Found, Goal, maximise_in_order
from kubedsm.optimizer.programming.programme import (
    NO_VARIABLE,
    Ints,
    Programme,
    Rows,
    Solver,
)


class ChangesProgramme:
    """Integer programme for migrations of the edge, and the meaning of its variables."""

    def __init__(self, problem: EdgeProblem, sites: Column | None = None) -> None:
        """Make the programme; `sites`: the site of each node, if it matters."""
        self._rows = Rows()
        self._problem = problem
        self._sites = sites
        self._limits = limits = problem.limits
        #: K: indices of nodes
        self._nodes = self._list_acting()
        away = [0 if item.cloud_kind is None else item.away for item in problem.items]
        self._away = np.minimum(np.minimum(away, problem.staying), limits.max_moves)
        #: K x I: how many come, and leave; NO_VARIABLE where none does
        self._come, self._leave = self._add_touches()
        #: 4 x I: within the edge; pending; from the cloud; to the cloud
        self._moved = self._add_flow_balance()
        self._add_capacity()
        self._add_clashes()
        if limits.headroom:
            self._add_headroom()
        #: edge pods of each workload: the fewest, and the variables of a further pod each
        self._steps = {
            workload: self._add_steps(list(items))
            for workload, items in problem.items_by_workload.items()
        }
        counts = problem.cloud.packing.counts
        if not problem.cloud.holds(np.minimum(counts, limits.max_moves)):
            self._add_cloud()

    @property
    def size(self) -> int:
        """Number of variables of the integer programme."""
        return self._rows.number

    def programme(self, level: int) -> Programme:
        """Return the programme for the benefits at a priority level; a benefit that lasts must not
        lower QoS.
        """
        programme = self._rows.programme()
        if not self._problem.price:
            return programme
        weights, beside = self.gain_weights(self._problem.gains, level)
        return programme.at_least(weights, -beside)

    def changes(self, values: Ints) -> Ints:
        """Convert the variable values of a solution to pod count changes on edge nodes, shape
        (nodes, groups of interchangeable pods).
        """
        padded = np.append(values, 0)  # where NO_VARIABLE points to
        changes = np.zeros_like(self._problem.present)
        changes[self._nodes] = padded[self._come] - padded[self._leave]
        return changes

    def moves(self) -> Ints:
        """Return the objective weight of each variable for counting migrations."""
        weights = np.zeros(self.size, dtype=np.int64)
        weights[self._moved.ravel()] = 1
        return weights

    def gain_weights(self, gains: Gains, level: int, price: int = 0) -> tuple[Ints, int]:
        """Return objective weights of the net gains at a priority level, and the constant term.

        With a price, capacity for a pending pod has its placement value.
        """
        weights = np.zeros(self.size, dtype=np.int64)
        beside = 0
        for workload, (lowest, steps) in self._steps.items():
            if gains.level[workload] == level:
                least, weights[steps] = self._weigh(gains, workload, lowest, len(steps))
                beside += least
        weights[self._moved.ravel()] -= price
        if price:
            weights[self._moved[1]] += price + self._problem.placement_value
        return weights, beside

    def _weigh(self, gains: Gains, workload: Workload, lowest: int, steps: int) -> tuple[int, Ints]:
        """Return the gain of a workload without its steps, and the further gain of each step."""
        values = [gains.of_workload(workload, n) for n in range(lowest, lowest + steps + 1)]
        return values[0], np.diff(values)

    def keep(self, level: int) -> None:
        """Add constraints that fix the QoS gain of all workloads at the priority level at zero."""
        problem = self._problem
        for gains in (problem.gains, problem.worths)[: 2 if problem.price else 1]:
            weights, beside = self.gain_weights(gains, level)
            columns = np.flatnonzero(weights)
            self._rows.add((columns, weights[columns]), least=-beside, most=-beside)

    def forbid(self, changes: Ints) -> None:
        """Add constraints that exclude every solution containing the given pod count changes."""
        rows, here = self._rows, changes[self._nodes]
        made = []
        for numbers, amounts in ((self._come, here), (self._leave, -here)):
            for number, amount in zip(numbers[amounts > 0], amounts[amounts > 0], strict=True):
                [as_many] = rows.variables([1]).tolist()
                spare = self._limits.max_moves - int(amount) + 1
                rows.add(([number], 1), ([as_many], -spare), most=int(amount) - 1)
                made.append(as_many)
        rows.add((made, 1), most=len(made) - 1)

    def _list_acting(self) -> Ints:
        """Return the nodes to change; of equivalent nodes as many as permitted migrations."""
        problem = self._problem
        at = problem.changeable
        if self._limits.headroom:
            return at
        clashing = [mask[at] for mask, _, _ in problem.clashes]
        sites = () if self._sites is None else (self._sites.codes[problem.edge.positions[at]],)
        own = problem.free[at], problem.present[at], problem.most[at]
        _, which = group_equal_rows(np.column_stack((*own, *clashing, *sites)))
        kept: Ints = at[count_before(which) < self._limits.max_moves]
        return kept

    def _add_touches(self) -> tuple[Ints, Ints]:
        """Add variables for pods coming to and leaving each node, shape (nodes, items)."""
        problem, limits, at = self._problem, self._limits, self._nodes
        present = np.minimum(problem.present[at], limits.max_moves)
        inside = np.minimum(problem.staying - present, limits.max_edge_reorder)
        come: Ints = np.minimum(problem.most[at], problem.supply + inside)
        come = np.minimum(come, limits.max_moves)
        most_left = problem.free[at] + problem.present[at] @ problem.requests
        for item, requests in enumerate(problem.requests):
            asked = np.flatnonzero(requests)
            fits = most_left[:, asked] // requests[asked]
            come[:, item] = np.minimum(
                come[:, item], np.maximum(fits.min(axis=1, initial=limits.max_moves), 0)
            )
        leave: Ints = np.minimum(present, self._away + limits.max_edge_reorder)
        if not limits.headroom and self._sites is None:
            # Departures only make room for others.
            leave[~come.any(axis=1)] = 0
        return self._rows.sparse(come), self._rows.sparse(leave)

    def _add_flow_balance(self) -> Ints:
        """Add flow balance constraints per item (pod class): arrivals = intra-edge + pending + from
        cloud.

        Departures = intra-edge + to cloud.
        """
        rows, problem, limits = self._rows, self._problem, self._limits
        most = limits.max_moves
        inside = np.minimum(problem.staying, limits.max_edge_reorder)
        fetched = np.minimum(problem.supply - problem.waiting, limits.max_cloud_to_edge)
        waited = np.minimum(problem.waiting, most)
        fetched = np.minimum(fetched, most)
        moved = rows.variables(np.stack((inside, waited, fetched, self._away)))
        for item in range(len(problem.items)):
            rows.add((self._come[:, item], 1), (moved[:3, item], -1), least=0, most=0)
            rows.add((self._leave[:, item], 1), (moved[[0, 3], item], -1), least=0, most=0)
            if self._away[item] and waited[item] + fetched[item]:
                # Simultaneous arrivals and departures of an item are migrations within the edge.
                comes, away = rows.variables([1]), int(self._away[item])
                rows.add((moved[1:3, item], 1), (comes, -waited[item] - fetched[item]), most=0)
                rows.add((moved[3:, item], 1), (comes, away), most=away)
        rows.add((moved, 1), most=most)
        rows.add((moved[0], 1), most=limits.max_edge_reorder)
        rows.add((moved[2], 1), most=limits.max_cloud_to_edge)
        return moved

    def _add_capacity(self) -> None:
        rows, problem = self._rows, self._problem
        for at, node in enumerate(self._nodes.tolist()):
            come, leave = self._come[at], self._leave[at]
            for requests, free in zip(problem.requests.T, problem.free[node].tolist(), strict=True):
                asked = requests > 0
                coming = come[asked & (come != NO_VARIABLE)]
                if not len(coming):
                    continue
                taken = (come[asked], requests[asked]), (leave[asked], -requests[asked])
                if free < 0:
                    # The capacity row applies only with arrivals.
                    comes = rows.variables([1])
                    rows.add((coming, 1), (comes, -self._limits.max_moves * len(coming)), most=0)
                    rows.add(*taken, (comes, -free), most=0)
                else:
                    rows.add(*taken, most=free)

    def _add_clashes(self) -> None:
        """Add constraints that forbid arrivals of an item's pods next to pods of an incompatible
        item.
        """
        rows, problem, most = self._rows, self._problem, self._limits.max_moves
        coming: dict[int, int] = {}
        for on, comes, there in problem.clashes:
            for at in np.flatnonzero(on[self._nodes]).tolist():
                one = int(self._come[at, comes])
                if one == NO_VARIABLE:
                    continue
                if one not in coming:
                    [coming[one]] = rows.variables([1]).tolist()
                    rows.add(([one], 1), ([coming[one]], -most), most=0)
                present = int(problem.present[self._nodes[at], there]) - (comes == there)
                if self._come[at, there] != NO_VARIABLE or present > 0:
                    # Without the first item, the row is slack.
                    spare = max(present, 0) + most
                    rows.add(
                        (self._come[at, [there]], 1),
                        (self._leave[at, [there]], -1),
                        ([coming[one]], spare),
                        most=spare - present,
                    )

    def _add_headroom(self) -> None:
        problem = self._problem
        for requests, most in zip(problem.requests.T, problem.to_fill.tolist(), strict=True):
            self._rows.add((self._moved[2], requests), (self._moved[3], -requests), most=most)

    def _add_steps(self, items: list[int]) -> tuple[int, Ints]:
        """Add QoS variables: one for each further edge pod of a workload, in sequence."""
        rows, problem, most = self._rows, self._problem, self._limits.max_moves
        lowest = -min(int(self._away[items].sum()), most)
        highest = min(int(problem.supply[items].sum()), most)
        steps = rows.variables(np.ones(highest - lowest, dtype=np.int64))
        rows.add_chain(steps)
        came, left = self._moved[1:3, items], self._moved[3, items]
        rows.add((came, 1), (left, -1), (steps, -1), least=lowest, most=lowest)
        return lowest, steps

    def _add_cloud(self) -> None:
        problem, most = self._problem, self._limits.max_moves
        rows, packing = self._rows, problem.cloud.packing
        counts = np.minimum(packing.counts, most)
        places = rows.variables(np.minimum(packing.most, counts))
        for kind in range(len(packing.kinds)):
            going = [at for at, item in enumerate(problem.items) if item.cloud_kind == kind]
            rows.add((places[:, kind], 1), (self._moved[3, going], -1), least=0, most=0)
        leaving = self._add_vacated()
        for at, free in enumerate(packing.free):
            gone = [(column, row) for node, column, row in leaving if node == at]
            for axis, room in enumerate(free.tolist()):
                asked = np.flatnonzero(packing.requests[:, axis])
                if len(asked):
                    taken = places[at, asked], packing.requests[asked, axis]
                    left = [column for column, _ in gone], [-int(row[axis]) for _, row in gone]
                    rows.add(taken, left, most=max(room, 0))

    def _add_vacated(self) -> list[tuple[int, int, Ints]]:
        """Return cloud nodes, variables for pods leaving them, and the capacity of a pod."""
        problem, rows = self._problem, self._rows
        packing = problem.cloud.packing
        found = []
        for index, item in enumerate(problem.items):
            sources = (packing.row_of.get(pod.node_name) for pod in item.outside)
            number = Counter(row for row in sources if row is not None)
            if number:
                columns = rows.variables(list(number.values())).tolist()
                rows.add((columns, 1), (self._moved[2, [index]], -1), most=0)
                [room] = amounts_of([item.requests], packing.axes)
                found += [(node, c, room) for node, c in zip(number, columns, strict=True)]
        return found


#: Largest number of nodes times items: each pair takes up to two variables of `MOST_VARIABLES`.
MOST_PAIRS = 9_000
#: Part of the remaining time for a goal before the last.
_PART = 0.7
#: Useless solutions to skip.
_TRIES = 6


class SolvedChanges:
    """Migration engine that finds the best changes by an integer-programming solver, and keeps the
    optimality certificate.
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        #: certificate of the first programme, an upper bound for all migrations
        self.certificate: Certificate | None = None
        #: level of the certificate
        self.level = 0
        #: whether all were solved to the end
        self.proven = True

    @classmethod
    def of(cls, problem: EdgeProblem) -> Self | None:
        """Return the engine; None without a solver, or if the problem is too large for a solver."""
        solver, pairs = problem.bounds.solver, len(problem.items) * len(problem.changeable)
        return None if solver is None or pairs > MOST_PAIRS else cls(solver)

    def __call__(self, problem: EdgeProblem) -> Iterator[Solution]:
        """Yield beneficial changes, best first, without supersets of previous changes.

        A change without proof of optimality is the last.
        """
        made = ChangesProgramme(problem)
        levels, first, number = problem.levels, self.certificate is None, 0
        while levels and number < _TRIES:
            if problem.bounds.deadline.passed:
                self.proven = False
                return
            found, certificate = self._maximise_levels(made, problem, levels)
            if first and not number:
                self.certificate, self.level = certificate, levels[0]
            self.proven = self.proven and found.proven
            if found.values is not None and (certificate.value or 0) > LEAST_GAIN * NANO:
                number += 1
                changes = made.changes(found.values)
                solution = _make_solution(problem, changes)
                if solution is not None:
                    yield solution
                else:
                    self.proven = False
                made.forbid(changes)
            else:
                made.keep(levels.pop(0))
            if not found.proven:
                return

    def _maximise_levels(
        self, made: ChangesProgramme, problem: EdgeProblem, levels: Sequence[int]
    ) -> tuple[Found, Certificate]:
        """Maximise the gain of each priority level in order, then minimise migrations."""
        worths, price = problem.worths, problem.price
        leading, beside = made.gain_weights(worths, levels[0], price)
        gained = [leading, *(made.gain_weights(worths, level)[0] for level in levels[1:])]
        goals = [Goal("worth", weights, _PART, unit=int(NANO)) for weights in gained]
        goals.append(Goal("moves", -made.moves(), 1.0))
        programme, deadline = made.programme(levels[0]), problem.bounds.deadline
        found = maximise_in_order(programme, goals, self._solver, deadline)
        certificate = found.certificates[0]
        value, bound = (
            None if amount is None else amount + beside
            for amount in (certificate.value, certificate.bound)
        )
        return found, attrs.evolve(certificate, value=value, bound=bound)


def _make_solution(problem: EdgeProblem, changes: Ints) -> Solution | None:
    """Convert pod count changes (nodes x items) to a solution with its objective values; None
    without QoS gain.
    """
    difference = changes.sum(axis=0)
    moves = int(np.abs(changes).sum() + np.abs(difference).sum()) // 2
    gains, worths, awaited = problem.gain_arrays(difference[None])
    net = problem.net_benefits(worths, awaited, np.array([moves]))
    if not (select_worthwhile(gains)[0] and select_worthwhile(net)[0]):
        return None
    nodes = np.flatnonzero(changes.any(axis=1))
    spread = int(problem.spread.added(nodes, changes[nodes]).sum())
    added = int(problem.added_fragmentation(nodes, problem.free, changes[nodes]).sum())
    return Solution(changes, tuple(net[0].tolist()), moves, spread, added)

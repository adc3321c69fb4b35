"""The best changes of the edge, as a solver finds them: what is beyond the bounds of the DP."""

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from kubedsm.objective.gains import LEAST_GAIN, worthwhile
from kubedsm.objective.objective import NANO
from kubedsm.objective.worths import less_price
from kubedsm.optimizer.moving.best_changes import Solution
from kubedsm.optimizer.moving.edge_changes import fragmentation_changes
from kubedsm.optimizer.moving.integer_changes import ChangesProgramme
from kubedsm.optimizer.moving.proposal import Question
from kubedsm.optimizer.programming.in_order import Certificate, Found, Goal, maximised_in_order
from kubedsm.optimizer.programming.programme import UNBOUNDED, Ints, Solver

#: Largest number of nodes times items: each pair takes up to two variables of `MOST_VARIABLES`.
MOST_PAIRS = 9_000
#: Of the time that is left, what a goal may take when others follow.
_PART = 0.7
#: Of solutions that are of no use, so many are passed over.
_TRIES = 6


class SolvedChanges:
    """Asks a solver, in place of `best_changes`, and keeps what it has proven."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        #: of the first programme: no moves within the limits are worth more than its bound
        self.certificate: Certificate | None = None
        #: of which levels it speaks
        self.level = 0
        #: whether all were solved to the end
        self.proven = True

    def __call__(self, question: Question) -> Iterator[Solution]:
        """The changes that give more QoS, best first; none has all of one before in it.

        One that is not proven to be the best is the last.
        """
        made = ChangesProgramme(question)
        gains, first, number = question.gains, self.certificate is None, 0
        levels = sorted({gains.level[workload] for workload in question.problem.workloads})
        while levels and number < _TRIES:
            if question.bounds.deadline.passed:
                self.proven = False
                return
            found, certificate = self._found(made, question, levels)
            if first and not number:
                self.certificate, self.level = certificate, levels[0]
            self.proven = self.proven and found.proven
            if found.values is not None and (certificate.value or 0) > LEAST_GAIN * NANO:
                number += 1
                changes = made.changes(found.values)
                solution = _solution(question, changes)
                if solution is not None:
                    yield solution
                else:
                    self.proven = False
                made.forbid(changes)
            else:
                made.keep(question, levels.pop(0))
            if not found.proven:
                return

    def _found(
        self, made: ChangesProgramme, question: Question, levels: Sequence[int]
    ) -> tuple[Found, Certificate]:
        """What is best at the first of the levels, then at the others, then with fewest moves."""
        worths, price = question.worths, question.price
        leading, beside = made.gained(worths, levels[0], price)
        gained = [leading, *(made.gained(worths, level)[0] for level in levels[1:])]
        goals = [Goal("worth", weights, _PART, unit=int(NANO)) for weights in gained]
        goals.append(Goal("moves", -made.moves(), 1.0))
        programme = made.programme()
        if price:
            columns, least = made.gained(question.gains, levels[0])
            programme = programme.with_row(
                columns.nonzero()[0], columns[columns != 0], -least, UNBOUNDED
            )
        found = maximised_in_order(programme, goals, self._solver, question.bounds.deadline)
        certificate = found.certificates[0]
        value, bound = (
            None if amount is None else amount + beside
            for amount in (certificate.value, certificate.bound)
        )
        return found, attrs.evolve(certificate, value=value, bound=bound)


def _solution(question: Question, changes: Ints) -> Solution | None:
    """None if that gives no more QoS, as for a pod that waits, or one that stays for longer."""
    problem = question.problem
    difference = changes.sum(axis=0)
    moves = int(np.abs(changes).sum() + np.abs(difference).sum()) // 2
    waiting = np.array([len(item.waiting) for item in problem.items], dtype=np.int64)
    awaited = int(np.clip(difference, 0, waiting).sum())
    cost = question.price * (moves - awaited * (1 + question.limits.max_moves))
    workloads = [item.workload for item in problem.items]
    gains = question.gains.of_vectors(workloads, difference[None])
    worths = question.worths.of_vectors(workloads, difference[None])
    net = less_price(worths, np.array([cost]))
    if not (worthwhile(gains)[0] and worthwhile(net)[0]):
        return None
    nodes = np.flatnonzero(changes.any(axis=1))
    spread = int(problem.spread.added(nodes, changes[nodes]).sum())
    added = int(fragmentation_changes(problem, nodes, problem.free, changes[nodes]).sum())
    return Solution(changes, tuple(net[0].tolist()), moves, spread, added, 0)

"""Integer programme (MIP) of a packing problem, with lexicographic goals by pod priority.

Section 2 of "Optimising Kubernetes pod placement with constraint programming", with pod counts by
kind. For each tier (priority), highest first: m1 is the number of placed pods; m2 adds for each
running pod 3 if it remains, 1 if it migrates, 0 if it is evicted. (By the paper's text a remaining
pod counts 2.) Here all tiers are placed before migrations are minimised, because migrations leave
no gap; QoS ranks between the two. `by_tier` is the paper's order.
"""

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Tier
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.packing.problem import ClusterProblem
from kubedsm.optimizer.placing.batch_mip import add_loads
from kubedsm.optimizer.programming.in_order import Certificate, Found, Goal, maximise_in_order
from kubedsm.optimizer.programming.programme import (
    Programme,
    Rows,
    Solver,
    Status,
)

_MIXES = 9


def bound_placed(problem: ClusterProblem, placed: tuple[int, ...]) -> tuple[int, ...]:
    """Return upper bounds on placed pods of each priority level, given the pods placed at higher
    levels.

    The relaxation combines all nodes into one, considers single resources and sums of two
    resources, and places the smallest pods first. placed: pods of each tier in a known placement.
    """
    reachable = (problem.most > 0).any(axis=0)
    counts = np.where(reachable, problem.counts, 0)
    total = problem.free.sum(axis=0)
    scarce = (problem.requests > 0).any(axis=0) & (total < counts @ problem.requests)
    bounds = [int(counts[problem.tiers == tier].sum()) for tier in range(len(placed))]
    if not scarce.any():
        return tuple(bounds)
    asks = problem.requests[:, scarce] / np.maximum(total[scarce], 1)
    for weights in _convex_weights(int(scarce.sum())):
        sizes = asks @ weights
        left = 1 + 1e-9 - float(sizes @ problem.least)
        for tier, number in enumerate(placed):
            of_tier = (problem.tiers == tier) & reachable
            optional = np.repeat(sizes[of_tier], (counts - problem.least)[of_tier])
            sums = np.cumsum(np.sort(optional))
            must = int(problem.least[of_tier].sum())
            fit = int(np.searchsorted(sums, left, side="right"))
            bounds[tier] = min(bounds[tier], must + fit)
            taken = min(number - must, len(sums))
            left -= float(sums[taken - 1]) if taken > 0 else 0.0
    return tuple(bounds)


def _convex_weights(number: int) -> list[np.typing.NDArray[np.float64]]:
    """Return weight vectors over `number` resources: single resources, and mixtures of two
    resources.
    """
    single = list(np.eye(number))
    steps = [step / (_MIXES + 1) for step in range(1, _MIXES + 1)]
    pairs = [(a, b) for a in range(number) for b in range(a)]
    return single + [s * single[a] + (1 - s) * single[b] for a, b in pairs for s in steps]


#: Goal names: placed pods of a priority; pods staying; and where
#: pods may go too, m2.
PLACED, STAYING, KEPT = "placed", "staying", "kept (3 per pod that stays, 1 per migrated pod)"
#: Loss of m2 by one migration.
_LEAST_DISTURBANCE = 2


@attrs.frozen(eq=False)
class _Steps:
    """Edge pods of a workload in the programme, one variable for each additional pod."""

    level: int
    #: edge nodes and kinds of the workload, of the N x S loads
    cells: tuple[Ints, ...]
    steps: Ints
    #: QoS of each additional edge pod, in nano-units
    benefits: Ints


class Phases:
    """Integer programme (MIP) of a packing problem: builds variables and goals, and converts
    solutions back to loads.
    """

    def __init__(
        self,
        problem: ClusterProblem,
        gains: Gains,
        tier_share: float = 0.6,
        *,
        by_tier: bool = False,
    ) -> None:
        """Build the programme; tier_share: part of the time budget divided equally among goals.

        by_tier: m2 of a tier comes before the next tier is placed, not after all tiers are.
        """
        self._problem, self._tier_share, self._by_tier = problem, tier_share, by_tier
        old = problem.old
        rows = Rows()
        self._y = add_loads(rows, problem, problem.most)
        self._homes = np.nonzero(old)
        self._stay = rows.variables(old[self._homes])
        #: kept running pods, for kinds that may be evicted
        self._loose = np.flatnonzero(problem.least < old.sum(axis=0))
        self._kept = rows.variables(old.sum(axis=0)[self._loose])
        self._add_counts(rows)
        self._steps = tuple(self._add_steps(rows, gains))
        self._programme: Programme = rows.programme()

    def solve_goals(self, solver: Solver, deadline: Deadline, hint: Ints) -> tuple[Ints, Found]:
        """Maximise the packing goals lexicographically; return the best pod counts by node, and the
        optimality certificates.

        The result is never worse than the hint.
        """
        goals, values = self.goals(hint), self.values(hint)
        found = maximise_in_order(self._programme, goals, solver, deadline, values)
        if found.values is None:
            return hint, found
        return found.values[self._y], found

    def standing(self, loads: Ints) -> tuple[int, ...]:
        """Return the objective value of each packing goal for the given pod counts by node; greater
        is better.
        """
        values = self.values(loads)
        return tuple(int(goal.weights @ values) for goal in self.goals(loads))

    def certificates(self, loads: Ints, found: Found | None) -> tuple[Certificate, ...]:
        """Return an optimality certificate of each packing goal for the given pod counts by node.

        found: certificates of other loads that are no worse. They apply as far as values are
        identical.
        """
        goals, values = self.goals(loads), self.values(loads)
        certificates = []
        exact = found is not None
        for at, goal in enumerate(goals):
            value, known = int(goal.weights @ values), found.certificates[at] if found else None
            bounds = [goal.most] + ([known.bound] if known and exact else [])
            bound = min((n for n in bounds if n is not None), default=None)
            # An unconfirmed bound proves nothing.
            sure = bound if known is not None and known.proven else goal.most
            status = Status.OPTIMAL if value == bound == sure else Status.FEASIBLE
            seconds = known.seconds if known else 0.0
            note = known.note if known and status is not Status.OPTIMAL else ""
            certificates.append(
                Certificate(goal.name, status, value, bound, seconds, goal.of, goal.unit, note)
            )
            exact = exact and known is not None and known.value == value
        return tuple(certificates)

    def _add_counts(self, rows: Rows) -> None:
        problem = self._problem
        for kind, (least, most) in enumerate(
            zip(problem.least.tolist(), problem.counts.tolist(), strict=True)
        ):
            rows.add((self._y[:, kind], 1), least=least, most=most)
        for stay, y in zip(self._stay.tolist(), self._y[self._homes].tolist(), strict=True):
            rows.add(([y], 1), ([stay], -1), least=0)
        for kept, kind in zip(self._kept.tolist(), self._loose.tolist(), strict=True):
            rows.add((self._y[:, kind], 1), ([kept], -1), least=0)

    def _add_steps(self, rows: Rows, gains: Gains) -> Iterator["_Steps"]:
        """Add QoS variables, one for each additional pod at the edge, for every workload whose edge
        share affects QoS.
        """
        problem = self._problem
        edge = [row for row, n in enumerate(problem.nodes) if n.tier is Tier.EDGE]
        for workload in dict.fromkeys(filter(None, problem.workloads)):
            kinds = [kind for kind, each in enumerate(problem.workloads) if each == workload]
            cells = np.ix_(edge, kinds)
            most = int(problem.counts[kinds].sum()) * problem.most[cells].any()
            now = int(problem.old[cells].sum())
            scores = np.array([gains.of_workload(workload, n - now) for n in range(most + 1)])
            if np.diff(scores).any():
                steps = rows.variables(np.ones(most, dtype=np.int64))
                rows.add_chain(steps)
                rows.add((self._y[cells].ravel(), 1), (steps, -1), least=0, most=0)
                yield _Steps(gains.level[workload], cells, steps, np.diff(scores))

    def goals(self, loads: Ints) -> list[Goal]:
        """Return the packing goals in lexicographic order, bounded by the number of pods that
        `loads` (pod counts by node) places.
        """
        placed = self._problem.count_placed(loads)
        first = [
            Goal(PLACED, self._placing_weights(tier), most=most, of=self._tier_name(tier))
            for tier, most in enumerate(bound_placed(self._problem, placed))
        ]
        if self._by_tier:
            then = [self._keeping_goal(tier, placed) for tier in range(len(placed))]
            goals = [goal for pair in zip(first, then, strict=True) for goal in pair]
        else:
            qos = self._list_qos_goals()
            goals = [*first, *qos, self._keeping_goal(None, placed)]
        parts = _time_parts(len(goals), self._tier_share)
        return [attrs.evolve(g, part=part) for g, part in zip(goals, parts, strict=True)]

    def _tier_name(self, tier: int) -> str:
        """Return the display name of a priority tier, such as `priority 10`; empty with a single
        tier.
        """
        priorities = self._problem.priorities
        return f"priority {priorities[tier]}" if len(priorities) > 1 else ""

    def _placing_weights(self, tier: int) -> Ints:
        """Return the objective weight of each variable for goal m1, the number of placed pods of a
        priority tier.
        """
        weights = self._zero_weights()
        weights[self._y] = self._problem.tiers == tier
        return weights

    def _list_qos_goals(self) -> list[Goal]:
        by_level: dict[int, Ints] = {}
        for of in self._steps:
            by_level.setdefault(of.level, self._zero_weights())[of.steps] = of.benefits
        named = {level: f"level {level}" if len(by_level) > 1 else "" for level in by_level}
        return [
            Goal("QoS", weights, most=int(weights.clip(0).sum()), of=named[level], unit=int(NANO))
            for level, weights in sorted(by_level.items())
        ]

    def _keeping_goal(self, tier: int | None, placed: Sequence[int]) -> Goal:
        """Return goal m2 (remaining and migrating pods) of one or all tiers, without constants."""
        tiers, weights = self._problem.tiers, self._zero_weights()
        weights[self._stay] = 2 if tier is None else 2 * (tiers[self._homes[1]] == tier)
        weights[self._kept] = 1 if tier is None else tiers[self._loose] == tier
        most = int(np.maximum(weights, 0) @ self._programme.upper)
        if tier is None and self._must_disturb(placed):
            most -= _LEAST_DISTURBANCE
        name, unit = (STAYING, 2) if not len(self._loose) else (KEPT, 1)
        return Goal(
            name, weights, most=most, unit=unit, of="" if tier is None else self._tier_name(tier)
        )

    def _must_disturb(self, placed: Sequence[int]) -> bool:
        """Determine whether placing the given pods of each tier requires any disruption."""
        problem = self._problem
        had = problem.old.sum(axis=0)
        free = problem.free - problem.old @ problem.requests
        fits = (free[:, None, :] >= problem.requests[None, :, :]).all(axis=2) & (problem.most > 0)
        most = np.where(fits.any(axis=0), problem.counts, had)
        return any(
            number > int(most[problem.tiers == tier].sum()) for tier, number in enumerate(placed)
        )

    def _zero_weights(self) -> Ints:
        return np.zeros(len(self._programme.upper), dtype=np.int64)

    def values(self, loads: Ints) -> Ints:
        values = self._zero_weights()
        values[self._y] = loads
        values[self._stay] = np.minimum(loads, self._problem.old)[self._homes]
        values[self._kept] = self._problem.count_kept(loads)[self._loose]
        for of in self._steps:
            values[of.steps[: int(loads[of.cells].sum())]] = 1
        return values


def _time_parts(number: int, share: float) -> list[float]:
    """Return, for each goal, the fraction of the then remaining time budget.

    Each goal has an equal part of `share`, and half of the remainder when its turn comes.
    """
    reserved, pool, left, parts = share / number, 1 - share, 1.0, list[float]()
    for _ in range(number - 1):
        mine = reserved + pool / 2
        parts.append(mine / left)
        pool, left = pool / 2, left - mine
    return [*parts, 1.0]

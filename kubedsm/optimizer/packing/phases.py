"""Packing as an integer programme with lexicographic goals.

Section 2 of "Optimising Kubernetes pod placement with constraint programming", by counts of pods of
a kind. For each tier (priority), the highest first: m1, the placed pods; and m2, for each running
pod 3 if it stays, 1 if it migrates, 0 if it is evicted. (By the paper's text a pod that stays
counts 2; its program rather evicts a pod than migrate it: `evict`.) Here all tiers are placed
before migrations count, since migrations leave no gap; between the two is QoS. `by tier` is the
paper's order.
"""

from collections.abc import Sequence
from typing import Literal

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Tier, Workload
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.packing.problem import Problem
from kubedsm.optimizer.programming.in_order import Certificate, Found, Goal, maximise_in_order
from kubedsm.optimizer.programming.programme import UNBOUNDED, Programme, Rows, Solver, Status

_MIXES = 9


def bound_placed(problem: Problem, placed: tuple[int, ...]) -> tuple[int, ...]:
    """Return upper bounds on the placed pods of each tier, given those of the tiers before.

    All nodes are taken for one, and each resource, or a sum of two, for the only one; the smallest
    pods go first. placed: T, placed pods in a known placement.
    """
    packing = problem.packing
    reachable = (packing.most > 0).any(axis=0)
    counts = np.where(reachable, packing.counts, 0)
    total = packing.free.sum(axis=0)
    scarce = (packing.requests > 0).any(axis=0) & (total < counts @ packing.requests)
    bounds = [int(counts[problem.tiers == tier].sum()) for tier in range(len(placed))]
    if not scarce.any():
        return tuple(bounds)
    asks = packing.requests[:, scarce] / np.maximum(total[scarce], 1)
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
    """Return convex combinations of `number` resources."""
    single = list(np.eye(number))
    steps = [step / (_MIXES + 1) for step in range(1, _MIXES + 1)]
    pairs = [(a, b) for a in range(number) for b in range(a)]
    return single + [s * single[a] + (1 - s) * single[b] for a, b in pairs for s in steps]


#: Meaning of m2.
Weighing = Literal["keep", "evict"]
#: Whether m2 of a tier comes after all tiers are placed, or before the next tier.
GoalOrder = Literal["placed first", "by tier"]

#: Goal names: placed pods of a priority; pods that stay; and where
#: pods may go too, m2.
PLACED, STAYING, KEPT = "placed", "staying", "kept (3 a pod that stays, 1 that moves)"
#: Loss of m2 by one migration.
_LEAST_DISTURBANCE = 2


@attrs.frozen
class Form:
    """Variant of the paper's model."""

    #: part of the time budget that is reserved equally for the goals
    tier_share: float = 0.6
    weighing: Weighing = "keep"
    order: GoalOrder = "placed first"


class Phases:
    """Programme of a problem, and the meaning of its variables."""

    def __init__(self, problem: Problem, gains: Gains, form: Form) -> None:
        self._problem, self._form = problem, form
        packing, old = problem.packing, problem.old
        rows = Rows()
        self._open = np.nonzero(packing.most)
        self._y = rows.variables(packing.most[self._open])
        self._at = np.full(packing.most.shape, -1, dtype=np.int64)
        self._at[self._open] = self._y
        self._homes = np.nonzero(old)
        self._stay = rows.variables(old[self._homes])
        #: kept running pods, for kinds that may be evicted
        self._loose = np.flatnonzero(problem.least < old.sum(axis=0))
        self._kept = rows.variables(old.sum(axis=0)[self._loose])
        self._add_room(rows)
        self._add_counts(rows)
        self._steps = _Steps(problem, gains, rows, self._at)
        self._programme: Programme = rows.programme()

    def solve_goals(self, solver: Solver, deadline: Deadline, hint: Ints) -> tuple[Ints, Found]:
        """Return the best loads found, at least the hint, and what is known of each goal."""
        goals, values = self.goals(hint), self.values(hint)
        found = maximise_in_order(self._programme, goals, solver, deadline, values)
        if found.values is None:
            return hint, found
        loads = self._problem.packing.nothing()
        loads[self._open] = found.values[self._y]
        return loads, found

    def standing(self, loads: Ints) -> tuple[int, ...]:
        """Return the value of each goal; greater is better."""
        values = self.values(loads)
        return tuple(int(goal.weights @ values) for goal in self.goals(loads))

    def certificates(self, loads: Ints, found: Found | None) -> tuple[Certificate, ...]:
        """Return the optimality of these loads.

        found: certificates of other loads that are no worse; they hold as far as values are equal.
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

    def _add_room(self, rows: Rows) -> None:
        packing = self._problem.packing
        for row, room in enumerate(packing.free.tolist()):
            kinds = np.flatnonzero(packing.most[row])
            for axis, amount in enumerate(room):
                asked = packing.requests[kinds, axis]
                if int(asked @ packing.most[row, kinds]) > amount:
                    some = asked > 0
                    rows.add(self._at[row, kinds[some]], asked[some], most=amount)

    def _add_counts(self, rows: Rows) -> None:
        problem = self._problem
        for kind, (least, most) in enumerate(
            zip(problem.least.tolist(), problem.packing.counts.tolist(), strict=True)
        ):
            columns = self._at[problem.packing.most[:, kind] > 0, kind]
            rows.add(columns, np.ones_like(columns), least, most)
        for stay, y in zip(self._stay.tolist(), self._at[self._homes].tolist(), strict=True):
            rows.add([y, stay], [1, -1], least=0)
        for kept, kind in zip(self._kept.tolist(), self._loose.tolist(), strict=True):
            columns = self._at[problem.packing.most[:, kind] > 0, kind]
            waiting = len(problem.waiting[kind])
            rows.add([*columns, kept], [*np.ones_like(columns), -1], least=0, most=waiting)
            stay = self._stay[self._homes[1] == kind]
            rows.add([*stay, kept], [*-np.ones_like(stay), 1], least=0)

    def goals(self, loads: Ints) -> list[Goal]:
        """Return the goals in order, with upper bounds given the pods placed by `loads`."""
        form, placed = self._form, self._problem.placed(loads)
        first = [
            Goal(PLACED, self._placing_weights(tier), most=most, of=self._tier_name(tier))
            for tier, most in enumerate(bound_placed(self._problem, placed))
        ]
        if form.order == "by tier":
            then = [self._keeping_goal(tier, placed) for tier in range(len(placed))]
            goals = [goal for pair in zip(first, then, strict=True) for goal in pair]
        else:
            qos = self._steps.goals(self._zero_weights())
            goals = [*first, *qos, self._keeping_goal(None, placed)]
        parts = _time_parts(len(goals), form.tier_share)
        return [attrs.evolve(g, part=part) for g, part in zip(goals, parts, strict=True)]

    def _tier_name(self, tier: int) -> str:
        """Return the name of a tier; empty if there is only one."""
        priorities = self._problem.priorities
        return f"priority {priorities[tier]}" if len(priorities) > 1 else ""

    def _placing_weights(self, tier: int) -> Ints:
        """Return the weights of m1 of a tier."""
        weights = self._zero_weights()
        weights[self._y] = self._problem.tiers[self._open[1]] == tier
        return weights

    def _keeping_goal(self, tier: int | None, placed: Sequence[int]) -> Goal:
        """Return the goal m2 of a tier, or of all, constants aside."""
        evicting = self._form.weighing == "evict"
        tiers, weights = self._problem.tiers, self._zero_weights()
        weights[self._stay] = 2 if tier is None else 2 * (tiers[self._homes[1]] == tier)
        kept = 1 if tier is None else tiers[self._loose] == tier
        weights[self._kept] = -1 * kept if evicting else kept
        most = int(np.maximum(weights, 0) @ self._programme.upper)
        if tier is None and not evicting and self._must_disturb(placed):
            most -= _LEAST_DISTURBANCE
        name, unit = (STAYING, 2) if not len(self._loose) else (KEPT, 1)
        return Goal(
            name, weights, most=most, unit=unit, of="" if tier is None else self._tier_name(tier)
        )

    def _must_disturb(self, placed: Sequence[int]) -> bool:
        """Return whether these numbers can be placed only if some pod leaves its node."""
        problem = self._problem
        packing, had = problem.packing, problem.old.sum(axis=0)
        free = packing.free - problem.old @ packing.requests
        fits = (free[:, None, :] >= packing.requests[None, :, :]).all(axis=2) & (packing.most > 0)
        most = np.where(fits.any(axis=0), packing.counts, had)
        return any(
            number > int(most[problem.tiers == tier].sum()) for tier, number in enumerate(placed)
        )

    def _zero_weights(self) -> Ints:
        return np.zeros(len(self._programme.upper), dtype=np.int64)

    def values(self, loads: Ints) -> Ints:
        values = self._zero_weights()
        values[self._y] = loads[self._open]
        values[self._stay] = np.minimum(loads, self._problem.old)[self._homes]
        values[self._kept] = self._problem.kept(loads)[self._loose]
        self._steps.fill(values, loads)
        return values


class _Steps:
    """One variable for each edge pod of workloads whose edge share has a benefit."""

    def __init__(self, problem: Problem, gains: Gains, rows: Rows, at: Ints) -> None:
        self._edge = np.array([n.tier is Tier.EDGE for n in problem.packing.nodes], dtype=np.bool_)
        self._gains = gains
        self._kinds: dict[Workload, list[int]] = {}
        for kind, workload in enumerate(problem.workloads):
            if workload is not None:
                self._kinds.setdefault(workload, []).append(kind)
        self._numbers: dict[Workload, Ints] = {}
        self._old = problem.old
        for workload, kinds in self._kinds.items():
            mask = self._edge[:, None] & (problem.packing.most[:, kinds] > 0)
            most = int(problem.packing.counts[kinds].sum()) if mask.any() else 0
            worth = self._pod_benefits(workload, most)
            if not worth.any():
                continue
            numbers = rows.variables(np.ones(most, dtype=np.int64))
            self._numbers[workload] = numbers
            columns = at[:, kinds][mask]
            signs = [*np.ones_like(columns), *-np.ones_like(numbers)]
            # Equality where further pods are a loss.
            rows.add(
                [*columns, *numbers], signs, least=0, most=0 if (worth < 0).any() else UNBOUNDED
            )
            for one, next_one in zip(numbers[:-1].tolist(), numbers[1:].tolist(), strict=True):
                rows.add([one, next_one], [1, -1], least=0)

    def _pod_benefits(self, workload: Workload, most: int) -> Ints:
        """Return what each of `most` edge pods adds, in nano-units."""
        now = int(self._old[self._edge][:, self._kinds[workload]].sum())
        gains = [self._gains.of_workload(workload, n - now) for n in range(most + 1)]
        added: Ints = np.array(gains[1:], dtype=np.int64) - np.array(gains[:-1], dtype=np.int64)
        return added

    def goals(self, nothing: Ints) -> list[Goal]:
        by_level: dict[int, Ints] = {}
        for workload, numbers in self._numbers.items():
            level = self._gains.level[workload]
            weights = by_level.setdefault(level, nothing.copy())
            weights[numbers] = self._pod_benefits(workload, len(numbers))
        named = {level: f"level {level}" if len(by_level) > 1 else "" for level in by_level}
        return [
            Goal("QoS", weights, most=int(weights.clip(0).sum()), of=named[level], unit=int(NANO))
            for level, weights in sorted(by_level.items())
        ]

    def fill(self, values: Ints, loads: Ints) -> None:
        for workload, numbers in self._numbers.items():
            there = int(loads[self._edge][:, self._kinds[workload]].sum())
            values[numbers[:there]] = 1


def _time_parts(number: int, share: float) -> list[float]:
    """Return the part of the remaining time for each goal.

    Each has an equal part of `share`, and half of what is left when its turn comes.
    """
    reserved, pool, left, parts = share / number, 1 - share, 1.0, list[float]()
    for _ in range(number - 1):
        mine = reserved + pool / 2
        parts.append(mine / left)
        pool, left = pool / 2, left - mine
    return [*parts, 1.0]

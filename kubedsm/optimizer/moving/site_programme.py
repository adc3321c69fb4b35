"""Integer programme for the migrations towards users with the greatest benefit within the limits.

Each pod of a workload serves equally many requests, those of its own site first. Its near share
grows by one pod for a replica within the demand of its site, and by the benefit of a neighbour for
any other edge pod. QoS counts by its slopes at the present near share, for more and for less: it is
concave, and few pods migrate. Latencies of single pairs of sites, and resilience, are left out.
Therefore every solution is checked by its exact benefit.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import Workload
from kubedsm.model.node_index import Column
from kubedsm.objective.gains import Gains
from kubedsm.objective.site_demand import SiteDemand
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.integer_changes import ChangesProgramme
from kubedsm.optimizer.moving.migration_graph import connect_nodes
from kubedsm.optimizer.moving.pairing import assign_pods
from kubedsm.optimizer.moving.suggestion import Move, Moves
from kubedsm.optimizer.placing.batch import site_at
from kubedsm.optimizer.programming.programme import (
    UNBOUNDED,
    Floats,
    Ints,
    Solver,
    Status,
)

#: infeasible solutions to skip
_TRIES = 12
#: part of the remaining time for a priority level: single migrations follow if nothing is found
_PART = 0.9
#: tolerance of near shares
_SLACK = 1e-9


class SiteProgramme(ChangesProgramme):
    """Integer programme for migrations of the edge, where the users' edge sites are known for some
    workloads.
    """

    def __init__(self, problem: EdgeProblem, sites: Column) -> None:
        #: by workload with demand by site
        self._near: dict[Workload, _NearShare] = {}
        super().__init__(problem, sites)

    def _add_steps(self, items: list[int]) -> tuple[int, Ints]:
        """Add QoS variables: for a workload with demand by site, its pods that serve users of their
        own site, and of others.
        """
        gains, workload = self._problem.gains, self._problem.items[items[0]].workload
        share, demand = gains.shares[workload], gains.qos_targets(workload).demand
        if demand is None or share.sites is None:
            return super()._add_steps(items)
        there, nearer = dict(share.sites), 1 - demand.neighbour
        terms = list[tuple[int, float, int]]()
        for site, rows in self._rows_by_site.items():
            wanted, here = demand.part_of.get(site, 0.0) * share.total, there.get(site, 0)
            whole, before = int(wanted), min(here, int(wanted))
            # Whole pods of the site's requests that replicas serve, and do not serve yet; the rest.
            own = [
                (most, part, present)
                for most, part, present in (
                    (before, nearer, before),
                    (whole - before, nearer, 0),
                    (1, nearer * (wanted - whole), int(here > whole)),
                )
                if most and part
            ]
            if not own:
                continue
            variables = self._rows.variables([most for most, *_ in own]).tolist()
            come, leave = (of[np.ix_(rows, items)].ravel() for of in (self._come, self._leave))
            self._rows.add((variables, 1), (come, -1), (leave, 1), most=here)
            terms += (
                (variable, part, present)
                for variable, (_, part, present) in zip(variables, own, strict=True)
            )
        # All edge pods serve some requests.
        fetched, away = self._moved[2:, items].tolist()
        terms += ((variable, demand.neighbour, 0) for variable in fetched)
        terms += ((variable, -demand.neighbour, 0) for variable in away)
        numbers, parts, present = map(np.array, zip(*terms, strict=True))
        self._near[workload] = _NearShare(demand, parts, present)
        return 0, numbers

    @property
    def is_exact(self) -> bool:
        """True if neither latencies of pairs of sites nor resilience matter."""
        return not any(each.demand.pairs or each.demand.kept for each in self._near.values())

    @cached_property
    def _rows_by_site(self) -> dict[str, list[int]]:
        """Return the rows of `_nodes` by site."""
        found: dict[str, list[int]] = {}
        for row, node in enumerate(self._nodes.tolist()):
            position = int(self._problem.edge.positions[node])
            found.setdefault(site_at(self._sites, position), []).append(row)
        return found

    def _weigh(self, gains: Gains, workload: Workload, lowest: int, steps: int) -> tuple[int, Ints]:
        known = self._near.get(workload)
        if known is None:
            return super()._weigh(gains, workload, lowest, steps)
        less, more = _find_slopes(gains, workload, known.demand)
        slopes = np.where((known.present > 0) | (known.parts < 0), less, more)
        weights = np.rint(known.parts * slopes).astype(np.int64)
        return -int(weights @ known.present), weights


def _find_slopes(gains: Gains, workload: Workload, demand: SiteDemand) -> tuple[float, float]:
    """Return the QoS that one pod loses if its requests are no longer served near their users, and
    the QoS that one more gains, at the present near share.

    The slope changes at the target. A part of a pod, up to there, counts as much as a whole one. At
    the greatest near share a pod that comes only makes up for one that leaves.
    """
    share, target = gains.shares[workload], gains.qos_targets(workload)
    near, pod, greatest = target.reach(share).near, 1 / share.total, demand.reachable(share.total)
    ends = 0.0, min(target.qos, greatest), greatest
    lower = max((end for end in ends if end < near - _SLACK), default=near)
    upper = min((end for end in ends if end > near + _SLACK), default=near)
    less, more = (
        gains.of_near(workload, max(near + part * pod, 0.0)) / part if part else 0.0
        for part in (max((lower - near) / pod, -1.0), min((upper - near) / pod, 1.0))
    )
    return less, more if upper > near else less


@attrs.frozen(eq=False)
class _NearShare:
    """Demand of a workload by site, and the near share that each of its variables stands for, in
    pods, with the present values of the variables.
    """

    demand: SiteDemand
    parts: Floats
    present: Ints


def list_site_changes(problem: EdgeProblem, sites: Column) -> Iterator[list[Moves]]:
    """Yield the best migrations of the problem, best first, in groups that share no edge node; at
    last no group if the programme is exact and the solver finds that no more migrations pay.

    Nothing is yielded without a solver.
    """
    solver = problem.bounds.solver
    if solver is None:
        return
    if not problem.items:
        yield []
        return
    made, tries = SiteProgramme(problem, sites), 0
    levels = sorted({problem.gains.level[workload] for workload in problem.workloads})
    while levels and tries < _TRIES:
        values, ended = _maximise(made, problem, levels, solver)
        changes = made.changes(values)
        if changes.any():
            tries += 1
            moves = assign_pods(problem, changes)
            if moves is not None:
                yield _split(problem, moves)
            made.forbid(changes)
        elif ended:
            made.keep(levels.pop(0))
        else:
            return
    if made.is_exact and not levels:
        yield []


def _maximise(
    made: SiteProgramme, problem: EdgeProblem, levels: Iterable[int], solver: Solver
) -> tuple[Ints, bool]:
    """Return the values with the greatest benefit less the price, by priority level, and True
    unless the solver ran out of time; zeros if it found none.
    """
    programme, price = made.programme(), problem.price
    values, ended = np.zeros(made.size, dtype=np.int64), True
    for level in levels:
        if price:
            # A benefit that lasts must not lower QoS.
            gains, beside = made.gain_weights(problem.gains, level)
            columns = np.flatnonzero(gains)
            programme = programme.with_row(columns, gains[columns], -beside, UNBOUNDED)
        weights, _ = made.gain_weights(problem.worths, level, price)
        solved = solver.maximise(programme, weights, problem.bounds.deadline.part(_PART))
        if solved.values is None or not programme.allows(solved.values):
            return values, False
        values, price, ended = solved.values, 0, ended and solved.status is Status.OPTIMAL
        columns = np.flatnonzero(weights)
        least = int(weights @ values)
        programme = programme.with_row(columns, weights[columns], least, UNBOUNDED)
    return values, ended


def _split(problem: EdgeProblem, moves: Iterable[Move]) -> list[Moves]:
    """Divide the migrations by connected edge nodes."""
    at_edge = {
        move: [
            name for name in (move.source, move.target) if name is not None and name in problem.rows
        ]
        for move in moves
    }
    return [
        tuple(move for move, names in at_edge.items() if names[0] in nodes)
        for nodes in connect_nodes(at_edge.values())
    ]

"""Integer programme for the migrations towards users with the greatest benefit within the limits.

Each pod of a workload serves equally many requests, those of its own site first. Its near share
grows by one pod for a replica within the demand of its site, and by the benefit of a neighbour for
any other edge pod. QoS counts by its slopes at the present near share, for more and for less: it is
concave, and few pods migrate. With latencies of single pairs of sites, or resilience, the benefits
of more and of fewer pods at each site are added as if the other sites stayed unchanged. Every
solution is checked by its exact benefit.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import attrs
import numpy as np

from kubedsm.model.model import Share, Workload
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
    Floats,
    Ints,
    Solver,
    Status,
)

#: infeasible solutions to skip
_TRIES = 12
#: part of the remaining time for a priority level
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
        #: by workload with latencies of pairs of sites, or resilience: site and change of pods
        self._margins: dict[Workload, list[tuple[str, int]]] = {}
        super().__init__(problem, sites)

    def _add_steps(self, items: list[int]) -> tuple[int, Ints]:
        """Add QoS variables: for a workload with demand by site, its pods that serve users of their
        own site, and of others.
        """
        gains, workload = self._problem.gains, self._problem.items[items[0]].workload
        share, demand = gains.shares[workload], gains.qos_targets(workload).demand
        if demand is None or share.sites is None:
            return super()._add_steps(items)
        if demand.pairs or demand.kept:
            return self._add_margins(workload, share, items)
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
            self._rows.add((variables, 1), *self._net_arrivals(rows, items), most=here)
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

    def _add_margins(self, workload: Workload, share: Share, items: list[int]) -> tuple[int, Ints]:
        """Add QoS variables for each further pod at a site, and each pod less."""
        there, most = dict(share.sites or ()), self._limits.max_moves
        numbers, changes = list[int](), list[tuple[str, int]]()
        for site, rows in self._rows_by_site.items():
            steps = [*range(1, min(max(share.total - share.edge, 1), most) + 1)]
            steps += range(-1, -min(there.get(site, 0), most) - 1, -1)
            variables = self._rows.variables([1] * len(steps)).tolist()
            signs = np.sign(np.array(steps, dtype=np.int64))
            self._rows.add((variables, signs), *self._net_arrivals(rows, items), least=0, most=0)
            numbers += variables
            changes += ((site, step) for step in steps)
        self._margins[workload] = changes
        return 0, np.array(numbers, dtype=np.int64)

    def _net_arrivals(self, rows: list[int], items: list[int]) -> list[tuple[Ints, int]]:
        """Return the terms of the pods that leave the nodes less those that come."""
        both = ((self._come, -1), (self._leave, 1))
        return [(of[np.ix_(rows, items)].ravel(), sign) for of, sign in both]

    @cached_property
    def _rows_by_site(self) -> dict[str, list[int]]:
        """Return the rows of `_nodes` by site."""
        found: dict[str, list[int]] = {}
        for row, node in enumerate(self._nodes.tolist()):
            position = int(self._problem.edge.positions[node])
            found.setdefault(site_at(self._sites, position), []).append(row)
        return found

    def _weigh(self, gains: Gains, workload: Workload, lowest: int, steps: int) -> tuple[int, Ints]:
        if workload in self._margins:
            return 0, _weigh_margins(gains, workload, self._margins[workload])
        known = self._near.get(workload)
        if known is None:
            return super()._weigh(gains, workload, lowest, steps)
        less, more = _find_slopes(gains, workload, known.demand)
        slopes = np.where((known.present > 0) | (known.parts < 0), less, more)
        weights = np.rint(known.parts * slopes).astype(np.int64)
        return -int(weights @ known.present), weights


def _weigh_margins(gains: Gains, workload: Workload, changes: list[tuple[str, int]]) -> Ints:
    """Return the QoS that each further pod at a site gains, and that each pod less loses, as if the
    other sites stayed unchanged. If no pod is outside the edge, the pod that comes leaves the site
    that loses least.
    """
    share = gains.shares[workload]

    def gain(after: Share, step: int, site: str) -> int:
        before = after.add(step - (1 if step > 0 else -1), site)
        return gains.of_share(workload, after.add(step, site)) - gains.of_share(workload, before)

    losses = [(gain(share, -1, site), site) for site, step in changes if step == -1]
    left = share
    if share.edge == share.total and losses:
        left = share.add(-1, max(losses)[1])
    weights = [gain(left if step > 0 else share, step, site) for site, step in changes]
    return np.array(weights, dtype=np.int64)


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
    """Yield the best migrations of the problem, best first, in groups that share no edge node;
    none without a solver.
    """
    solver = problem.bounds.solver
    if solver is None or not problem.items:
        return
    made, tries = SiteProgramme(problem, sites), 0
    levels = problem.levels
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


def _maximise(
    made: SiteProgramme, problem: EdgeProblem, levels: Sequence[int], solver: Solver
) -> tuple[Ints, bool]:
    """Return the values with the greatest benefit less the price, by priority level, and True
    unless the solver ran out of time; zeros if it found none.
    """
    programme, price = made.programme(levels[0]), problem.price
    values, ended = np.zeros(made.size, dtype=np.int64), True
    for level in levels:
        weights, _ = made.gain_weights(problem.worths, level, price)
        solved = solver.maximise(programme, weights, problem.bounds.deadline.part(_PART))
        if solved.values is None or not programme.allows(solved.values):
            return values, False
        values, price, ended = solved.values, 0, ended and solved.status is Status.OPTIMAL
        programme = programme.at_least(weights, int(weights @ values))
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

"""Capacity packing of the whole cluster, for pods that no node accepts.

After "Optimising Kubernetes pod placement with constraint programming", with plans without gaps
where the paper evicts first, and with edge shares. Most pods by priority; then the greatest QoS;
then the fewest evictions and migrations. A result counts only if it places more pods of some
priority, and no fewer of any higher one.
"""

from collections.abc import Container, Iterable, Iterator, Mapping

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import Pod, PodClass, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.migration_graph import connect_nodes
from kubedsm.optimizer.moving.movable import Movable, default_movable, reject_capped
from kubedsm.optimizer.moving.suggestion import Leg, Move, Moves, Reason, count_disruptions
from kubedsm.optimizer.packing.packing_search import Search
from kubedsm.optimizer.packing.phases import PLACED, Form, GoalOrder, Phases, Weighing
from kubedsm.optimizer.packing.plan import Plan, Refused, count_loads_after, make_plan, trim_plan
from kubedsm.optimizer.packing.problem import Problem
from kubedsm.optimizer.programming.in_order import Certificate, Found
from kubedsm.optimizer.programming.programme import Solver
from kubedsm.plugins.class_verdicts import open_nodes


@attrs.frozen(slots=True)
class Part:
    """Independent part of a packing."""

    legs: tuple[Leg, ...]
    awaited: tuple[Move, ...]
    evicted: tuple[Pod, ...]

    @property
    def disruptions(self) -> int:
        """Number of times a pod is disrupted."""
        return len(self.legs) + len(self.evicted)


def split_parts(
    legs: Iterable[Leg], awaited: Iterable[Move], evicted: Iterable[Pod]
) -> Iterator[Part]:
    """Yield the parts: no two touch the same node, or wait for each other's legs."""
    legs, awaited, evicted = tuple(legs), tuple(awaited), tuple(evicted)
    by_name = {leg.name: leg for leg in legs}
    linked = [
        *([leg.source, leg.target, *(by_name[name].source for name in leg.needs)] for leg in legs),
        *([move.target] for move in awaited),
        *([pod.node_name] for pod in evicted if pod.node_name is not None),
    ]
    for nodes in connect_nodes(linked):
        yield Part(
            tuple(leg for leg in legs if leg.source in nodes),
            tuple(move for move in awaited if move.target in nodes),
            tuple(pod for pod in evicted if pod.node_name in nodes),
        )


def find_stuck(snapshot: Snapshot, refused: Container[Uid]) -> frozenset[Uid]:
    """Return the refused pods for which capacity exists, but fragmented.

    That is if an open node would hold the pod empty, and the free capacity of all nodes together
    suffices: migrations do not increase it.
    """
    waiting = snapshot.schedulable(snapshot.pods.values())
    waiting = [pod for pod in waiting if pod.uid in refused]
    helped = {c for c in {pod.pod_class for pod in waiting} if _has_total_capacity(snapshot, c)}
    return frozenset(pod.uid for pod in waiting if pod.pod_class in helped)


def _has_total_capacity(snapshot: Snapshot, pod_class: PodClass) -> bool:
    index, room = snapshot.index, snapshot.room
    asked = [(name, amount) for name, amount in pod_class.requests.items() if amount]
    large = open_nodes(pod_class, index) & ~index.tierless
    for name, amount in asked:
        large &= index.size(name) >= amount
    if not large.any():
        return False
    return all(
        # As floats: integer sums may overflow.
        np.maximum(room.column(name)[~index.tierless], 0).sum(dtype=np.float64) >= amount
        for name, amount in asked
    )


#: Parts of the remaining time for small steps, and for the search before the solver.
_STEPPING, _SEARCHING = 0.2, 0.4
#: Attempts under rules between pods.
_TRIES, _EVEN = 4, 0.5


@attrs.frozen(slots=True)
class Packed:
    """Plan of a packing; empty unless it places more pods.

    Evicted pods go first; then the legs, in any order in which each comes after its needs; then the
    awaited pods come.
    """

    #: placed pods of ours by priority, of those that are movable or pending; the highest
    #: priority first
    before: Mapping[int, int]
    after: Mapping[int, int]
    moves: Moves = ()
    legs: tuple[Leg, ...] = ()
    awaited: Moves = ()
    evicted: tuple[Pod, ...] = ()
    #: optimality of each goal, with or without gaps
    certificates: tuple[Certificate, ...] = ()

    @property
    def proven(self) -> bool:
        """True if no better packing exists in any respect."""
        return all(certificate.proven for certificate in self.certificates)

    @property
    def placed_proven(self) -> bool:
        """True if no packing places more pods."""
        goals = (each for each in self.certificates if each.goal == PLACED)
        return all(certificate.proven for certificate in goals)

    @property
    def better(self) -> bool:
        """True if there is anything to do."""
        return bool(self.awaited)


def pack_cluster(
    snapshot: Snapshot,
    qos_targets: QosTargets,
    objective: Objective,
    bounds: Bounds,
    movable: Movable,
    *,
    tier_share: float = 0.6,
    allow_evictions: bool = False,
    gaps: bool = False,
    weighing: Weighing = "keep",
    order: GoalOrder = "placed first",
) -> Packed:
    """Return what to do to place more of the pending pods.

    movable: the reason why a pod must stay, or None; `default_movable` applies always.
    allow_evictions: pods of lower priority may be evicted for pending pods of a higher one. gaps:
    all pods that migrate leave before any comes, as in the paper; the plan has no legs.
    """
    forbidden = default_movable(snapshot)

    def reason_to_stay(pod: Pod) -> Reason | None:
        return forbidden(pod) or movable(pod)

    gains = Gains.of(snapshot, qos_targets, objective)
    # Cloud pods of capped workloads stay on their nodes.
    stays = reject_capped(snapshot, qos_targets, reason_to_stay)
    problem = Problem.of(snapshot, stays, gains, allow_evictions=allow_evictions)
    problem = attrs.evolve(problem, evict_rather=weighing == "evict")
    form = Form(tier_share, weighing, order)
    phases = Phases(problem, gains, form)
    choice = _Choice(problem, phases, gaps=gaps)
    known: list[Found] = []
    limited, tries = problem, _TRIES if problem.rules is not None else 1
    for left in reversed(range(tries if any(problem.waiting) else 0)):
        deadline = bounds.deadline.part(_EVEN if left else 1.0)
        model = phases if limited is problem else Phases(limited, gains, form)
        refused = _search_loads(limited, model, choice, known, bounds.solver, deadline)
        if not refused:
            break
        limited = limited.without(refused)
    # Certificates of the unrestricted problem.
    found = known[0] if known else None
    plan = choice.trim(bounds.deadline)
    return Packed(
        _by_priority(problem, problem.placed(problem.old)),
        _by_priority(problem, problem.placed(choice.loads)),
        plan.moves,
        plan.legs,
        plan.awaited,
        plan.evicted,
        phases.certificates(choice.loads, found),
    )


def _search_loads(
    problem: Problem,
    phases: Phases,
    choice: "_Choice",
    known: list[Found],
    solver: Solver | None,
    deadline: Deadline,
) -> Refused:
    """Offer results of the search and the solver; return what rules between pods reject."""
    search = Search(problem)
    search.start(choice.loads)
    search.improve_by_steps(deadline.part(_STEPPING), choice.carries_out)
    search.improve(deadline.part(_SEARCHING))
    refused = choice.offer(search.loads)
    if solver is None:
        return refused
    loads, found = phases.solve_goals(solver, deadline, search.loads)
    known.append(found)
    return refused + choice.offer(loads)


class _Choice:
    """Best plan so far."""

    def __init__(self, problem: Problem, phases: Phases, *, gaps: bool) -> None:
        self._problem, self._phases, self._gaps = problem, phases, gaps
        self.plan, self.loads = Plan(), problem.old

    def carries_out(self, loads: Ints) -> bool:
        """Offer loads; return whether their plan places as many pods as the loads."""
        plan = self._offer_plan(loads)
        after = count_loads_after(self._problem, plan)
        return self._problem.placed(after) >= self._problem.placed(loads)

    def offer(self, loads: Ints) -> Refused:
        """Take the plan of these loads if it is better; return its rejections."""
        return self._offer_plan(loads).refused

    def _offer_plan(self, loads: Ints) -> Plan:
        """Return the plan; take it if it places more pods than now, and is the best such plan."""
        problem, plan = self._problem, make_plan(self._problem, loads, gaps=self._gaps)
        after = count_loads_after(problem, plan)
        if problem.placed(after) > problem.placed(problem.old) and (
            self._rank_plan(plan, after) > self._rank_plan(self.plan, self.loads)
        ):
            self.plan, self.loads = plan, after
        return plan

    def trim(self, deadline: Deadline) -> Plan:
        """Return the best plan without needless disruptions."""
        if not self._gaps:
            self.plan = trim_plan(self._problem, self.plan, deadline)
            self.loads = count_loads_after(self._problem, self.plan)
        return self.plan

    def _rank_plan(self, plan: Plan, after: Ints) -> tuple[tuple[int, ...], int]:
        return self._phases.standing(after), -count_disruptions(plan.moves)


def _by_priority(problem: Problem, placed: Iterable[int]) -> dict[int, int]:
    return dict(zip(problem.priorities, placed, strict=True))

"""Capacity packing: migration plans for the whole cluster that place unschedulable pods.

After "Optimising Kubernetes pod placement with constraint programming", extended by edge shares and
by plans without gaps (the paper evicts first). Lexicographic objective: most placed pods by
priority, greatest QoS, fewest evictions, fewest migrations. A result is accepted only if more pods
of some priority are placed, and no fewer of any higher priority. A migrating pod temporarily
occupies two nodes. Therefore each migration needs available capacity on the target, and cycles are
broken by stopovers.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial

import attrs
import numpy as np

from kubedsm.model.deadline import Deadline
from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Tier, Uid, serving_order
from kubedsm.model.node_index import Column
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Ints
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.moving.edge_items import list_by_node
from kubedsm.optimizer.moving.migration_graph import (
    Order,
    break_cycles_greedily,
    connect_nodes,
    find_needs,
)
from kubedsm.optimizer.moving.movable import Movable, default_movable, join_movable, reject_capped
from kubedsm.optimizer.moving.move_order import drop_rejected
from kubedsm.optimizer.moving.suggestion import (
    Leg,
    Move,
    MoveKind,
    Moves,
    count_disruptions,
)
from kubedsm.optimizer.packing.packing_search import Search
from kubedsm.optimizer.packing.phases import PLACED, Phases
from kubedsm.optimizer.packing.problem import ClusterProblem
from kubedsm.optimizer.programming.in_order import Certificate, Found
from kubedsm.optimizer.programming.programme import Solver
from kubedsm.plugins.plugins import open_nodes

#: Placements that constraints between pods rejected.
Refused = tuple[tuple[Pod, NodeName], ...]


#: Steps of work to check a disruption of a plan.
_DISRUPTION_STEPS = 30_000


@attrs.frozen(eq=False)
class Plan:
    """Packing plan: evictions first, then migration steps in any order that respects their
    dependencies, then placement of pending pods.
    """

    moves: Moves = ()
    legs: tuple[Leg, ...] = ()
    awaited: Moves = ()
    evicted: tuple[Pod, ...] = ()
    refused: Refused = ()

    @property
    def disruptions(self) -> int:
        """Number of evictions and migration steps (legs)."""
        return len(self.legs) + len(self.evicted)

    def split(self) -> "Iterator[Plan]":
        """Divide the plan into independent parts, without common nodes or dependent steps."""
        by_name = {leg.name: leg for leg in self.legs}
        linked = [
            *(
                [leg.source, leg.target, *(by_name[name].source for name in leg.needs)]
                for leg in self.legs
            ),
            *([move.target] for move in self.awaited),
            *([pod.node_name] for pod in self.evicted if pod.node_name is not None),
        ]
        for nodes in connect_nodes(linked):
            yield Plan(
                tuple(move for move in self.moves if move.source in nodes),
                tuple(leg for leg in self.legs if leg.source in nodes),
                tuple(move for move in self.awaited if move.target in nodes),
                tuple(pod for pod in self.evicted if pod.node_name in nodes),
            )


def make_plan(problem: ClusterProblem, loads: Ints, *, gaps: bool) -> Plan:
    """Return the feasible part of a packing plan from the current placement to the given pod counts
    by node.

    gaps: all migrating pods leave before any replacement starts.
    """
    moves, awaited, evicted = _assign_pods(problem, loads)
    if gaps:
        return Plan(moves, (), awaited, evicted)
    return _make_feasible(problem, moves, awaited, evicted)


def trim_plan(problem: ClusterProblem, plan: Plan, deadline: Deadline) -> Plan:
    """Remove evictions and migrations from a packing plan that release no capacity for pending
    pods, until the deadline.
    """
    gone = (*plan.evicted, *(move.pod for move in plan.moves))
    room, needless = problem.room_after(count_loads_after(problem, plan)), list[Uid]()
    for pod in gone:
        row, asks = problem.row_of[pod.node_name], problem.asks_of(pod)
        if (room[row] >= asks).all():
            room[row] -= asks
            needless.append(pod.uid)
    fewer = _drop_disruptions(problem, plan, needless)
    if fewer is not None:
        return fewer
    for uid in needless:
        if deadline.spend(_DISRUPTION_STEPS * len(gone)):
            break
        plan = _drop_disruptions(problem, plan, {uid}) or plan
    return plan


def _drop_disruptions(problem: ClusterProblem, plan: Plan, gone: Container[Uid]) -> Plan | None:
    """Return the plan without the given disruptions; None if placements depend on them."""
    moves = tuple(move for move in plan.moves if move.pod.uid not in gone)
    evicted = tuple(pod for pod in plan.evicted if pod.uid not in gone)
    fewer = _make_feasible(problem, moves, plan.awaited, evicted)
    same = len(fewer.moves) == len(moves) and len(fewer.awaited) == len(plan.awaited)
    return fewer if same else None


def _make_feasible(
    problem: ClusterProblem, moves: Moves, awaited: Moves, evicted: tuple[Pod, ...]
) -> Plan:
    """Return the feasible part of the plan, by available capacity and migration order."""
    refused: Refused = ()
    gone = [(pod, pod.node_name, -1) for pod in evicted if pod.node_name is not None]
    free = problem.snapshot.room.after(gone).free
    room = problem.room_after(count_loads_after(problem, Plan(evicted=evicted)))
    order = _order_startable(problem, moves, free, room)
    before = count_loads_after(problem, Plan(order.moves, evicted=evicted))
    came = _place_awaited(problem, awaited, problem.room_after(before))
    if problem.rules is not None:
        feasibility = problem.rules.feasibility.after(gone)
        order, impasses = drop_rejected(feasibility, (*order.moves, *came), free)
        refused = tuple((each.move.pod, each.move.target) for each in impasses)
        came = tuple(move for move in order.moves if move.source is None)
    made = tuple(move for move in order.moves if move.source is not None)
    return Plan(made, order.legs(made), came, evicted, refused)


def count_loads_after(problem: ClusterProblem, plan: Plan) -> Ints:
    """Return the pod counts after executing the packing plan, shape (nodes, groups of
    interchangeable pods).
    """
    came = ((move.pod, move.target) for move in (*plan.moves, *plan.awaited))
    gone = (*plan.evicted, *(move.pod for move in plan.moves))
    left = problem.count_loads((pod, pod.node_name) for pod in gone)
    return problem.old + problem.count_loads(came) - left


def _assign_pods(problem: ClusterProblem, loads: Ints) -> tuple[Moves, Moves, tuple[Pod, ...]]:
    """Assign pods to the loads; return migrating pods, placed pending pods, and unplaced pods."""
    moves: list[Move] = []
    awaited: list[Move] = []
    evicted: list[Pod] = []
    tier_of = {node.name: node.tier for node in problem.nodes}
    changes = loads - problem.old
    room = problem.free - problem.old @ problem.requests
    moving = problem.count_kept(loads) - np.minimum(loads, problem.old).sum(axis=0)
    for kind in np.flatnonzero((changes != 0).any(axis=0)).tolist():
        column, number = changes[:, kind], int(moving[kind])
        running = list_by_node(problem.kinds[kind].pods)
        leaving = [
            pod
            for row in np.flatnonzero(column < 0).tolist()
            for pod in running[problem.nodes[row].name][int(column[row]) :]
        ]
        places = np.repeat(np.arange(len(column)), np.maximum(column, 0)).tolist()
        # A migrating pod needs capacity next to its old one: roomiest nodes first.
        places.sort(key=lambda row: (-int(room[row].min()), row))
        names = [problem.nodes[row].name for row in places]
        for pod, name in zip(leaving[:number], names, strict=False):
            source = pod.node_name
            if source is not None:
                way = MoveKind.between(tier_of[source] or Tier.CLOUD, tier_of[name] or Tier.CLOUD)
                moves.append(Move(pod, source, name, way))
        evicted += leaving[number:]
        coming = zip(problem.waiting[kind], names[number:], strict=False)
        awaited += [Move(pod, None, name, None) for pod, name in coming]
    return tuple(moves), tuple(awaited), tuple(evicted)


def _order_startable(
    problem: ClusterProblem, moves: Moves, free: Mapping[NodeName, Resources], room: Ints
) -> Order:
    """Return the migrations that can be executed, in execution order, with stopovers where
    necessary.

    room: the free capacity as an array, nodes x resources.
    """
    while True:
        needs = find_needs(moves, free)
        spare = room.copy()
        for move in moves:
            spare[problem.row_of[move.target]] -= problem.asks_of(move.pod)
        find_stopover = partial(_reserve_stopover, problem, spare)
        stopovers, startable = break_cycles_greedily(moves, needs, find_stopover)
        if len(startable) == len(moves):
            ordered = (attrs.evolve(m, stopover=stopovers.get(m.pod.uid)) for m in moves)
            return Order(tuple(ordered), needs)
        moves = tuple(move for move in moves if move.pod.uid in startable)


def _reserve_stopover(problem: ClusterProblem, spare: Ints, move: Move) -> NodeName | None:
    """Reserve stopover capacity on the node with the most spare capacity; return the node.

    spare: shape (nodes, resources), capacity available next to all arriving pods.
    """
    fitting = problem.list_fitting(move.pod, spare)
    fitting = [row for row in fitting if problem.nodes[row].name not in (move.source, move.target)]
    if not fitting:
        return None
    row = max(fitting, key=lambda row: (spare[row].min(), -row))
    spare[row] -= problem.asks_of(move.pod)
    return problem.nodes[row].name


def _place_awaited(problem: ClusterProblem, awaited: Moves, room: Ints) -> Moves:
    """Place pending pods in the available capacity, first as intended by the packing."""
    meant = {move.pod.uid: problem.row_of[move.target] for move in awaited}
    waiting = [pod for of_kind in problem.waiting for pod in of_kind]
    waiting.sort(
        key=lambda pod: (-pod.pod_class.priority, pod.uid not in meant, *serving_order(pod))
    )
    found: list[Move] = []
    for pod in waiting:
        fitting = problem.list_fitting(pod, room)
        if not fitting:
            continue
        row = meant.get(pod.uid)
        if row not in fitting:
            row = min(fitting, key=lambda at: (int(room[at].min()), at))
        found.append(Move(pod, None, problem.nodes[row].name, None))
        room[row] -= problem.asks_of(pod)
    return tuple(found)


def find_stuck(snapshot: Snapshot, refused: Container[Uid]) -> frozenset[Uid]:
    """Return the unschedulable pods for which capacity exists, but fragmented over nodes.

    An otherwise empty feasible node would accept the pod, and the available capacity of all
    feasible nodes together is sufficient. Migrations do not increase this sum.
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
#: Attempts under constraints between pods.
_TRIES, _EVEN = 4, 0.5


@attrs.frozen(eq=False, kw_only=True)
class Packed(Plan):
    """Result of capacity packing: the plan, empty unless more pods are placed, and its proof."""

    #: placed pods of ours by priority, of those that are movable or pending; the highest
    #: priority first
    before: Mapping[int, int]
    after: Mapping[int, int]
    #: optimality of each goal, with or without gaps
    certificates: tuple[Certificate, ...] = ()
    #: the time limit passed before the work limit
    out_of_time: bool = False

    @property
    def proven(self) -> bool:
        """True if the packing is proven optimal in every goal."""
        return all(certificate.proven for certificate in self.certificates)

    @property
    def placed_proven(self) -> bool:
        """True if the packing is proven to place the greatest possible number of pods."""
        goals = (each for each in self.certificates if each.goal == PLACED)
        return all(certificate.proven for certificate in goals)

    @property
    def rank(self) -> tuple[int, ...]:
        """Number of placed pods by priority, the highest first: the greatest is the best."""
        return tuple(number for _, number in sorted(self.after.items(), reverse=True))

    @property
    def better(self) -> bool:
        """True if the packing changes anything: contains a placement, migration or eviction."""
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
    sites: Column | None = None,
) -> Packed:
    """Return a plan of migrations and evictions that makes more pending pods schedulable.

    movable: returns why a pod must not be migrated, or None; `default_movable` always applies.
    allow_evictions: permit evictions in favour of pending pods of a higher priority.
    gaps: all migrating pods leave before any replacement starts, as in the paper; no legs.
    sites: site of each edge node. Running pods of workloads counted by site stay at their site.
    """
    reason_to_stay = join_movable(default_movable(snapshot), movable)
    gains = Gains.of(snapshot, qos_targets, objective)
    # Cloud pods of capped workloads stay on their nodes.
    stays = reject_capped(snapshot, qos_targets, reason_to_stay)
    problem = ClusterProblem.pose(
        snapshot, stays, gains, allow_evictions=allow_evictions, sites=sites
    )
    phases = Phases(problem, gains, tier_share)
    choice = _Choice(problem, phases, gaps=gaps)
    known: list[Found] = []
    limited, tries = problem, _TRIES if problem.rules is not None else 1
    for left in reversed(range(tries if any(problem.waiting) else 0)):
        deadline = bounds.deadline.part(_EVEN if left else 1.0)
        model = phases if limited is problem else Phases(limited, gains, tier_share)
        refused = _search_loads(limited, model, choice, known, bounds.solver, deadline)
        if not refused:
            break
        limited = limited.without(refused)
    # Certificates of the unrestricted problem.
    found = known[0] if known else None
    plan = choice.trim(bounds.deadline)
    return Packed(
        *(plan.moves, plan.legs, plan.awaited, plan.evicted),
        before=_by_priority(problem, problem.count_placed(problem.old)),
        after=_by_priority(problem, problem.count_placed(choice.loads)),
        certificates=phases.certificates(choice.loads, found),
    )


def _search_loads(
    problem: ClusterProblem,
    phases: Phases,
    choice: "_Choice",
    known: list[Found],
    solver: Solver | None,
    deadline: Deadline,
) -> Refused:
    """Improve the plan by local search and solver; return placements rejected by constraints."""
    search = Search(problem, choice.loads)
    search.improve_by_steps(deadline.part(_STEPPING), choice.carries_out)
    search.improve(deadline.part(_SEARCHING))
    refused = choice.offer(search.loads).refused
    if solver is None:
        return refused
    loads, found = phases.solve_goals(solver, deadline, search.loads)
    known.append(found)
    return refused + choice.offer(loads).refused


class _Choice:
    """Best packing plan found so far, with its loads (pod counts, nodes x kinds)."""

    def __init__(self, problem: ClusterProblem, phases: Phases, *, gaps: bool) -> None:
        self._problem, self._phases, self._gaps = problem, phases, gaps
        self.plan, self.loads = Plan(), problem.old

    def carries_out(self, loads: Ints) -> bool:
        """Convert the loads (pod counts, nodes x kinds) to a plan, kept if best; return True if the
        plan places as many pods as the loads.
        """
        plan = self.offer(loads)
        after = count_loads_after(self._problem, plan)
        return self._problem.count_placed(after) >= self._problem.count_placed(loads)

    def offer(self, loads: Ints) -> Plan:
        """Return the plan of the loads, recorded if it is the best plan placing more pods."""
        problem, plan = self._problem, make_plan(self._problem, loads, gaps=self._gaps)
        after = count_loads_after(problem, plan)
        if problem.count_placed(after) > problem.count_placed(problem.old) and (
            self._rank_plan(plan, after) > self._rank_plan(self.plan, self.loads)
        ):
            self.plan, self.loads = plan, after
        return plan

    def trim(self, deadline: Deadline) -> Plan:
        """Return the best packing plan without unnecessary evictions and migrations."""
        if not self._gaps:
            self.plan = trim_plan(self._problem, self.plan, deadline)
            self.loads = count_loads_after(self._problem, self.plan)
        return self.plan

    def _rank_plan(self, plan: Plan, after: Ints) -> tuple[tuple[int, ...], int]:
        return self._phases.standing(after), -count_disruptions(plan.moves)


def _by_priority(problem: ClusterProblem, placed: Iterable[int]) -> dict[int, int]:
    return dict(zip(problem.priorities, placed, strict=True))

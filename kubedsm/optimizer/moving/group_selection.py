"""Selection of migration groups by benefit, and the reasons for the best that were left out."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, reduce

import attrs

from kubedsm.model.model import (
    NodeName,
    Pod,
    PodClass,
    Resources,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import SCALE
from kubedsm.objective.gains import LEAST_GAIN, Gain, Gains, leading
from kubedsm.objective.objective import NANO
from kubedsm.objective.qos_targets import is_capped
from kubedsm.optimizer.matching.best_fit import greatest_allocatable, pod_size
from kubedsm.optimizer.moving.edge_items import leaving_turn
from kubedsm.optimizer.moving.edge_problem import EdgeProblem, Proposal
from kubedsm.optimizer.moving.migration_graph import Order, group_migrations
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.move_order import carry_out
from kubedsm.optimizer.moving.suggestion import (
    Cause,
    Move,
    MoveKind,
    Moves,
    NotTaken,
    Reason,
    SuggestLimits,
    count_edge_changes,
    count_legs,
    count_migrations,
    count_stopovers,
    gain_per_disruption,
    is_worthwhile,
    sum_gains,
)
from kubedsm.plugins.feasibility import Feasibility, Rejection
from kubedsm.plugins.fit import NODE_RESOURCES_FIT, too_little
from kubedsm.plugins.plugins import NODE_PLUGINS, rejections

#: Least reduction of fragmentation by a group without QoS gain.
_LEAST_DEFRAGMENTED = SCALE // 100

#: Return the workloads on a single node after migrations.
AtRiskAfter = Callable[[Iterable[Move]], frozenset[Workload]]


@attrs.frozen
class Taken:
    """Groups to carry out, with gains, and groups left out."""

    groups: tuple[Moves, ...] = ()
    #: QoS lost without each group, in points a migration, at the highest
    #: priority that loses
    gains: tuple[float, ...] = ()
    #: order of all proposed migrations
    order: Order = attrs.field(factory=Order)
    #: groups not taken, and why
    left: tuple[tuple[Moves, Reason], ...] = ()

    @property
    def moves(self) -> list[Move]:
        return [
            attrs.evolve(move, group=number, gain=gain)
            for number, (group, gain) in enumerate(zip(self.groups, self.gains, strict=True))
            for move in group
        ]


def select_groups(
    order: Order,
    problem: EdgeProblem,
    at_risk_after: AtRiskAfter,
    *,
    together: bool = False,
) -> Taken:
    """Drop groups, the least worthwhile first, until all remaining are worthwhile.

    One at a time: the benefit of a group depends on the others. together: all migrations are one
    group.
    """
    gains, worths, fragmentation_added = problem.gains, problem.worths, problem.fragmentation_added
    kept = [order.moves] if together else group_migrations(order.moves, order.joined, gains)
    left: list[tuple[Moves, Reason]] = []
    while kept:
        everything = [move for group in kept for move in group]
        whole, all_worth = sum_gains(gains, everything), sum_gains(worths, everything)
        marginal: list[tuple[float, ...]] = []
        refused: list[tuple[tuple[float, ...], int, Reason]] = []
        for at, group in enumerate(kept):
            others = [move for other in kept if other is not group for move in other]
            gain = gain_per_disruption(_gain_lost(whole, sum_gains(gains, others)), group)
            if any(count_edge_changes(group).values()):
                worth_of = _gain_lost(all_worth, sum_gains(worths, others))
                alone = sum_gains(gains, group)
                reason = _explain_gain(leading(gain), alone, worth_of, group, problem)
            else:
                drop = fragmentation_added(others) - fragmentation_added(everything)
                reason = _explain_defragmenting(drop, group, problem.limits)
                if reason is None and at_risk_after(everything) - at_risk_after(others):
                    reason = Cause.LEAVES_ON_ONE_NODE.of()
            marginal.append(gain)
            if reason is not None:
                refused.append((gain, at, reason))
        if not refused:
            each = tuple(map(leading, marginal))
            return Taken(tuple(kept), each, order, tuple(left))
        _, worst, reason = min(refused)
        left.append((kept.pop(worst), reason))
    return Taken(left=tuple(left))


def _gain_lost(whole: Gain, without: Gain) -> Gain:
    return tuple(all_ - less for all_, less in zip(whole, without, strict=True))


def _explain_gain(
    gain: float, alone: Gain, lost: Gain, group: Moves, problem: EdgeProblem
) -> Reason | None:
    if not is_worthwhile(alone, group) or gain <= LEAST_GAIN:
        return Cause.NO_GAIN.of()
    cost = problem.cost(group)
    if problem.price and leading(lost) <= cost:
        return Cause.BELOW_ITS_PRICE.of(leading(lost) / NANO, cost / NANO)
    return None


def _explain_defragmenting(drop: int, group: Moves, limits: SuggestLimits) -> Reason | None:
    if not limits.defragment:
        return Cause.NOT_DEFRAGMENTING.of()
    if drop < _LEAST_DEFRAGMENTED:
        return Cause.TOO_LITTLE_DEFRAGMENTED.of()
    if count_stopovers(group):
        return Cause.NEEDS_A_STOPOVER.of()
    return None


_MOST = 10


@attrs.frozen(eq=False)
class Outcome:
    """Result of a suggestion."""

    snapshot: Snapshot
    problem: EdgeProblem
    found: Proposal
    taken: Taken
    #: whether max_moves was a limit
    counted: bool
    #: free room once the moves are carried out
    free: Mapping[NodeName, Resources]
    _rejections: dict[PodClass, Mapping[NodeName, Rejection]] = attrs.field(factory=dict)

    def rejections(self, pod_class: PodClass) -> Mapping[NodeName, Rejection]:
        """Return why nodes reject such a pod after the migrations, rules between pods aside."""
        if pod_class not in self._rejections:
            moves, room = self.taken.moves, self.snapshot.room
            changed = {name for move in moves for name in (move.source, move.target) if name}
            index, after = self.snapshot.index, room.now(self.free, changed)
            self._rejections[pod_class] = rejections(pod_class, index, after)
        return self._rejections[pod_class]

    @cached_property
    def rules_after(self) -> Feasibility | None:
        """Rules after the migrations; None without rules between pods."""
        rules = self.problem.rules
        return None if rules is None else reduce(carry_out, self.taken.moves, rules.feasibility)


def explain_rest(outcome: Outcome, gains: Gains, movable: Movable) -> tuple[NotTaken, ...]:
    """Return up to ten pods that would add most QoS for their size, and why they stay.

    Pods with equal reasons are named once. Dropped groups and rejected migrations come first.
    """
    taken = outcome.taken
    dropped = [NotTaken(m.pod, reason) for group, reason in taken.left for m in group]
    named = {move.pod.uid for move in taken.moves} | {pod.uid for pod, _ in dropped}
    for impasse in outcome.found.refused:
        pod = impasse.move.pod
        if pod.uid not in named:
            named.add(pod.uid)
            dropped.append(NotTaken(pod, impasse.reason))
    others: list[NotTaken] = []
    held = {pod.uid for pod in _list_fixed(outcome) if pod.node_name is not None}
    for alike in _next_best(outcome, gains, named):
        left = _MOST - len(dropped) - len(others)
        if left <= 0:
            break
        first: dict[tuple[Workload, PodClass, Reason | None], Pod] = {}
        for pod in sorted(alike, key=leaving_turn):
            said = movable(pod) if pod.uid in held else None
            if said is None and is_capped(outcome.problem.worths.qos_targets, pod.workload):
                said = Cause.EDGE_SLOWER.of()
            first.setdefault((pod.workload, pod.pod_class, said), pod)
        ranked = sorted(first.items(), key=lambda entry: str(entry[1]))[:left]
        others += [NotTaken(pod, key[-1] or _explain_pod(outcome, pod)) for key, pod in ranked]
    return (*dropped, *others)[:_MOST]


def _next_best(outcome: Outcome, gains: Gains, named: Container[Uid]) -> Iterator[list[Pod]]:
    """Yield lists of unnamed pods that would add QoS, greatest gain for their size first."""
    changes = count_edge_changes(outcome.taken.moves)
    greatest = greatest_allocatable(outcome.problem.nodes)

    more: dict[Workload, int] = {}
    for workload in gains.shares:
        done = changes.get(workload, 0)
        gain = gains.of_workload(workload, done + 1) - gains.of_workload(workload, done)
        if gain > 0:
            more[workload] = gain
    groups: dict[tuple[Workload, PodClass], list[Pod]] = {}
    movable = (pod for item in outcome.problem.items for pod in item.in_cloud)
    for pod in (*movable, *_list_fixed(outcome)):
        if pod.workload in more:
            groups.setdefault((pod.workload, pod.pod_class), []).append(pod)
    useful: dict[tuple[int, float], list[Pod]] = {}
    for (workload, pod_class), pods in groups.items():
        score = gains.level[workload], -more[workload] / pod_size(pod_class.requests, greatest)
        useful.setdefault(score, []).extend(pods)
    for score in sorted(useful):
        yield [pod for pod in useful[score] if pod.uid not in named]


def _list_fixed(outcome: Outcome) -> Iterator[Pod]:
    """Yield our fixed pods off the edge that count for QoS."""
    problem, placed = outcome.problem, outcome.snapshot.placed
    for pod in problem.others:
        if pod.counts_for_qos and placed.get(pod.uid) not in problem.rows:
            yield pod


def _explain_pod(outcome: Outcome, pod: Pod) -> Reason:
    refused = _list_rejections(outcome, pod)
    words = ", ".join(sorted({reason for rejected in refused for reason in rejected.reasons}))
    rules = {rejected.rule for rejected in refused}
    whatever_moves = _explain_always(outcome, pod, refused, rules, words)
    return whatever_moves or _explain_now(outcome, pod, refused, rules, words)


def _explain_always(
    outcome: Outcome, pod: Pod, refused: Sequence[Rejection], rules: AbstractSet[str], words: str
) -> Reason | None:
    """Return why no migration could bring the pod to the edge; None if one could."""
    nodes = outcome.problem.nodes
    if pod.gated:
        return Cause.GATED.of()
    if not nodes:
        return Cause.NO_EDGE_NODE.of()
    if len(refused) < len(nodes):
        return None
    if NODE_RESOURCES_FIT.name not in rules:
        return Cause.NO_NODE_TAKES_IT.of(words)
    if all(too_little(pod.requests, node.allocatable) for node in nodes):
        return Cause.NO_NODE_IS_LARGE_ENOUGH.of()
    return None


def _explain_now(
    outcome: Outcome, pod: Pod, refused: Sequence[Rejection], rules: AbstractSet[str], words: str
) -> Reason:
    nodes, limits = outcome.problem.nodes, outcome.problem.limits
    moves = outcome.taken.moves
    price = limits.price if pod.node_name is not None else 0.0
    if price:
        worth = _benefit_of_pod(outcome, pod.workload)
        if worth <= price:
            beyond = Cause.TARGET_MET.of()
            return Cause.BELOW_PRICE_ALONE.of(worth, price) if worth else beyond
    if outcome.counted and count_legs(moves) >= limits.max_moves:
        return Cause.MOST_MOVES.of(limits.max_moves)
    fetched = sum(move.kind is MoveKind.CLOUD_TO_EDGE for move in moves)
    if pod.node_name is not None and fetched >= limits.max_cloud_to_edge:
        return Cause.MOST_FROM_THE_CLOUD.of(limits.max_cloud_to_edge)
    if len(refused) < len(nodes):
        return _not_picked(outcome, pod)
    of_nodes = rules <= {plugin.name for plugin in NODE_PLUGINS}
    short = "no edge node has room for it" if of_nodes else f"no edge node takes it ({words})"
    if _cloud_is_full(outcome):
        return Cause.NO_ROOM_IN_THE_CLOUD.of(short)
    if count_migrations(moves) and outcome.counted:
        return Cause.NO_MORE_MOVES.of(short, limits.max_moves - count_legs(moves))
    return Cause.NO_MOVES.of(short)


def _benefit_of_pod(outcome: Outcome, workload: Workload) -> float:
    """Return the benefit of another pod of the workload on the edge, in pod-seconds."""
    done = count_edge_changes(outcome.taken.moves).get(workload, 0)
    of_workload = outcome.problem.worths.of_workload
    return (of_workload(workload, done + 1) - of_workload(workload, done)) / NANO


def _not_picked(outcome: Outcome, pod: Pod) -> Reason:
    if pod.node_name is None:
        return Cause.ROOM_ANYWAY.of()
    if not outcome.counted:
        return Cause.NOT_PICKED.of()
    return (Cause.WORTH_NOTHING if outcome.found.proven else Cause.NOT_FOUND).of()


def _list_rejections(outcome: Outcome, pod: Pod) -> list[Rejection]:
    """Return the rejections of edge nodes after the migrations."""
    after = outcome.rules_after
    if after is None:
        found = outcome.rejections(pod.pod_class)
    else:
        alone = after if pod.node_name is None else after.without_pod(pod.uid)
        found = alone.rejections(pod)
    return [rejected for name, rejected in found.items() if name in outcome.problem.rows]


def _cloud_is_full(outcome: Outcome) -> bool:
    """Return whether the cloud has capacity for no movable edge pod."""
    cloud = outcome.problem.cloud
    kinds = {item.cloud_kind for item in outcome.problem.items if item.on_edge}
    return bool(kinds) and not any(kind is not None and cloud.takes(kind) for kind in kinds)

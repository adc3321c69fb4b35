"""The suggester: every period, look for migrations worth their disruption, and have them done."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import structlog

from kubedsm.clock import Clock, deadline_in
from kubedsm.configuration.settings import Configuration
from kubedsm.core.goals.gains import Gains, leading
from kubedsm.core.moving.move_order import stopover
from kubedsm.core.moving.suggestion import Move, MoveKind, Suggestion
from kubedsm.core.packing.best_fit import greatest_allocatable, size
from kubedsm.core.policies.policy import MigratingPolicy
from kubedsm.core.rules.feasibility import Feasibility
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.model import NodeName, Pod, Share, Snapshot, Tier, Uid, Workload
from kubedsm.runtime.event_recorder import EventRecorder
from kubedsm.runtime.moves import Group
from kubedsm.runtime.placement_manager import PlacementManager
from kubedsm.runtime.scheduling_queue import SchedulingQueue
from kubedsm.runtime.step_checks import CLAIM_NOT_SHARED
from kubedsm.why.entries import MoveChoice, planned, proposed
from kubedsm.why.record import DecisionRecord
from plans.migration import MoveMode, MoveOrder
from plans.ordering import Ordered, ordered

log = structlog.get_logger()

#: Times as long as a suggestion took, nobody waits for the next: new pods are placed meanwhile.
REST = 9


@attrs.define
class Suggester:
    """Thinks when all is quiet: synced, no batch open or being bound, no plan under way.

    Plans that take longer than usual are not waited for, and their workloads are left alone.
    """

    mirror: ClusterMirror
    queue: SchedulingQueue
    manager: PlacementManager
    recorder: EventRecorder
    record: DecisionRecord
    policy: MigratingPolicy
    configuration: Configuration
    clock: Clock
    synced: asyncio.Event
    #: the pause switch: whether no move may be begun now
    paused: Callable[[], Awaitable[bool]]
    #: whether room is being made already, by preemption
    preempting: Callable[[], bool]
    _plans: "itertools.count[int]" = attrs.field(factory=lambda: itertools.count(1), init=False)
    #: the mirror's changes when nothing was worth moving, and nothing rested
    _nothing_at: int | None = attrs.field(default=None, init=False)
    _resters: int = attrs.field(default=0, init=False)

    async def run(self) -> None:
        await self.synced.wait()
        settings, thought = self.configuration.suggester, 0.0
        while settings.mode != "off":
            await self.clock.sleep(max(settings.period, REST * thought))
            if self._all_is_quiet() and not await self.paused():
                started = self.clock.monotonic()
                self._suggest()
                thought = self.clock.monotonic() - started

    def _all_is_quiet(self) -> bool:
        return (
            len(self.queue) == 0
            and self.manager.at_rest()
            and not self.preempting()
            and self.mirror.changes != self._nothing_at
        )

    def _suggest(self) -> None:
        if not self._all_is_quiet():
            return  # while the switch was looked at
        snapshot = self.mirror.snapshot()
        self._resters = 0
        deadline = deadline_in(self.configuration.suggester.budget, self.clock)
        suggestion = self.policy.suggest(snapshot, self._resting, deadline)
        if not suggestion.moves:
            self._nothing_at = self.mirror.changes if self._resters == 0 else None
            return
        log.info(
            "suggestion",
            moves=[f"{m.pod} {m.source} -> {m.target}" for m in suggestion.moves],
            proven=suggestion.proven,
            mode=self.configuration.suggester.mode,
        )
        if self.configuration.suggester.mode == "suggest":
            self.record.suggestion(snapshot, suggestion, [proposed(m) for m in suggestion.moves])
            for move in suggestion.moves:
                self.recorder.proposed(move.pod, proposal(move))
            return
        self.begin(snapshot, suggestion)

    def begin(self, snapshot: Snapshot, suggestion: Suggestion) -> None:
        """Have the moves done, each group that can be carried out as one plan."""
        waiting = [awaited.pod.uid for awaited in suggestion.awaited]
        groups: dict[str, Group] = {}
        choices: list[MoveChoice] = []
        for _, moves in by_group(suggestion):
            plan_id = f"plan-{next(self._plans)}"
            arranged = arrange(plan_id, snapshot, moves, suggestion, self.configuration)
            choices += move_choices(plan_id, moves, arranged)
            if arranged.impossible:
                log.info("group dropped", reason=arranged.impossible)
                continue
            pods = tuple(move.pod for move in moves)
            groups[plan_id] = Group(arranged.orders, pods, self._worth(moves, waiting))
        self.record.suggestion(snapshot, suggestion, choices)
        for plan_id, group in groups.items():
            self.manager.migrate(plan_id, group)

    def _resting(self, pod: Pod) -> str:
        reason = reason_to_stay(pod, self.configuration)
        if reason:
            return reason
        limits = self.manager.move_limits
        if self.manager.follows(pod.uid) or limits.moving(pod.workload):
            self._resters += 1
            return "its workload is being moved"
        resting = limits.resting(pod.workload, self.clock.monotonic())
        self._resters += resting
        return "its workload was moved a moment ago" if resting else ""

    def _worth(self, moves: Sequence[Move], waiting: Sequence[Uid]) -> Callable[[], bool]:
        def worth() -> bool:
            snapshot = self.mirror.snapshot()
            if all(move.kind is MoveKind.EDGE_TO_EDGE for move in moves):
                return True
            if any(uid in snapshot.pods and uid not in snapshot.placed for uid in waiting):
                return True
            policy = self.configuration.policy
            gains = Gains.of(snapshot, policy.promises_in(snapshot), policy.objective)
            after = shares_after(gains.shares, moves)
            changes = {w: share.edge - gains.shares[w].edge for w, share in after.items()}
            return leading(gains.of_changes(changes)) > 0

        return worth


def move_choices(plan_id: str, moves: Sequence[Move], arranged: Ordered) -> list[MoveChoice]:
    """What becomes of the moves of a group, as the record has it."""
    if arranged.impossible:
        return [
            attrs.evolve(proposed(move), outcome="dropped", reason=arranged.impossible)
            for move in moves
        ]
    by_id = {f"{plan_id}/{move.pod}": move for move in moves}
    orders = {order.id: order for order in arranged.orders}
    continued = {order.second_leg_of: order.id for order in arranged.orders if order.second_leg_of}
    choices = []
    for order in arranged.orders:
        move = by_id[continued.get(order.id, order.id)]
        stopover = orders.get(order.second_leg_of)
        source = move.source if stopover is None else NodeName(stopover.target)
        choices.append(planned(order.id, move, source=source, target=NodeName(order.target)))
    return choices


def by_group(suggestion: Suggestion) -> Iterator[tuple[int, list[Move]]]:
    moves = sorted(suggestion.moves, key=lambda move: move.group)
    for number, members in itertools.groupby(moves, key=lambda move: move.group):
        yield number, list(members)


def shares_after(shares: Mapping[Workload, Share], moves: Iterable[Move]) -> dict[Workload, Share]:
    after = dict(shares)
    for move in moves:
        share = after.get(move.pod.workload)
        change = {MoveKind.CLOUD_TO_EDGE: 1, MoveKind.EDGE_TO_CLOUD: -1}.get(move.kind, 0)
        if share is not None and 0 <= share.edge + change <= share.total:
            after[move.pod.workload] = Share(share.edge + change, share.total)
    return after


def proposal(move: Move) -> str:
    return (
        f"Would move from {move.source} to {move.target} ({move.kind}), "
        f"gaining {move.gain:.3f} points of QoS a move"
    )


def mode_of(pod: Pod, configuration: Configuration) -> MoveMode:
    """Only the pods of a Deployment carry the label by which they can be detached."""
    if pod.workload.kind != "Deployment":
        return MoveMode.RECREATE
    return MoveMode(configuration.migration_mode(pod.workload))


def reason_to_stay(pod: Pod, configuration: Configuration) -> str:
    """Why its move would be refused when it starts, as far as that is known before."""
    if pod.pod_class.rules.claims and mode_of(pod, configuration) is MoveMode.SURGE:
        return CLAIM_NOT_SHARED
    return ""


def arrange(
    plan_id: str,
    snapshot: Snapshot,
    moves: Sequence[Move],
    suggestion: Suggestion,
    configuration: Configuration,
) -> Ordered:
    """Put the moves of a group in order, and break their circles through the cloud."""
    name = {move.pod.uid: f"{plan_id}/{move.pod}" for move in moves}
    pods = {name[move.pod.uid]: move.pod for move in moves}
    orders = [
        MoveOrder(
            id=name[move.pod.uid],
            pod=move.pod.uid,
            target=move.target,
            mode=mode_of(move.pod, configuration),
            deadline=configuration.migration.deadline,
            needs=frozenset(
                name[uid] for uid in suggestion.needs.get(move.pod.uid, ()) if uid in name
            ),
        )
        for move in moves
    ]
    greatest = greatest_allocatable(snapshot.of_tier(Tier.EDGE))
    room = {node.name: snapshot.free[node.name] for node in snapshot.of_tier(Tier.CLOUD)}
    for move in suggestion.moves:
        if move.target in room:
            room[move.target] -= move.pod.requests

    def detour(order: MoveOrder) -> NodeName | None:
        pod = pods[order.id]
        name = stopover(Feasibility.of(snapshot).without_pod(pod.uid), pod, room)
        if name is not None:
            room[name] -= pod.requests
        return name

    sizes = {identity: size(pod.requests, greatest) for identity, pod in pods.items()}
    return ordered(orders, sizes, detour)

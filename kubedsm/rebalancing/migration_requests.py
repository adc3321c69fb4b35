"""Migrations that users request: each is accepted once, executed as the scheduler's own, and
answered by an Event.

A request is an annotation (`kube.wire.annotations.MoveRequest`) on one of two ConfigMaps. The
ConfigMap for approvals takes the id of a proposal. A request with moves goes on the ConfigMap with
the configuration, whose writers have at least these rights.

Rules.
1. An Event records the acceptance before any execution. Hence the next leader neither repeats nor
   ignores the request.
2. A request grants no rights: pods excluded from migrations remain excluded. An outdated
   migration is dropped with its whole group.
3. A single request at a time, and none older than `OLDEST`: the client no longer waits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NoReturn

import attrs
import structlog

from kubedsm.config.settings import Configuration
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls.reads import answers_to
from kubedsm.kube.calls.writes import Regarding, create_event
from kubedsm.kube.client.port import ClusterError, Forbidden, Invalid, NotFound, ObjectName
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.kube.wire.annotations import (
    ANSWER_ANNOTATION,
    Cause,
    MoveAnswer,
    MoveRequest,
    RequestAnswer,
    RequestedMove,
    State,
    UnreadableRequestError,
    request_in,
)
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.model.model import NodeName, Uid
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.moving.movable import Movable, default_movable
from kubedsm.optimizer.moving.suggestion import Cause as MoveCause
from kubedsm.optimizer.moving.suggestion import (
    Leg,
    Move,
    MoveKind,
    Suggestion,
    order_legs,
    split_into_legs,
)
from kubedsm.optimizer.placing.batch import rejection_elsewhere
from kubedsm.planner.plurals import counted
from kubedsm.planner.rebalancing_requests import (
    configured_movable,
    score_suggestion,
)
from kubedsm.process.backoff import Doubling
from kubedsm.rebalancing.suggester import LOOK, Migrator

log = structlog.get_logger()

#: largest difference between a request's time and ours in seconds, by clocks that may differ
OLDEST = 120.0
#: seconds that a request waits for other plans
PATIENCE = 30.0
#: attempts to write an answer, and their back-off
TRIES, RETRY = 5, Doubling(0.5, 5.0)
FINAL = (Forbidden, Invalid, NotFound)
_REASONS: dict[State, str] = {
    "refused": "MoveRequestRefused",
    "taken": "MoveRequestTaken",
    "ended": "MoveRequestEnded",
    "lost": "MoveRequestLost",
}
LOST = (
    "the scheduler that accepted it no longer leads; the Events of the pods have the result of each"
)


@attrs.define
class MigrationRequests:
    #: with the configuration, and with approvals
    config_map: FollowedConfigMap
    approvals: FollowedConfigMap
    migrator: Migrator
    #: name of this process in Events
    instance: str
    #: last annotation of each ConfigMap
    _seen: dict[ObjectName, str] = attrs.field(factory=dict, init=False)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: id of the request in progress; empty without one
    _under_way: str = attrs.field(default="", init=False)
    _answered: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._answered.set()
        for followed in (self.config_map, self.approvals):
            followed.observe(lambda _: self._changed.set())

    async def run(self) -> NoReturn:
        """Accept users' migration requests while this scheduler process is the leader."""
        await self.migrator.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.approvals.run())
            while True:
                self._changed.clear()
                for followed in (self.config_map, self.approvals):
                    found = followed.found
                    seen = self._seen.get(followed.name, "")
                    if found is not None and found.requested_moves != seen:
                        self._seen[followed.name] = found.requested_moves
                        await self._read_request(found)
                await self._changed.wait()

    async def await_answers(self) -> None:
        """Wait until no user's migration request is in progress, so every request has an answer."""
        await self._answered.wait()

    async def _read_request(self, found: ConfigMap) -> None:
        if not found.requested_moves:
            return
        try:
            request = request_in(found.requested_moves)
        except UnreadableRequestError as error:
            log.warning("migration request unreadable", configmap=str(found), error=str(error))
            return
        age = self.migrator.clock.wall() - request.at
        if abs(age) > OLDEST:
            log.info("migration request too old", request=request.id, seconds=round(age))
            return
        try:
            known = await answers_to(self.migrator.cluster, found, request.id)
        except ClusterError as error:
            why = f"cannot determine whether another scheduler accepted it: {error}"
            await self._refuse_request(found, request, "busy", why)
            return
        if not known:
            await self._accept_request(found, request)
        elif all(answer.state == "taken" for answer in known):
            await self._write_answer(found, RequestAnswer(request.id, "lost", LOST))

    async def _accept_request(self, found: ConfigMap, request: MoveRequest) -> None:
        if request.moves and str(found) == str(self.approvals.name):
            where = self.config_map.name
            why = f"an approval must name a proposal; list migrations on ConfigMap {where}"
            await self._refuse_request(found, request, "unreadable", why)
            return
        if self._under_way:
            why = f"request {self._under_way} is in progress"
            await self._refuse_request(found, request, "busy", why)
            return
        if self.migrator.paused():
            await self._refuse_request(found, request, "paused", "migrations are paused")
            return
        asked = self._list_requested(request)
        if not asked:
            now = self.migrator.proposed
            instead = f"the current proposal is {now.id}" if now else "there is no current proposal"
            why = f"proposal {request.proposal} is unknown or outdated; {instead}"
            await self._refuse_request(found, request, "stale", why)
            return
        taken = RequestAnswer(request.id, "taken", f"{counted(len(asked), 'migration')} requested")
        if not await self._write_answer(found, taken):
            return
        log.info(
            "migrations requested", request=request.id, proposal=request.proposal, moves=len(asked)
        )
        self._under_way = request.id
        self._answered.clear()
        self.migrator.manager.spawn_task(
            "migration request", lambda: self._carry_out(found, request, asked), request=request.id
        )

    def _list_requested(self, request: MoveRequest) -> Sequence[RequestedMove]:
        """Return the migrations of a user's request, or of the proposal named there; none for an
        outdated proposal.
        """
        proposed = self.migrator.proposed
        if request.moves or proposed is None or proposed.id != request.proposal:
            return request.moves
        return list_requested_moves(proposed)

    async def _carry_out(
        self, found: ConfigMap, request: MoveRequest, asked: Sequence[RequestedMove]
    ) -> None:
        try:
            answer = await self._execute_moves(request, asked)
            log.info("requested migrations ended", request=request.id, outcome=answer.text)
            await self._write_answer(found, answer)
        finally:
            self._under_way = ""
            self._answered.set()

    async def _execute_moves(
        self, request: MoveRequest, asked: Sequence[RequestedMove]
    ) -> RequestAnswer:
        """Validate and execute the requested migrations, and wait for their end; return the answer
        to the user.
        """
        migrator = self.migrator
        await migrator.wait_for(lambda: migrator.is_calm() or migrator.paused(), PATIENCE)
        if migrator.paused():
            return RequestAnswer(request.id, "refused", "migrations are paused", "paused")
        if not migrator.is_calm(waited=True):
            why = "other migrations or preemptions are in progress"
            return RequestAnswer(request.id, "refused", why, "busy")
        # No await until the execution: the snapshot that is validated is current.
        snapshot, configuration = migrator.mirror.snapshot(), migrator.configuration.current
        valid = validate_moves(asked, snapshot, configuration, migrator.sites.away())
        suggestion = score_suggestion(snapshot, configuration.policy, valid.legs)
        if not suggestion.moves:
            answers = tuple(_answer_dropped(move, valid.refused[move.uid]) for move in asked)
            return RequestAnswer(
                request.id, "refused", _summarise_answers(answers), "stale", answers
            )
        plans = set(migrator.execute(snapshot, suggestion, requested=True).values())
        while migrator.manager.migrations.under_way(plans):
            await migrator.clock.sleep(LOOK)
        outcomes = self._collect_outcomes(suggestion, plans)
        answers = tuple(
            outcomes.get(move.uid) or _answer_dropped(move, valid.refused.get(move.uid, ""))
            for move in asked
        )
        return RequestAnswer(request.id, "ended", _summarise_answers(answers), moves=answers)

    def _collect_outcomes(self, suggestion: Suggestion, plans: set[str]) -> dict[str, MoveAnswer]:
        """Return the outcome of each migration; of two legs, the outcome of an incomplete one."""
        ended = self.migrator.record.moves_of(plans)
        found: dict[str, MoveAnswer] = {}
        for move in suggestion.moves:
            legs = [each for each in ended if each.move.pod.uid == move.pod.uid]
            worst = [each for each in legs if each.outcome is not Outcome.COMPLETED] or legs
            if worst:
                outcome, reason = worst[0].outcome.value, worst[0].reason
                answer = MoveAnswer(str(move.pod), move.target, outcome, reason)
                found[move.pod.uid] = answer
        return found

    async def _refuse_request(
        self, found: ConfigMap, request: MoveRequest, cause: Cause, why: str
    ) -> None:
        log.warning("migration request refused", request=request.id, error=why)
        await self._write_answer(found, RequestAnswer(request.id, "refused", why, cause))

    async def _write_answer(self, about: ConfigMap, answer: RequestAnswer) -> bool:
        """Write the answer to a user's migration request as an Event on the ConfigMap; return True
        after success.
        """
        done = all(move.outcome == Outcome.COMPLETED for move in answer.moves)
        for failures in range(TRIES):
            try:
                await create_event(
                    self.migrator.cluster,
                    Regarding.of(about),
                    reason=_REASONS[answer.state],
                    action="Moving",
                    note=f"Request {answer.request} {answer.state}: {answer.text}",
                    instance=self.instance,
                    at=self.migrator.clock.wall(),
                    warning=answer.state in ("refused", "lost") or not done,
                    annotations={ANSWER_ANNOTATION: str(answer)},
                )
            except ClusterError as error:
                log.warning("request not answered", request=answer.request, error=str(error))
                if isinstance(error, FINAL):
                    return False
                await self.migrator.clock.sleep(RETRY.delay_after(failures))
            else:
                return True
        return False


def _answer_dropped(move: RequestedMove, reason: str) -> MoveAnswer:
    return MoveAnswer(move.pod, move.target, Outcome.DROPPED.value, reason)


def _summarise_answers(answers: Sequence[MoveAnswer]) -> str:
    done = sum(answer.outcome == Outcome.COMPLETED for answer in answers)
    return (
        f"{done} of {counted(len(answers), 'migration')} completed: {'; '.join(map(str, answers))}"
    )


def list_requested_moves(suggestion: Suggestion) -> tuple[RequestedMove, ...]:
    """Convert a suggestion to the same form as migrations requested by a user."""
    last = {leg.move.pod.uid: leg for leg in suggestion.legs if leg.target == leg.move.target}
    return tuple(
        RequestedMove(
            pod=str(move.pod),
            uid=move.pod.uid,
            source=move.source or "",
            target=move.target,
            stopover=move.stopover or "",
            needs=tuple(sorted(last[move.pod.uid].needs)),
            group=move.group,
            gain=move.gain,
            rebalances=move.rebalances,
            preferred=move.preferred,
            load_scores=move.load_scores,
        )
        for move in suggestion.moves
    )


@attrs.frozen(slots=True)
class Validated:
    """Result of validating requested migrations: migration steps (legs) that may begin, and the
    reasons against other migrations by pod uid.
    """

    legs: tuple[Leg, ...]
    refused: Mapping[str, str]


def validate_moves(
    asked: Sequence[RequestedMove], snapshot: Snapshot, configuration: Configuration, away: Away
) -> Validated:
    """Check requested migrations against the current cluster; a group is valid as a whole.

    Free capacity and benefit are checked as each migration begins.
    """
    forbidden = default_movable(snapshot)
    configured = configured_movable(configuration, snapshot.surroundings, away)
    refused: dict[str, str] = {}
    moves: dict[str, Move] = {}
    for each in asked:
        found = _validate_move(each, snapshot, away, lambda pod: forbidden(pod) or configured(pod))
        if isinstance(found, str) or each.uid in moves:
            refused[each.uid] = found if isinstance(found, str) else "it is requested twice"
        else:
            moves[each.uid] = found
    broken = {each.group: each for each in asked if each.uid in refused}
    for each in asked:
        if each.group in broken and each.uid not in refused:
            refused[each.uid] = (
                f"it belongs to the group of {broken[each.group].pod}, which is not migrated"
            )
    legs: list[Leg] = []
    for group in {each.group: None for each in asked if each.uid not in refused}:
        mine = [each for each in asked if each.group == group]
        try:
            legs += order_legs(
                leg
                for each in mine
                for leg in split_into_legs(moves[each.uid], frozenset(each.needs))
            )
        except ValueError as error:
            refused |= {each.uid: str(error) for each in mine}
    return Validated(tuple(legs), refused)


def _validate_move(
    each: RequestedMove, snapshot: Snapshot, away: Away, movable: Movable
) -> Move | str:
    """Return the migration as a suggestion would have it now, or the reason against it."""
    pod = snapshot.pods.get(Uid(each.uid))
    if pod is None or str(pod) != each.pod:
        return "the pod is gone"
    if pod.node_name != each.source:
        return f"it is on {pod.node_name or 'no node'} now, not on {each.source}"
    if why := movable(pod):
        return str(why)
    stops = [NodeName(name) for name in (each.stopover, each.target) if name]
    for name in stops:
        if name not in snapshot.nodes:
            return f"node {name} is gone"
        if name in away.nodes:
            return str(MoveCause.SITE_AWAY.of())
    if not each.needs:
        rejected = rejection_elsewhere(snapshot, pod, snapshot.nodes[stops[0]])
        if rejected is not None:
            return f"{stops[0]}: {', '.join(rejected.reasons)}"
    source, target = snapshot.nodes[NodeName(each.source)], snapshot.nodes[stops[-1]]
    if source.tier is None or target.tier is None:
        return str(MoveCause.ON_NO_TIER.of())
    return Move(
        pod,
        source.name,
        target.name,
        MoveKind.between(source.tier, target.tier),
        stopover=stops[0] if len(stops) > 1 else None,
        group=each.group,
        gain=each.gain,
        rebalances=each.rebalances,
        preferred=each.preferred,
        load_scores=each.load_scores,
    )

"""Requests to migrate pods: taken once, carried out as the scheduler's own moves, and answered.

A request is an annotation (`cluster.wire.move_request`), and the leader takes it. The ConfigMap for
approvals takes the id of a proposal. A request that names its moves goes on the ConfigMap with the
configuration, whose writers may do that and more.

Rules.
1. That it is taken is written down, as an Event, before anything is done: so whoever leads next
   neither does it again, nor lets it be forgotten.
2. A request gives no rights: what must not be moved is not, and what does not hold any more is left
   out, with all that belongs together with it.
3. One at a time; and none that is older than `OLDEST`, for nobody waits for its answer any more.
"""

import asyncio
from collections.abc import Sequence
from typing import NoReturn, Self

import attrs
import structlog

from kubedsm.execution.migrations import Moves
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls import verbs
from kubedsm.kube.calls.move_requests import answers_to
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, Invalid, NotFound
from kubedsm.kube.watching.config_map import ConfigMapName, FollowedConfigMap
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.kube.wire.errors import WireError
from kubedsm.kube.wire.move_request import (
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
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.planner.plurals import counted
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.requested_migrations import asked_by, holding
from kubedsm.rebalancing.suggester import Suggester

log = structlog.get_logger()

#: seconds since a request was made, or until then, by clocks that may differ
OLDEST = 120.0
#: seconds that a request waits for other plans to end, and between two looks
PATIENCE, LOOK = 30.0, 0.2
TIMEOUT = 10.0
#: an answer is tried so often, after such pauses
TRIES, RETRY = 5, Doubling(0.5, 5.0)
FINAL = (Forbidden, Invalid, NotFound)
_REASONS: dict[State, str] = {
    "refused": "MoveRequestRefused",
    "taken": "MoveRequestTaken",
    "ended": "MoveRequestEnded",
    "lost": "MoveRequestLost",
}
LOST = (
    "it was taken by a scheduler that does not lead any more: what became of its moves is told by"
    " the Events of their pods"
)


@attrs.define
class MoveRequests:
    cluster: Cluster
    #: with the configuration, and with approvals
    config_map: FollowedConfigMap
    approvals: FollowedConfigMap
    suggester: Suggester
    moves: Moves
    clock: Clock
    #: names this process in Events
    instance: str
    #: the annotation of each ConfigMap as it was read last
    _seen: dict[ConfigMapName, str] = attrs.field(factory=dict, init=False)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: the request that is carried out; empty if none is
    _under_way: str = attrs.field(default="", init=False)
    _answered: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @classmethod
    def beside(
        cls,
        suggester: Suggester,
        moves: Moves,
        cluster: Cluster,
        config_map: FollowedConfigMap,
        approvals: FollowedConfigMap,
        instance: str,
    ) -> Self:
        """One whose moves are made as the suggester's are."""
        return cls(cluster, config_map, approvals, suggester, moves, suggester.clock, instance)

    def __attrs_post_init__(self) -> None:
        self._answered.set()
        for followed in (self.config_map, self.approvals):
            followed.observe(lambda _: self._changed.set())

    async def run(self) -> NoReturn:
        """Take what is asked for, while this process leads."""
        await self.suggester.synced.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.approvals.run())
            while True:
                self._changed.clear()
                for followed in (self.config_map, self.approvals):
                    found = followed.found
                    seen = self._seen.get(followed.name, "")
                    if found is not None and found.requested_moves != seen:
                        self._seen[followed.name] = found.requested_moves
                        await self._look_at(found)
                await self._changed.wait()

    async def answered(self) -> None:
        """Return when what is under way is over, and answered."""
        await self._answered.wait()

    async def _look_at(self, found: ConfigMap) -> None:
        if not found.requested_moves:
            return
        try:
            request = request_in(found.requested_moves)
        except UnreadableRequestError as error:
            log.warning("request to move pods unreadable", configmap=str(found), error=str(error))
            return
        age = self.clock.wall() - request.at
        if abs(age) > OLDEST:
            log.info("request to move pods too old", request=request.id, seconds=round(age))
            return
        try:
            known = await answers_to(self.cluster, found, request.id, timeout=TIMEOUT)
        except (ClusterError, WireError) as error:
            why = f"whether another scheduler took it cannot be found out: {error}"
            await self._refuse(found, request, "busy", why)
            return
        if not known:
            await self._take(found, request)
        elif all(answer.state == "taken" for answer in known):
            await self._answer(found, RequestAnswer(request.id, "lost", LOST))

    async def _take(self, found: ConfigMap, request: MoveRequest) -> None:
        if request.moves and str(found) == str(self.approvals.name):
            why = (
                f"an approval names a proposal; moves are named on ConfigMap {self.config_map.name}"
            )
            await self._refuse(found, request, "unreadable", why)
            return
        if self._under_way:
            why = f"request {self._under_way} is being carried out"
            await self._refuse(found, request, "busy", why)
            return
        if self.suggester.paused():
            await self._refuse(found, request, "paused", "moving is paused")
            return
        asked = self._asked(request)
        if not asked:
            now = self.suggester.proposed
            instead = f"what is proposed now is {now.id}" if now else "nothing is proposed now"
            await self._refuse(found, request, "stale", f"it does not hold any more; {instead}")
            return
        taken = RequestAnswer(request.id, "taken", f"{counted(len(asked), 'move')} asked for")
        if not await self._answer(found, taken):
            return
        log.info("moves requested", request=request.id, proposal=request.proposal, moves=len(asked))
        self._under_way = request.id
        self._answered.clear()
        self.suggester.manager.spawn_beside(
            "move request", lambda: self._carry_out(found, request, asked), request=request.id
        )

    def _asked(self, request: MoveRequest) -> Sequence[RequestedMove]:
        """The moves that are asked for; none if they are not said, and not proposed any more."""
        proposed = self.suggester.proposed
        if request.moves or proposed is None or proposed.id != request.proposal:
            return request.moves
        return asked_by(proposed)

    async def _carry_out(
        self, found: ConfigMap, request: MoveRequest, asked: Sequence[RequestedMove]
    ) -> None:
        try:
            answer = await self._moved(request, asked)
            log.info("requested moves ended", request=request.id, outcome=answer.text)
            await self._answer(found, answer)
        finally:
            self._under_way = ""
            self._answered.set()

    async def _moved(self, request: MoveRequest, asked: Sequence[RequestedMove]) -> RequestAnswer:
        """Have them made, and wait for the end of it."""
        until = self.clock.monotonic() + PATIENCE
        while not self.suggester.calm():
            if self.suggester.paused():
                return RequestAnswer(request.id, "refused", "moving is paused", "paused")
            if self.clock.monotonic() >= until:
                why = "other plans are under way"
                return RequestAnswer(request.id, "refused", why, "busy")
            await self.clock.sleep(LOOK)
        # Nothing awaits from here on: what is looked at is what is begun.
        snapshot, configuration = self.suggester.mirror.snapshot(), self.suggester.configuration
        held = holding(asked, snapshot, configuration.current, self.suggester.sites.away())
        suggestion = held.suggestion(snapshot, configuration.current.policy)
        if not suggestion.moves:
            answers = tuple(self._dropped(move, held.refused[move.uid]) for move in asked)
            return RequestAnswer(request.id, "refused", _told(answers), "stale", answers)
        plans = set(self.suggester.begin(snapshot, suggestion).values())
        while self.moves.under_way(plans):
            await self.clock.sleep(LOOK)
        outcomes = self._outcomes(suggestion, plans)
        answers = tuple(
            outcomes.get(move.uid) or self._dropped(move, held.refused.get(move.uid, ""))
            for move in asked
        )
        return RequestAnswer(request.id, "ended", _told(answers), moves=answers)

    def _outcomes(self, suggestion: Suggestion, plans: set[str]) -> dict[str, MoveAnswer]:
        """What became of each move: of two legs, of the one that did not come to its end."""
        ended = self.suggester.record.moves_of(plans)
        found: dict[str, MoveAnswer] = {}
        for move in suggestion.moves:
            legs = [each for each in ended if each.move.pod.uid == move.pod.uid]
            worst = [each for each in legs if each.outcome is not Outcome.COMPLETED] or legs
            if worst:
                told = worst[0]
                found[move.pod.uid] = MoveAnswer(
                    str(move.pod), move.target, told.outcome.value, told.reason
                )
        return found

    @staticmethod
    def _dropped(move: RequestedMove, reason: str) -> MoveAnswer:
        return MoveAnswer(move.pod, move.target, Outcome.DROPPED.value, reason)

    async def _refuse(self, found: ConfigMap, request: MoveRequest, cause: Cause, why: str) -> None:
        log.warning("request to move pods refused", request=request.id, error=why)
        await self._answer(found, RequestAnswer(request.id, "refused", why, cause))

    async def _answer(self, about: ConfigMap, answer: RequestAnswer) -> bool:
        """Whether it is written down."""
        note = f"Request {answer.request} {answer.state}: {answer.text}"
        done = all(move.outcome == Outcome.COMPLETED for move in answer.moves)
        for failures in range(TRIES):
            try:
                await verbs.create_event(
                    self.cluster,
                    verbs.Regarding.of(about),
                    reason=_REASONS[answer.state],
                    action="Moving",
                    note=note,
                    instance=self.instance,
                    at=self.clock.wall(),
                    warning=answer.state in ("refused", "lost") or not done,
                    annotations={ANSWER_ANNOTATION: str(answer)},
                    timeout=TIMEOUT,
                )
            except (ClusterError, WireError) as error:
                log.warning("request not answered", request=answer.request, error=str(error))
                if isinstance(error, FINAL):
                    return False
                await self.clock.sleep(RETRY.after(failures))
            else:
                return True
        return False


def _told(answers: Sequence[MoveAnswer]) -> str:
    done = sum(answer.outcome == Outcome.COMPLETED for answer in answers)
    return f"{done} of {counted(len(answers), 'move')} done: {'; '.join(map(str, answers))}"

"""Requests to the running scheduler to migrate pods, by way of its ConfigMaps."""

import asyncio
import uuid

import attrs
import click

from kubedsm.app.pause_switch import KEY, paused_in
from kubedsm.commands.console import remark
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls.move_requests import answers_to, create_config_map, put_request
from kubedsm.kube.calls.verbs import get_config_map
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.kube.wire.errors import WireError
from kubedsm.kube.wire.move_request import (
    LONGEST,
    MoveRequest,
    RequestAnswer,
    RequestedMove,
    UnreadableRequestError,
    request_in,
)
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.migration_requests import LOST, OLDEST

#: exit codes, beside 0 for all that is done, or nothing to do, 1 for a problem and 2 for usage
NOT_ALL, PAUSED, STALE = 3, 4, 5
TIMEOUT = 10.0
#: seconds: until somebody takes a request, until its moves are over, and between two looks
TAKEN_WITHIN, OVER_WITHIN, LOOK = 30.0, 1800.0, 0.5
TRIES = 5
#: what another try may mend
_PASSING = (OutcomeUnknown, ServerError, TooManyRequests, Unreachable)


@attrs.frozen(slots=True)
class Handing:
    """What the options say."""

    config_map: ConfigMapName
    #: seconds
    wait: float
    #: where a running scheduler may answer
    server: str


@attrs.frozen
class Scheduler:
    """The one that runs, as far as it can be asked."""

    cluster: Cluster
    name: ConfigMapName
    clock: Clock

    async def paused(self, wait: float = 0.0) -> bool:
        """Whether moving is, and does not cease to be within that time; then that is told."""
        until = self.clock.monotonic() + wait
        while paused_in(await self._found(self.name)):
            if self.clock.monotonic() >= until:
                after = f" still, after {wait:g} s" if wait else ""
                remark(
                    f"moving is paused{after}: ConfigMap {self.name} has {KEY} set, nothing was"
                    " moved; --wait waits for the end of that"
                )
                return True
            await self.clock.sleep(LOOK)
        return False

    async def asked(self, proposal: str, moves: tuple[RequestedMove, ...] = ()) -> int:
        """Ask it to make these moves, or those it has proposed itself; the exit code.

        What became of each is told. Raises ClickException if nobody takes it, or it is too long.
        """
        request = MoveRequest(uuid.uuid4().hex[:8], self.clock.wall(), proposal, moves)
        if len(str(request)) > LONGEST:
            raise click.ClickException(f"{len(moves)} moves are more than a request may say")
        # Whoever names moves has to be one who may configure.
        where = self.name if moves else self.name.approvals
        about = await self._put(request, where)
        try:
            answer = await self._answered(about, request)
        except asyncio.CancelledError:
            remark(f"not waited for: what a scheduler has begun of request {request.id} goes on")
            raise
        finally:
            await self._withdraw(request, where)
        if answer is None:
            # It may have been taken in the last moment.
            answer = await self._answered(about, request, taken_within=0.0)
        if answer is None:
            raise click.ClickException(
                f"no scheduler took the request within {TAKEN_WITHIN:g} s: does one run, and"
                f" follow ConfigMap {where}? If one does, its log says why it left it"
            )
        return _told(answer)

    async def _found(self, where: ConfigMapName) -> ConfigMap | None:
        try:
            return await get_config_map(self.cluster, where.namespace, where.name, timeout=TIMEOUT)
        except NotFound:
            return None

    async def _put(self, request: MoveRequest, where: ConfigMapName) -> ConfigMap:
        """Have it stand there, in nobody else's place."""
        for _ in range(TRIES):
            found = await self._found(where)
            try:
                if found is None:
                    found = await create_config_map(
                        self.cluster, where.namespace, where.name, timeout=TIMEOUT
                    )
                await self._look_for_another(found, request.id)
                await put_request(self.cluster, found, str(request), timeout=TIMEOUT)
            except Conflict:
                continue
            return found
        raise click.ClickException(f"ConfigMap {where} is changed all the time by others")

    async def _look_for_another(self, found: ConfigMap, mine: str) -> None:
        """Raise ClickException if another request stands there, and is not over yet."""
        try:
            standing = request_in(found.requested_moves)
        except UnreadableRequestError:
            standing = MoveRequest(mine, 0.0, "")
        # Asked in any case, so that a missing right shows before anything is done.
        answers = await answers_to(self.cluster, found, standing.id, timeout=TIMEOUT)
        seconds = self.clock.wall() - standing.at
        if abs(seconds) > OLDEST or any(answer.state != "taken" for answer in answers):
            return
        raise click.ClickException(
            f"request {standing.id}, of {max(0.0, seconds):.0f} s ago, is being dealt with: try"
            f" again when it is over (kubectl -n {self.name.namespace} get events)"
        )

    async def _answered(
        self, about: ConfigMap, request: MoveRequest, taken_within: float = TAKEN_WITHIN
    ) -> RequestAnswer | None:
        """None if nobody takes it."""
        began, taken = self.clock.monotonic(), False
        while True:
            waited = self.clock.monotonic() - began
            try:
                answers = await answers_to(self.cluster, about, request.id, timeout=TIMEOUT)
            except _PASSING:
                if waited > OVER_WITHIN or not (taken or waited < taken_within):
                    raise
                answers = []
            for answer in answers:
                if answer.state != "taken":
                    return answer
            if answers and not taken:
                taken = True
                remark(f"the scheduler that runs has taken request {request.id}")
            if not taken and waited >= taken_within:
                return None
            if waited >= OVER_WITHIN:
                why = f"it is not over after {OVER_WITHIN:g} s"
                return RequestAnswer(request.id, "lost", why)
            await self.clock.sleep(LOOK)

    async def _withdraw(self, request: MoveRequest, where: ConfigMapName) -> None:
        """Have it stand there no longer; left there it would only be too old after a while."""
        try:
            for _ in range(TRIES):
                found = await self._found(where)
                if found is None or found.requested_moves != str(request):
                    return
                try:
                    await put_request(self.cluster, found, None, timeout=TIMEOUT)
                except Conflict:
                    continue
                return
        except (ClusterError, WireError) as error:
            remark(f"request {request.id} still stands on ConfigMap {where}: {error}")


def _told(answer: RequestAnswer) -> int:
    for move in answer.moves:
        remark(str(move))
    if answer.state == "ended":
        done = all(move.outcome == Outcome.COMPLETED for move in answer.moves)
        return 0 if done else NOT_ALL
    if answer.state == "lost":
        remark(f"what became of the moves is not known: {answer.text or LOST}")
        return NOT_ALL
    codes = {"paused": PAUSED, "stale": STALE}
    if answer.cause not in codes:
        raise click.ClickException(f"the scheduler that runs refuses: {answer.text}")
    if not answer.moves:
        remark(f"the scheduler that runs refuses: {answer.text}")
    return codes[answer.cause]

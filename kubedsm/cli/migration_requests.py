"""Requests to the running scheduler to migrate pods, through its ConfigMaps."""

import asyncio
import uuid

import attrs
import click

from kubedsm.app.pause_switch import KEY, explain_pause
from kubedsm.cli.console import remark
from kubedsm.explain.migration_outcome import Outcome
from kubedsm.kube.calls import leases
from kubedsm.kube.calls.reads import answers_to, get_config_map
from kubedsm.kube.calls.writes import create_config_map, put_request
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    ObjectName,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from kubedsm.kube.wire.annotations import (
    LONGEST,
    MoveRequest,
    RequestAnswer,
    RequestedMove,
    UnreadableRequestError,
    request_in,
)
from kubedsm.kube.wire.decoding import ConfigMap
from kubedsm.process.clock import Clock
from kubedsm.rebalancing.migration_requests import LOST, OLDEST

#: exit codes, next to 0 for success, 1 for an error and 2 for usage
NOT_ALL, PAUSED, STALE = 3, 4, 5
#: seconds: limits for acceptance and for completion of a request, and polling interval
TAKEN_WITHIN, OVER_WITHIN, POLL = 30.0, 1800.0, 0.5
#: seconds for acceptance if no scheduler leads: one without leader election may run
UNLED_WITHIN = 10.0
TRIES = 5
#: transient errors
_TRANSIENT = (OutcomeUnknown, ServerError, TooManyRequests, Unreachable)


@attrs.frozen
class Requests:
    """Client that requests migrations from the scheduler through a ConfigMap annotation."""

    cluster: Cluster
    name: ObjectName
    clock: Clock

    async def is_paused(self, wait: float = 0.0) -> bool:
        """Return True if the pause switch stays set for `wait` seconds; report the pause."""
        until = self.clock.monotonic() + wait
        while why := explain_pause(await get_config_map(self.cluster, self.name)):
            if self.clock.monotonic() >= until:
                after = f" still, after {wait:g} s" if wait else ""
                remark(
                    f"{why}{after}: ConfigMap {self.name}, key {KEY};"
                    " nothing was migrated; --wait waits for the end of the pause"
                )
                return True
            await self.clock.sleep(POLL)
        return False

    async def send(self, proposal: str, moves: tuple[RequestedMove, ...] = ()) -> int:
        """Request these migrations, or the named proposal of the scheduler; return the exit code.

        The result of each migration is reported. Raises ClickException without acceptance, or for
        an oversized request.
        """
        request = MoveRequest(uuid.uuid4().hex[:8], self.clock.wall(), proposal, moves)
        if len(str(request)) > LONGEST:
            raise click.ClickException(f"{len(moves)} migrations are too many for one request")
        # Naming migrations requires the right to configure the scheduler; approving does not.
        where = self.name if moves else self.name.approvals
        holder = await self._put(request, where)
        taken_within = TAKEN_WITHIN
        if not moves and not await self._is_led():
            taken_within = UNLED_WITHIN
            waits = f"waiting {UNLED_WITHIN:g} s for one without leader election"
            remark(f"no scheduler leads by Lease {self.name}; {waits}")
        try:
            answer = await self._await_answer(holder, request, taken_within)
        except asyncio.CancelledError:
            remark(f"stopped waiting: migrations of request {request.id} that have begun continue")
            raise
        finally:
            await self._withdraw(request, where)
        if answer is None:
            # A scheduler may have accepted the request immediately before the withdrawal.
            answer = await self._await_answer(holder, request, taken_within=0.0)
        if answer is None:
            raise click.ClickException(
                f"no scheduler accepted the request within {taken_within:g} s: does one run, and"
                f" follow ConfigMap {where}? If one does, its log has the reason"
            )
        return _report_answer(answer)

    async def _is_led(self) -> bool:
        """Return True if a scheduler holds the Lease, or the user may not read it."""
        try:
            lease = await leases.read(self.cluster, self.name)
        except Forbidden:
            return True
        return lease is not None and bool(lease.term.holder)

    async def _put(self, request: MoveRequest, where: ObjectName) -> ConfigMap:
        """Write the migration request, unless the ConfigMap holds another client's request."""
        for _ in range(TRIES):
            found = await get_config_map(self.cluster, where)
            try:
                if found is None:
                    found = await create_config_map(self.cluster, where.namespace, where.name)
                await self._refuse_beside_another(found, request.id)
                await put_request(self.cluster, found, str(request))
            except Conflict:
                continue
            return found
        raise click.ClickException(f"ConfigMap {where} is changed by other clients all the time")

    async def _refuse_beside_another(self, found: ConfigMap, mine: str) -> None:
        """Raise ClickException if the ConfigMap holds another client's unfinished request."""
        try:
            standing = request_in(found.requested_moves)
        except UnreadableRequestError:
            standing = MoveRequest(mine, 0.0, "")
        # Read in any case: a missing right must show before anything is done.
        answers = await answers_to(self.cluster, found, standing.id)
        seconds = self.clock.wall() - standing.at
        if abs(seconds) > OLDEST or any(answer.state != "taken" for answer in answers):
            return
        raise click.ClickException(
            f"request {standing.id}, of {max(0.0, seconds):.0f} s ago, is in progress: try again"
            f" when it is over (kubectl -n {self.name.namespace} get events)"
        )

    async def _await_answer(
        self, holder: ConfigMap, request: MoveRequest, taken_within: float = TAKEN_WITHIN
    ) -> RequestAnswer | None:
        """Wait for the scheduler's response to the request; None if no scheduler responds."""
        began, taken = self.clock.monotonic(), False
        while True:
            waited = self.clock.monotonic() - began
            try:
                answers = await answers_to(self.cluster, holder, request.id)
            except _TRANSIENT:
                if waited > OVER_WITHIN or not (taken or waited < taken_within):
                    raise
                answers = []
            for answer in answers:
                if answer.state != "taken":
                    return answer
            if answers and not taken:
                taken = True
                remark(f"the running scheduler has accepted request {request.id}")
            if not taken and waited >= taken_within:
                return None
            if waited >= OVER_WITHIN:
                why = f"it is not over after {OVER_WITHIN:g} s"
                return RequestAnswer(request.id, "lost", why)
            await self.clock.sleep(POLL)

    async def _withdraw(self, request: MoveRequest, where: ObjectName) -> None:
        """Remove the migration request from the ConfigMap; schedulers ignore expired requests."""
        try:
            for _ in range(TRIES):
                found = await get_config_map(self.cluster, where)
                if found is None or found.requested_moves != str(request):
                    return
                try:
                    await put_request(self.cluster, found, None)
                except Conflict:
                    continue
                return
        except ClusterError as error:
            remark(f"request {request.id} is still on ConfigMap {where}: {error}")


def _report_answer(answer: RequestAnswer) -> int:
    """Print the outcome of each requested migration, and return the exit code."""
    for move in answer.moves:
        remark(str(move))
    if answer.state == "ended":
        done = all(move.outcome == Outcome.COMPLETED for move in answer.moves)
        return 0 if done else NOT_ALL
    if answer.state == "lost":
        remark(f"the result of the migrations is not known: {answer.text or LOST}")
        return NOT_ALL
    codes = {"paused": PAUSED, "stale": STALE}
    if answer.cause not in codes:
        raise click.ClickException(f"the running scheduler refuses: {answer.text}")
    if not answer.moves:
        remark(f"the running scheduler refuses: {answer.text}")
    return codes[answer.cause]

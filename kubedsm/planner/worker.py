"""Planner client: starts the planner process, replicates the mirror to it, and sends requests.

A new process first receives the calls reproducing the mirror, a few in each turn of the event loop,
and then all further calls, collected briefly. A request follows all previous calls: both mirrors
are equal. Requests are solved in order. Urgent requests interrupt the present request; all requests
interrupt idle requests.
"""

import asyncio
import random
import sys
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import chain, islice
from typing import Protocol, TypeVar

import attrs
import structlog

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.fields import write_section
from kubedsm.config.settings import Configuration
from kubedsm.model.model import Uid
from kubedsm.planner.protocol import (
    ANNOUNCED,
    LENGTH,
    Configured,
    Message,
    NumberedRequest,
    NumberedResponse,
    ReplicatedMirror,
    dump_message,
    load_message,
    load_response,
    pack_frame,
)
from kubedsm.planner.requests import NoResponseError, Request
from kubedsm.process.backoff import Backoff
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle

log = structlog.get_logger()

R = TypeVar("R")

#: messages per turn of the event loop, about 4 ms
CHUNK = 350
#: collection interval of messages, in seconds
GATHER = 0.5
#: seconds after the end of the budget until a request is considered stuck
PATIENCE = 30.0
#: seconds for the process to end by itself
GRACE = 1.0
#: seconds for the first synchronisation, without warnings about missing responses
STARTUP = 10.0
#: run time in seconds before the back-off of restarts is reset
WORKED_AFTER = 60.0


class WorkerEndedError(Exception):
    """Error: the planner process ended unexpectedly."""


class RequestFailedError(Exception):
    """Error: the planner process raised an unexpected exception while solving a request; includes
    the traceback.
    """


class WorkerListener(Protocol):
    def worker_started(self) -> None:
        """Callback: a planner process has started, with a synchronised mirror replica."""

    def request_unanswered(self, question: str) -> None:
        """Callback: a request got no response: the process ended, or exceeded its limit."""


@attrs.define(eq=False, repr=False)
class Worker:
    """Client of the planner process: starts the process, and restarts the process with back-off."""

    _mirror: ReplicatedMirror
    _followed: Collection[Uid]
    _configuration: CurrentConfiguration
    _clock: Clock
    _rng: random.Random
    _throttle: LogThrottle
    _listener: WorkerListener
    _outbox: deque[Message] = attrs.field(factory=deque, init=False)
    _outbox_filled: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: set when the outbox has a request
    _requested: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _process: asyncio.subprocess.Process | None = attrs.field(default=None, init=False)
    #: end of the time in which no synced process is expected
    _startup_until: float = attrs.field(default=0.0, init=False)
    #: of a process that is synced, but for the outbox
    _stdin: asyncio.StreamWriter | None = attrs.field(default=None, init=False)
    #: one request at a time that is neither urgent nor idle
    _requesting: asyncio.Lock = attrs.field(factory=asyncio.Lock, init=False)
    #: number of idle requests in flight
    _idle: int = attrs.field(default=0, init=False)
    _number: int = attrs.field(default=0, init=False)
    _responses: dict[int, asyncio.Future[NumberedResponse]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._startup_until = self._clock.monotonic() + STARTUP
        self._configuration.observe(self._send_configuration)

    async def run(self) -> None:
        """Keep a planner process running, restarted with back-off, until cancelled."""
        backoff = Backoff(self._rng)
        while True:
            began = self._clock.monotonic()
            try:
                await self._run_process()
            except* (WorkerEndedError, OSError) as ended:
                self._throttle.log(log.warning, "planner process ended", str(ended.exceptions[0]))
            if self._clock.monotonic() - began >= WORKED_AFTER:
                backoff.reset_failures()
            await self._clock.sleep(backoff.count_failure())

    async def solve(self, request: Request[R], *, idle: bool = False) -> R:
        """Send a request to the planner process, and return the response.

        Pods of the response are as they were at the time of the request. Raises NoResponseError and
        RequestFailedError.
        """
        async with nullcontext() if request.urgent or idle else self._requesting:
            announced = request.urgent or (self._idle > 0 and not idle)
            self._idle += idle
            try:
                return await self._send_request(request, announced=announced)
            except NoResponseError as error:
                starting = self._clock.monotonic() < self._startup_until
                write = log.debug if starting else log.warning
                self._throttle.log(write, "no response", str(error), request=request.name)
                self._listener.request_unanswered(request.name)
                raise
            finally:
                self._idle -= idle

    async def _send_request(self, request: Request[R], *, announced: bool) -> R:
        if self._stdin is None:
            raise NoResponseError("the planner is not synced yet")
        self._number += 1
        number, pods = self._number, self._mirror.snapshot().pods
        followed, changes = frozenset(self._followed), self._mirror.changes
        waiting = self._responses[number] = asyncio.get_running_loop().create_future()
        if announced:
            self._stdin.write(pack_frame(ANNOUNCED))
        self._post_message(NumberedRequest(number, request, followed, changes, announced))
        self._requested.set()
        seconds = request.budget + PATIENCE
        try:
            async with asyncio.timeout(seconds):
                numbered = await waiting
        except TimeoutError:
            if self._process is not None:
                self._process.kill()
            raise NoResponseError(f"the planner took more than {seconds:g} s") from None
        finally:
            del self._responses[number]
        if numbered.error:
            raise RequestFailedError(numbered.error)
        # By the pods of the request, because some may be deleted by now.
        response: R = load_response(numbered.response, pods.__getitem__)
        return response

    async def _run_process(self) -> None:
        """Start a planner process, and return after its termination.

        Raises WorkerEndedError and OSError.
        """
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "kubedsm.planner.child_process"),
            stdin=pipe,
            stdout=pipe,
            # Signals of a terminal or an init system are for the scheduler alone.
            start_new_session=True,
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the worker's input and output are not piped")
        self._process = process
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._replicate_mirror(process.stdin))
                tasks.create_task(self._read_responses(process, process.stdout))
        finally:
            self._mirror.publish = self._stdin = self._process = None
            self._outbox.clear()
            for waiting in self._responses.values():
                if not waiting.done():
                    waiting.set_exception(NoResponseError("the planner process ended"))
            await _end_process(process, process.stdin)

    async def _replicate_mirror(self, stdin: asyncio.StreamWriter) -> None:
        first: Iterator[Message] = chain((self._make_configuration(),), self._mirror.replay())
        self._mirror.publish = self._post_message
        while chunk := list(islice(first, CHUNK)):
            await self._write(stdin, chunk)
        self._stdin, self._startup_until = stdin, 0.0
        self._listener.worker_started()
        while True:
            await self._outbox_filled.wait()
            self._outbox_filled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER):
                    await self._requested.wait()
            self._requested.clear()
            while self._outbox:
                count = min(CHUNK, len(self._outbox))
                await self._write(stdin, [self._outbox.popleft() for _ in range(count)])

    async def _write(self, stdin: asyncio.StreamWriter, messages: Sequence[Message]) -> None:
        stdin.write(pack_frame(dump_message(messages)))
        with suppress(ConnectionError):  # the reader of the other pipe notices the end
            await stdin.drain()
        await self._clock.sleep(0)

    async def _read_responses(
        self, process: asyncio.subprocess.Process, stdout: asyncio.StreamReader
    ) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
                numbered: NumberedResponse = load_message(await stdout.readexactly(length))
                waiting = self._responses.get(numbered.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(numbered)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await process.wait()
        raise WorkerEndedError(f"status {process.returncode}")

    def _make_configuration(self) -> Configured:
        return Configured(write_section(self._configuration.current))

    def _send_configuration(self, _: Configuration) -> None:
        if self._mirror.publish is not None:
            self._post_message(self._make_configuration())

    def _post_message(self, message: Message) -> None:
        self._outbox.append(message)
        self._outbox_filled.set()


async def _end_process(process: asyncio.subprocess.Process, stdin: asyncio.StreamWriter) -> None:
    """Close the planner process's input so the process exits, and kill the process after `GRACE`
    seconds.
    """
    stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()

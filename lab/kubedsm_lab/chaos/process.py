"""Scheduler process under test: its own clock, its own connection, and interruptions of both.

A process can be killed, stopped and continued, or disconnected. Requests that have left arrive in
any case.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import attrs
import structlog

from kubedsm.app import leadership
from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import Elector, LeaseTimes, NotLeadingError
from kubedsm.app.prometheus import Asker
from kubedsm.config.settings import Configuration
from kubedsm.explain.listener import Listener
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    OutcomeUnknown,
    Request,
    Response,
    Unreachable,
    not_sent,
)
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.joining import NotJoinedError, join
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.watching.reflector import LIST_TIMEOUT

log = structlog.get_logger()

#: termination grace period of a scheduler, the default of `kubedsm run`
GRACE = 25.0
LEASE = LeaseName("kubedsm", "kubedsm")


@attrs.define
class ProcessClock:
    """Clock that runs at `rate`; sleepers wait while the clock's process is stopped."""

    rate: float
    running: asyncio.Event
    #: error of the wall clock in seconds
    wrong: float = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self.rate

    def wall(self) -> float:
        return 1_767_225_600.0 + self.wrong + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)
        await self.running.wait()


class Process:
    """`kubedsm run` on `front`. Its requests are tasks of `network`, and survive the process."""

    def __init__(
        self,
        name: str,
        front: Cluster,
        network: asyncio.TaskGroup,
        configuration: Configuration,
        source: ConfigMapName | None = None,
        *,
        rate: float = 1.0,
        times: LeaseTimes | None = None,
        rng: random.Random | None = None,
        listener: Listener | None = None,
        prometheus: Asker | None = None,
    ) -> None:
        self.name = name
        self._front = front
        self._network = network
        self._running = asyncio.Event()
        self._running.set()
        self.clock = ProcessClock(rate, self._running)
        self._cut = False
        #: delay of events of pods in seconds
        self.late = 0.0
        #: called with each request or watch before it is sent, and with each after its response
        self.at_send: Callable[[Request], object] = lambda _: None
        self.at_answer: Callable[[Request], object] = lambda _: None
        #: selects requests that get lost
        self.hangs: Callable[[Request], bool] = lambda _: False
        gate = WriteGate(self, self.clock) if times is not None else None
        self.elector = (
            Elector(self, gate, self.clock, LEASE, times, name)
            if gate is not None and times is not None
            else None
        )
        self.stopping = asyncio.Event()
        self._rng = rng = rng or random.Random(name)
        self.runtime = Runtime(
            gate or self,
            configuration,
            self.clock,
            rng,
            name,
            source=source,
            listener=listener,
            prometheus=prometheus,
        )
        self._task: asyncio.Task[None] | None = None
        #: error of the process's own that ended it
        self.ended: BaseExceptionGroup[BaseException] | None = None

    def start(self, grace: float = GRACE) -> None:
        self._task = self._network.create_task(self._run(grace), name=self.name)

    async def _run(self, grace: float) -> None:
        try:
            await join(self, self.clock, self._rng, log.warning, in_pod=True)
            await leadership.serve(self.runtime, self.elector, self.stopping, grace)
        except NotJoinedError as error:
            log.warning("not joined", error=str(error))
        except ExceptionGroup as group:
            self.ended = group

    @property
    def over(self) -> bool:
        return self._task is None or self._task.done()

    @property
    def failure(self) -> BaseException | None:
        """Return the error that ended the process, unless another replica took the Lease."""
        return None if self.ended is None else self.ended.split(NotLeadingError)[1]

    async def wait(self) -> None:
        """Wait until the process has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """Kill the process like SIGKILL: no request leaves after this."""
        self._cut = True
        self._running.set()
        if self._task is not None:
            self._task.cancel()

    def freeze(self) -> None:
        self._running.clear()

    def thaw(self) -> None:
        self._running.set()

    def cut_off(self) -> None:
        """Drop all traffic in both directions."""
        self._cut = True

    def heal(self) -> None:
        self._cut = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        """See `Cluster.request`."""
        self.at_send(request)
        await self._running.wait()
        if not request.may_leave():
            raise not_sent(request)
        if self._cut or self.hangs(request):
            await asyncio.sleep(timeout / self.clock.rate)
            await self._running.wait()
            raise Unreachable(f"{request.path}: cut off")
        answer = await self._send_request(request, timeout / self.clock.rate)
        await self._running.wait()
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            await self._running.wait()
            raise OutcomeUnknown(f"{request.path}: cut off")
        self.at_answer(request)
        return answer

    async def _send_request(self, request: Request, timeout: float) -> Response:
        """Send a request that is delivered even if the caller is cancelled."""
        sending = self._network.create_task(self._outcome(request, timeout))
        outcome = await asyncio.shield(sending)
        if isinstance(outcome, ClusterError):
            raise outcome
        return outcome

    async def _outcome(self, request: Request, timeout: float) -> Response | ClusterError:
        try:
            return await self._front.request(request, timeout=timeout)
        except ClusterError as error:
            return error

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """See `Cluster.stream`."""
        self.at_send(request)
        await self._running.wait()
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            raise Unreachable(f"{request.path}: cut off")
        async with self._front.stream(request, timeout=timeout / self.clock.rate) as lines:
            self.at_answer(request)
            yield self._deliver_lines(lines, of_pods=request.path.endswith("/pods"))

    async def _deliver_lines(
        self, lines: AsyncIterator[bytes], *, of_pods: bool
    ) -> AsyncIterator[bytes]:
        async for line in lines:
            if self.late and of_pods:
                await asyncio.sleep(self.late)
            await self._running.wait()
            if self._cut:
                raise Unreachable("cut off")
            yield line


#: seconds of an interruption: longer than a failover, even by a clock at half speed
AWAY = 40.0
#: seconds for termination and restart
ENDING = 30.0
HOUR = 3600.0
PROCESS = "process"

Act = Callable[[Process], object]


@attrs.frozen
class Interruption:
    """Interruption: it begins before the request leaves, after that, or after the response."""

    moment: Literal["before", "left", "after"]
    begin: Act
    #: ends the interruption after `AWAY` seconds
    end: Act | None = None
    #: longest time without service in seconds
    lasts: float = AWAY


def _lose_leases(process: Process) -> None:
    process.hangs = lambda request: "/leases" in request.path


def _lose_nothing(process: Process) -> None:
    process.hangs = lambda _: False


def _step_clock(seconds: float) -> Act:
    def step(process: Process) -> None:
        process.clock.wrong += seconds

    return step


def _terminate(process: Process) -> None:
    process.stopping.set()


INTERRUPTIONS = {
    "stopped-before": Interruption("before", Process.freeze, Process.thaw),
    "stopped-left": Interruption("left", Process.freeze, Process.thaw),
    "stopped-after": Interruption("after", Process.freeze, Process.thaw),
    "cut-before": Interruption("before", Process.cut_off, Process.heal, AWAY + LIST_TIMEOUT),
    "cut-left": Interruption("left", Process.cut_off, Process.heal, AWAY + LIST_TIMEOUT),
    "leases-lost": Interruption("before", _lose_leases, _lose_nothing),
    "terminated-before": Interruption("before", _terminate, lasts=ENDING),
    "terminated-after": Interruption("after", _terminate, lasts=ENDING),
    "hour-forth": Interruption("before", _step_clock(HOUR), lasts=0.0),
    "hour-back": Interruption("before", _step_clock(-HOUR), lasts=0.0),
}

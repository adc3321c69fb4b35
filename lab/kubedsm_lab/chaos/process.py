"""Simulated scheduler process under test, with its own clock and cluster connection; can be killed,
stopped or disconnected.

A process can be killed, stopped and continued, or disconnected. Requests in flight are delivered in
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
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    ObjectName,
    OutcomeUnknown,
    Request,
    Response,
    Unreachable,
    not_sent,
)
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.joining import NotJoinedError, join
from kubedsm.kube.watching.reflector import LIST_TIMEOUT
from kubedsm.process.clock import RESOLUTION
from kubedsm_lab.chaos.faults import loop_time
from kubedsm_lab.emulator.front import RequestFault

log = structlog.get_logger()

#: default termination grace period of `kubedsm run` in seconds
GRACE = 25.0
LEASE = ObjectName("kubedsm", "kubedsm")


@attrs.define
class ProcessClock:
    """Clock of a simulated scheduler process: runs at `rate`, and wakes no sleeping task while the
    process is stopped.
    """

    rate: float
    running: asyncio.Event
    #: error of the wall clock in seconds
    wall_error: float = 0.0
    #: seconds that the monotonic clock did not count, and begin of a suspension
    suspended: float = 0.0
    _suspended_at: float | None = attrs.field(default=None, init=False)

    def monotonic(self) -> float:
        now = loop_time() if self._suspended_at is None else self._suspended_at
        return (now - self.suspended) * self.rate

    def wall(self) -> float:
        return 1_767_225_600.0 + self.wall_error + loop_time() * self.rate

    async def sleep(self, seconds: float) -> None:
        until, left = self.monotonic() + seconds, seconds
        while True:
            await asyncio.sleep(left / self.rate)
            await self.running.wait()
            left = until - self.monotonic()
            if left <= RESOLUTION:
                return

    def suspend(self) -> None:
        """Stop the monotonic clock, as that of a suspended machine; the wall clock goes on."""
        if self._suspended_at is None:
            self._suspended_at = loop_time()

    def resume(self) -> None:
        if self._suspended_at is not None:
            self.suspended += loop_time() - self._suspended_at
            self._suspended_at = None


class Process:
    """`kubedsm run` as a simulated process on the cluster connection `front`.

    Requests in flight are tasks of `network`, and survive a kill.
    """

    def __init__(
        self,
        name: str,
        front: Cluster,
        network: asyncio.TaskGroup,
        configuration: Configuration,
        source: ObjectName | None = None,
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
        #: delay of the pod watch in seconds
        self.watch_delay = 0.0
        #: called before sending a request or watch, and after the response
        self.at_send: Callable[[Request], object] = lambda _: None
        self.at_response: Callable[[Request], object] = lambda _: None
        #: whether a request is lost
        self.loses: Callable[[Request], bool] = lambda _: False
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
        #: terminating error
        self.ended: BaseExceptionGroup[BaseException] | None = None

    def start(self, grace: float = GRACE) -> None:
        self._task = self._network.create_task(self._serve_leader(grace), name=self.name)

    async def _serve_leader(self, grace: float) -> None:
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
        """Return the error that ended the process, if other than the loss of the Lease."""
        return None if self.ended is None else self.ended.split(NotLeadingError)[1]

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """End the simulated scheduler process as SIGKILL does: no further request is sent."""
        self._cut = True
        self._running.set()
        if self._task is not None:
            self._task.cancel()

    def freeze(self) -> None:
        if not self._is_killed:
            self._running.clear()

    def suspend(self) -> None:
        """Stop the process together with its monotonic clock, until `thaw`."""
        if not self._is_killed:
            self.clock.suspend()
            self.freeze()

    def thaw(self) -> None:
        self.clock.resume()
        self._running.set()

    def disconnect(self) -> None:
        """Disconnect the process from the API server: all requests and responses are lost until
        `reconnect`.
        """
        self._cut = True

    def reconnect(self) -> None:
        self._cut = self._is_killed

    @property
    def _is_killed(self) -> bool:
        return self._task is not None and self._task.cancelling() > 0

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request to the cluster as `Cluster.request` does; fail if the process is
        disconnected.
        """
        self.at_send(request)
        await self._running.wait()
        if not request.may_leave():
            raise not_sent(request)
        if self._cut or self.loses(request):
            await self.clock.sleep(timeout)
            raise Unreachable(f"{request.path}: connection closed")
        response = await self._deliver(request, timeout / self.clock.rate)
        await self._running.wait()
        if self._cut:
            await self.clock.sleep(timeout)
            raise OutcomeUnknown(f"{request.path}: connection closed")
        self.at_response(request)
        return response

    async def _deliver(self, request: Request, timeout: float) -> Response:
        """Deliver the request to the cluster, even if the sending task is cancelled meanwhile."""
        sending = self._network.create_task(self._catch_error(request, timeout))
        outcome = await asyncio.shield(sending)
        if isinstance(outcome, ClusterError):
            raise outcome
        return outcome

    async def _catch_error(self, request: Request, timeout: float) -> Response | ClusterError:
        try:
            return await self._front.request(request, timeout=timeout)
        except ClusterError as error:
            return error

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open a watch; fail if the process is disconnected (`Cluster.stream`)."""
        self.at_send(request)
        await self._running.wait()
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            raise Unreachable(f"{request.path}: connection closed")
        async with self._front.stream(request, timeout=timeout / self.clock.rate) as lines:
            self.at_response(request)
            yield self._pass_lines(lines, of_pods=request.path.endswith("/pods"))

    async def _pass_lines(
        self, lines: AsyncIterator[bytes], *, of_pods: bool
    ) -> AsyncIterator[bytes]:
        async for line in lines:
            if self.watch_delay and of_pods:
                await asyncio.sleep(self.watch_delay)
            await self._running.wait()
            if self._cut:
                raise Unreachable("connection closed")
            yield line


#: duration of an interruption in seconds: another replica leads before, even at half speed
AWAY = 40.0
#: seconds from sending until the network delivers a request: another replica, unless its clock is
#: slower, has just begun to lead
_LATE = 18.0
#: seconds from SIGTERM until the process runs again
ENDING = 30.0
HOUR = 3600.0

Act = Callable[[Process], object]


@attrs.frozen
class Interruption:
    """Interruption of a simulated scheduler process: kill, stop or disconnect, before or after a
    request is sent, or after the response.
    """

    moment: Literal["before", "left", "after"]
    begin: Act
    #: called `AWAY` seconds later
    end: Act | None = None
    #: most seconds without service
    lasts: float = AWAY
    #: late delivery of the request; None without
    delivery: RequestFault | None = None


def _lose_leases(process: Process) -> None:
    process.loses = lambda request: "/leases" in request.path


def _lose_nothing(process: Process) -> None:
    process.loses = lambda _: False


def _step_clock(seconds: float) -> Act:
    def step_clock(process: Process) -> None:
        process.clock.wall_error += seconds

    return step_clock


def _stop_process(process: Process) -> None:
    process.stopping.set()


STOPPED_LATE = "stopped-late"
INTERRUPTIONS = {
    "stopped-before": Interruption("before", Process.freeze, Process.thaw),
    "stopped-left": Interruption("left", Process.freeze, Process.thaw),
    "stopped-after": Interruption("after", Process.freeze, Process.thaw),
    STOPPED_LATE: Interruption(
        "left",
        Process.freeze,
        Process.thaw,
        delivery=RequestFault(OutcomeUnknown("no response"), applied=True, late=_LATE, delay=AWAY),
    ),
    "suspended-before": Interruption("before", Process.suspend, Process.thaw),
    "suspended-after": Interruption("after", Process.suspend, Process.thaw),
    "cut-before": Interruption(
        "before", Process.disconnect, Process.reconnect, AWAY + LIST_TIMEOUT
    ),
    "cut-left": Interruption("left", Process.disconnect, Process.reconnect, AWAY + LIST_TIMEOUT),
    "leases-lost": Interruption("before", _lose_leases, _lose_nothing),
    "terminated-before": Interruption("before", _stop_process, lasts=ENDING),
    "terminated-after": Interruption("after", _stop_process, lasts=ENDING),
    "hour-forth": Interruption("before", _step_clock(HOUR), lasts=0.0),
    "hour-back": Interruption("before", _step_clock(-HOUR), lasts=0.0),
    # a leap second that the kernel inserts: the wall clock repeats it
    "second-back": Interruption("before", _step_clock(-1.0), lasts=0.0),
}

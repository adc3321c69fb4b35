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
from kubedsm.explain.listener import Listener

from kubedsm.app import leadership
from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import Elector, LeaseTimes, NotLeadingError
from kubedsm.app.prometheus import Asker
from kubedsm.config.settings import Configuration
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

#: seconds that a scheduler which is told to end may take, as `kubedsm run` does by default
GRACE = 25.0
LEASE = LeaseName("kubedsm", "kubedsm")


@attrs.define
class ProcessClock:
    """Runs at `rate`; nothing that waits for it goes on while its process is stopped."""

    rate: float
    running: asyncio.Event
    #: seconds by which its wall clock is wrong
    wrong: float = 0.0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self.rate

    def wall(self) -> float:
        return 1_767_225_600.0 + self.wrong + asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.rate)
        await self.running.wait()


class Process:
    """`kubedsm run` on `front`; its requests live in `network`, whatever becomes of the process."""

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
        #: seconds before what the watch of pods says is heard
        self.late = 0.0
        #: called with each request or watch that is about to be sent, and with each answered one
        self.at_send: Callable[[Request], object] = lambda _: None
        self.at_answer: Callable[[Request], object] = lambda _: None
        #: which requests get lost
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
        #: how it ended, if by an error of its own
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
        """How it ended, if not because another process leads."""
        return None if self.ended is None else self.ended.split(NotLeadingError)[1]

    async def wait(self) -> None:
        """Until it is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def kill(self) -> None:
        """As SIGKILL does: nothing more leaves it."""
        self._cut = True
        self._running.set()
        if self._task is not None:
            self._task.cancel()

    def freeze(self) -> None:
        self._running.clear()

    def thaw(self) -> None:
        self._running.set()

    def cut_off(self) -> None:
        """Nothing goes through any more, neither way."""
        self._cut = True

    def heal(self) -> None:
        self._cut = False

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As `Cluster.request`."""
        self.at_send(request)
        await self._running.wait()
        if not request.may_leave():
            raise not_sent(request)
        if self._cut or self.hangs(request):
            await asyncio.sleep(timeout / self.clock.rate)
            await self._running.wait()
            raise Unreachable(f"{request.path}: cut off")
        answer = await self._sent(request, timeout / self.clock.rate)
        await self._running.wait()
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            await self._running.wait()
            raise OutcomeUnknown(f"{request.path}: cut off")
        self.at_answer(request)
        return answer

    async def _sent(self, request: Request, timeout: float) -> Response:
        """What has left arrives, even if nobody waits for the answer any more."""
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
        """As `Cluster.stream`."""
        self.at_send(request)
        await self._running.wait()
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            raise Unreachable(f"{request.path}: cut off")
        async with self._front.stream(request, timeout=timeout / self.clock.rate) as lines:
            self.at_answer(request)
            yield self._heard(lines, of_pods=request.path.endswith("/pods"))

    async def _heard(self, lines: AsyncIterator[bytes], *, of_pods: bool) -> AsyncIterator[bytes]:
        async for line in lines:
            if self.late and of_pods:
                await asyncio.sleep(self.late)
            await self._running.wait()
            if self._cut:
                raise Unreachable("cut off")
            yield line


#: seconds for which it is stopped, or cut off: another leads before, even by a clock at half speed
AWAY = 40.0
#: seconds that one may take to end that was told to, and to be started again
ENDING = 30.0
HOUR = 3600.0
PROCESS = "process"

Act = Callable[[Process], object]


@attrs.frozen
class Interruption:
    """It begins before the call leaves, when it has left, or when its answer has been heard."""

    moment: Literal["before", "left", "after"]
    begin: Act
    #: what ends it, `AWAY` seconds later
    end: Act | None = None
    #: seconds for which the process serves nobody, at most
    lasts: float = AWAY


def _lose_leases(process: Process) -> None:
    process.hangs = lambda request: "/leases" in request.path


def _lose_nothing(process: Process) -> None:
    process.hangs = lambda _: False


def _step(seconds: float) -> Act:
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
    "hour-forth": Interruption("before", _step(HOUR), lasts=0.0),
    "hour-back": Interruption("before", _step(-HOUR), lasts=0.0),
}

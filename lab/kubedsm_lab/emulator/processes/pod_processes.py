"""Container runtime with processes: each pod is a process, restarted until the pod terminates.

Only containers with command `loadgen serve` become processes; others are reported as running.
"""

import asyncio
import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import TracebackType
from typing import Self

import attrs
import structlog

from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import LogThrottle
from kubedsm_lab.emulator.actors.kubelet import UP, ContainerRuntime, Containers
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.processes.forked import Forked, ForkedProcess

log = structlog.get_logger()

#: limit on simultaneous processes; each takes about 10 MB and a share of two cores
MOST = 100
#: seconds between checks of /readyz: of a pod that is not ready, and of a ready one
SOON, PERIOD = 0.1, 5.0
#: failed checks in a row until a ready pod is not ready: failureThreshold
FAILURES = 3
#: delay between termination of a process and its restart, in seconds
_BACK_OFF = Doubling(0.5, 10.0)
_BEGUN = Containers(ready=False)


@attrs.define(eq=False)
class PodProcess:
    """Pod in the process-based container runtime, with the process that currently runs its
    container.
    """

    pod: Object
    #: name and arguments of the running container
    container: str
    arguments: tuple[str, ...]
    changed: Callable[[], None]
    containers: Containers = _BEGUN
    process: ForkedProcess | None = None
    #: timer of the SIGKILL once the pod is to stop
    killing: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None

    @property
    def uid(self) -> str:
        uid: str = self.pod["metadata"]["uid"]
        return uid

    @property
    def name(self) -> tuple[str, str]:
        """Return namespace and name of the pod."""
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    @property
    def node(self) -> str:
        node: str = self.pod["spec"]["nodeName"]
        return node

    def become(self, containers: Containers) -> None:
        if containers != self.containers:
            self.containers = containers
            self.changed()


class PodProcesses(ContainerRuntime):
    """Process-based container runtime; leaving its context terminates all processes.

    `noticed` is called when a process has started or ended.
    """

    def __init__(self, processes: Forked, clock: Clock, most: int = MOST) -> None:
        self._processes = processes
        self._clock = clock
        self._most = most
        self._turn = asyncio.Semaphore(most)
        self._throttle = LogThrottle(clock)
        self._pods: dict[str, PodProcess] = {}
        self._group = asyncio.TaskGroup()
        #: additional environment of a pod's process
        self.environment: Callable[[str], Mapping[str, str]] = lambda _: {}
        self.noticed: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pod in self._pods.values():
            if pod.task is not None:
                pod.task.cancel()
        if kind is None or issubclass(kind, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, traceback)
        else:
            # The block's own exception leaves unchanged.
            await self._group.__aexit__(None, None, None)

    def running(self) -> Iterator[tuple[PodProcess, ForkedProcess]]:
        """Return the pods whose container process currently runs, each with its process."""
        return ((pod, pod.process) for pod in self._pods.values() if pod.process is not None)

    def get(self, uid: str) -> PodProcess | None:
        return self._pods.get(uid)

    # The container runtime.

    def begin(self, pod: Object, changed: Callable[[], None]) -> None:
        served = _find_server(pod)
        if served is None:
            return
        begun = PodProcess(pod, *served, changed)
        self._pods[begun.uid] = begun
        begun.task = self._group.create_task(self._run(begun), name="/".join(begun.name))
        # Not in `finally`, unreachable for a task cancelled before its start.
        begun.task.add_done_callback(lambda _: self._forget_pod(begun))

    def _forget_pod(self, pod: PodProcess) -> None:
        del self._pods[pod.uid]
        pod.changed()

    def of(self, uid: str) -> Containers:
        pod = self._pods.get(uid)
        return UP if pod is None else pod.containers

    def end(self, uid: str, grace: float) -> bool:
        pod = self._pods.get(uid)
        if pod is None:
            return True
        process, when = pod.process, self._clock.monotonic() + grace
        if process is None:
            if pod.task is not None:
                pod.task.cancel()
        elif pod.killing is None or when < pod.killing.when():
            if pod.killing is None:
                process.send(signal.SIGTERM)
            else:
                pod.killing.cancel()
            loop = asyncio.get_running_loop()
            pod.killing = loop.call_at(when, process.send, signal.SIGKILL)
        return False

    def output(self, pod: Object, container: str) -> bytes | None:
        known = self._pods.get(pod["metadata"]["uid"])
        if known is None or known.container != container:
            return None
        return self._processes.output(_file_name(known))

    async def _run(self, pod: PodProcess) -> None:
        """Keep the pod's process running, with restarts, until stopped; the number of concurrent
        processes is limited.
        """
        if self._turn.locked():
            message = f"{self._most} pods run as processes already, and no more may"
            log.warning("pod waits for its process", pod="/".join(pod.name), reason=message)
            pod.become(Containers(False, 0, "RunContainerError", message))
        async with self._turn:
            await self._keep_running(pod)

    async def _keep_running(self, pod: PodProcess) -> None:
        for restarts in itertools.count():
            pod.become(Containers(ready=False, restarts=restarts))
            message = await self._run_once(pod)
            if pod.killing is not None:
                pod.killing.cancel()
                return
            self._throttle.log(log.warning, "pod's process ended", message, pod="/".join(pod.name))
            pod.become(Containers(False, restarts, "CrashLoopBackOff", message))
            await self._clock.sleep(_BACK_OFF.delay_after(restarts))

    async def _run_once(self, pod: PodProcess) -> str:
        """Run the pod's process once until it ends; return the termination reason."""
        environment = self.environment(pod.uid)
        try:
            process = await self._processes.start(_file_name(pod), pod.arguments, environment)
        except OSError as error:
            return f"cannot be started: {error.strerror or error}"
        pod.process = process
        self.noticed()
        try:
            async with asyncio.TaskGroup() as tasks:
                looking = tasks.create_task(self._probe_readiness(pod, process))
                code = await process.ended()
                looking.cancel()
            return f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
        finally:
            process.send(signal.SIGKILL)
            pod.process = None
            self.noticed()

    async def _probe_readiness(self, pod: PodProcess, process: ForkedProcess) -> None:
        """Probe the readiness endpoint of the pod's process periodically, and update the container
        state.
        """
        failures = 0
        while True:
            ready = await process.is_ready()
            failures = 0 if ready else failures + 1
            if ready or failures >= FAILURES:
                pod.become(attrs.evolve(pod.containers, ready=ready))
            await self._clock.sleep(PERIOD if pod.containers.ready else SOON)


def _file_name(pod: PodProcess) -> str:
    return "_".join(pod.name)


def _find_server(pod: Object) -> tuple[str, tuple[str, ...]] | None:
    """Return name and arguments of the first container that is `loadgen serve`."""
    for container in pod["spec"]["containers"]:
        match [*(container.get("command") or ()), *(container.get("args") or ())]:
            case [program, "serve", *arguments] if PurePath(program).name == "loadgen":
                return container["name"], tuple(arguments)
    return None

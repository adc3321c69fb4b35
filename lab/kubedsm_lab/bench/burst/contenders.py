"""Policies as schedulers on the paper's five workers, each a process next to the API server's.

KubeDSM is `kubedsm run`, any other policy a `policy_process`, and the bare loop is itself. During
the burst of one scheduler the others are stopped, so they take no CPU for its pods.
"""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import attrs

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.process.clock import SystemClock
from kubedsm_lab.baselines.registry import KUBEDSM, POLICIES
from kubedsm_lab.bench.burst import bare_loop, policy_process
from kubedsm_lab.bench.burst.result import CPU, BurstResult, Side
from kubedsm_lab.bench.burst.run import Plan
from kubedsm_lab.bench.burst.run import run as run_bursts
from kubedsm_lab.bench.processes import (
    LONGEST_LINE,
    cpu_seconds,
    emulated_cluster,
    end_process,
    family,
)
from kubedsm_lab.replay.hpa.service import NODES

#: Names of the schedulers that can run.
NAMES: Sequence[str] = (
    *POLICIES,
    *(f"{name}{policy_process.BATCHED}" for name in POLICIES if name != KUBEDSM),
    bare_loop.NAME,
)
#: Pods that fit on the workers.
MOST_PODS = sum(int(node["status"]["allocatable"]["pods"]) for node in NODES)
#: Seconds after a burst for its last events, and for the stopped schedulers to catch up.
AFTERGLOW = 1.0
#: Time from a pod's binding to its being Ready.
START_DELAY = "1s"
#: Seconds until a scheduler has synced.
SYNC_TIMEOUT = 120.0
#: Part of the line by which `kubedsm run`, or another process, reports that it has synced.
_READY = (b'"synced"', policy_process.READY)


async def run(plan: Plan, report: Callable[[str], None], keepalive: float) -> BurstResult:
    """Start all schedulers and run the bursts.

    keepalive: seconds after which the bare loop closes an idle connection. Raises ClusterError,
    ChildProcessError if a scheduler ends, and TimeoutError if one does not sync or a burst does not
    end in time.
    """
    clock, contenders = SystemClock(), dict[str, _Contender]()
    async with (
        emulated_cluster(NODES, "--tls", "--start-delay", START_DELAY) as kubeconfig,
        await KubernetesCluster.connect(kubeconfig) as cluster,
        asyncio.TaskGroup() as tasks,
        AsyncExitStack() as processes,
    ):
        for name in plan.schedulers:
            arguments = _arguments(name, kubeconfig, keepalive)
            contenders[name] = await processes.enter_async_context(_run_process(name, arguments))
            tasks.create_task(contenders[name].read_output())
        async with asyncio.timeout(SYNC_TIMEOUT):
            for contender in contenders.values():
                await contender.synced.wait()
        plan = attrs.evolve(plan, pause=AFTERGLOW)
        alone = partial(_stop_others, contenders)
        result = await run_bursts(cluster, clock, random.Random(), report, plan, alone)
    sides = tuple(_add_process_figures(side, contenders[side.scheduler]) for side in result.sides)
    return attrs.evolve(result, sides=sides)


def _arguments(name: str, kubeconfig: Path, keepalive: float) -> Sequence[str]:
    """Return the module that is the scheduler, and its arguments."""
    if name == KUBEDSM:
        # Without leader election: a stopped process would lose its Lease.
        own = ("--kubeconfig", str(kubeconfig), "--leader-elect", "false", "-o", "json")
        return "kubedsm", "run", *own, "--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0"
    if name == bare_loop.NAME:
        return bare_loop.__name__, str(kubeconfig), str(keepalive)
    return policy_process.__name__, str(kubeconfig), name


@attrs.define
class _Contender:
    """Process of a scheduler."""

    name: str
    process: asyncio.subprocess.Process
    synced: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    last_line: bytes = attrs.field(default=b"", init=False)
    #: whether the process may end
    is_done: bool = attrs.field(default=False, init=False)
    #: CPU ms of the process and its children, for each of its bursts
    cpu: list[float] = attrs.field(factory=list, init=False)

    async def read_output(self) -> None:
        """Read to the end. Raises ChildProcessError if the process ends too early."""
        if self.process.stdout is not None:
            async for line in self.process.stdout:
                self.last_line = line
                if any(word in line for word in _READY):
                    self.synced.set()
        if not self.is_done:
            raise ChildProcessError(f"{self.name} has ended by itself")

    @contextmanager
    def measuring_cpu(self) -> Iterator[None]:
        """Raises OSError if the process has ended."""
        before = self._cpu_seconds()
        yield
        self.cpu.append(1000 * (self._cpu_seconds() - before))

    def _cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, family(self.process.pid)))

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # `read_output` raises
            self.process.send_signal(number)


@asynccontextmanager
async def _run_process(name: str, arguments: Sequence[str]) -> AsyncIterator[_Contender]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", *arguments),
        stdout=asyncio.subprocess.PIPE,
        limit=LONGEST_LINE,
    )
    contender = _Contender(name, process)
    try:
        yield contender
    finally:
        contender.is_done = True
        await end_process(process)


@contextmanager
def _stop_others(contenders: Mapping[str, _Contender], scheduler: str) -> Iterator[None]:
    others = [contender for name, contender in contenders.items() if name != scheduler]
    try:
        for other in others:
            other.send(signal.SIGSTOP)
        with contenders[scheduler].measuring_cpu():
            yield
    finally:
        for other in others:
            other.send(signal.SIGCONT)


def _add_process_figures(side: Side, contender: _Contender) -> Side:
    rounds = tuple(
        attrs.evolve(each, figures={**each.figures, CPU: spent})
        for each, spent in zip(side.rounds, contender.cpu, strict=True)
    )
    lookups = policy_process.decode_lookups(contender.last_line)
    return attrs.evolve(side, rounds=rounds, lookups=lookups)

"""The policies as schedulers on the paper's five workers: each a process, beside the API server's.

KubeDSM is `kubedsm run`, any other policy a `policy_process`, and the bare loop is itself. While
one of them has its turn the others stand still: what a process makes of another's pods takes no
time from that one.
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
from kubedsm_lab.bench.soak.processes import (
    LONGEST_LINE,
    cpu_seconds,
    emulated_cluster,
    ended,
    family,
)
from kubedsm_lab.replay.hpa.service import NODES

#: who can have a burst
NAMES: Sequence[str] = (
    *POLICIES,
    *(f"{name}{policy_process.BATCHED}" for name in POLICIES if name != KUBEDSM),
    bare_loop.NAME,
)
#: all pods that the workers take
MOST = sum(int(node["status"]["allocatable"]["pods"]) for node in NODES)
#: seconds for what follows on a burst, and for those that stood still meanwhile to hear of it
AFTERGLOW = 1.0
#: from a pod's binding to its being Ready
START_DELAY = "1s"
#: seconds until a scheduler knows the cluster
PATIENCE = 120.0
#: in the line by which `kubedsm run`, or another, says that it does
_READY = (b'"synced"', policy_process.READY)


def _arguments(name: str, kubeconfig: Path, keepalive: float) -> Sequence[str]:
    """By which Python runs that contender."""
    if name == KUBEDSM:
        # There is one of it, which would lose its Lease while it stands still.
        own = ("--kubeconfig", str(kubeconfig), "--leader-elect", "false", "-o", "json")
        return "kubedsm", "run", *own, "--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0"
    if name == bare_loop.NAME:
        return bare_loop.__name__, str(kubeconfig), str(keepalive)
    return policy_process.__name__, str(kubeconfig), name


@attrs.define
class _Contender:
    name: str
    process: asyncio.subprocess.Process
    #: set once it knows the cluster
    ready: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: what it said last
    last: bytes = attrs.field(default=b"", init=False)
    #: whether it may end
    done: bool = attrs.field(default=False, init=False)
    #: ms of CPU that it and its children took for each of its bursts
    cpu: list[float] = attrs.field(factory=list, init=False)

    async def listen(self) -> None:
        """To the end. Raises ChildProcessError if it comes before its time."""
        if self.process.stdout is not None:
            async for line in self.process.stdout:
                self.last = line
                if any(word in line for word in _READY):
                    self.ready.set()
        if not self.done:
            raise ChildProcessError(f"{self.name} has ended by itself")

    @contextmanager
    def having_its_turn(self) -> Iterator[None]:
        """Raises OSError if it has ended."""
        before = self._cpu_seconds()
        yield
        self.cpu.append(1000 * (self._cpu_seconds() - before))

    def _cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, family(self.process.pid)))

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # `listen` tells
            self.process.send_signal(number)


@asynccontextmanager
async def _started(name: str, arguments: Sequence[str]) -> AsyncIterator[_Contender]:
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
        contender.done = True
        await ended(process)


@contextmanager
def _the_others_stand_still(contenders: Mapping[str, _Contender], scheduler: str) -> Iterator[None]:
    others = [contender for name, contender in contenders.items() if name != scheduler]
    try:
        for other in others:
            other.send(signal.SIGSTOP)
        with contenders[scheduler].having_its_turn():
            yield
    finally:
        for other in others:
            other.send(signal.SIGCONT)


async def run(plan: Plan, report: Callable[[str], None], keepalive: float) -> BurstResult:
    """Start all of them and let them have their bursts.

    keepalive: seconds after which the bare loop lets go of a connection that is idle. Raises
    ClusterError, ChildProcessError if one of them ends, and TimeoutError if one is not ready in
    time, or a burst not at its end.
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
            contenders[name] = await processes.enter_async_context(_started(name, arguments))
            tasks.create_task(contenders[name].listen())
        async with asyncio.timeout(PATIENCE):
            for contender in contenders.values():
                await contender.ready.wait()
        plan = attrs.evolve(plan, pause=AFTERGLOW)
        alone = partial(_the_others_stand_still, contenders)
        result = await run_bursts(cluster, clock, random.Random(), report, plan, alone)
    sides = tuple(_completed(side, contenders[side.scheduler]) for side in result.sides)
    return attrs.evolve(result, sides=sides)


def _completed(side: Side, contender: _Contender) -> Side:
    """With what only its process can tell."""
    rounds = tuple(
        attrs.evolve(each, figures={**each.figures, CPU: spent})
        for each, spent in zip(side.rounds, contender.cpu, strict=True)
    )
    return attrs.evolve(side, rounds=rounds, cache=policy_process.cache_use(contender.last))

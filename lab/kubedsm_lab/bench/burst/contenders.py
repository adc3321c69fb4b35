"""Scheduler processes of the burst benchmark, on the paper's five emulated workers.

KubeDSM is `kubedsm run`, any other policy a `policy_process`. During the burst of one scheduler all
others are stopped, so their processes consume no CPU.
"""

import asyncio
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs

from kubedsm.process.clock import SystemClock
from kubedsm_lab.baselines.registry import KUBEDSM, POLICIES
from kubedsm_lab.bench.burst import bare_loop, policy_process
from kubedsm_lab.bench.burst.result import CPU, BurstResult, Side
from kubedsm_lab.bench.burst.run import Plan
from kubedsm_lab.bench.burst.run import run as run_bursts
from kubedsm_lab.bench.processes import Scheduler, emulated_cluster, run_command
from kubedsm_lab.replay.hpa.service import NODES

#: Names of all available schedulers.
NAMES: Sequence[str] = (
    *POLICIES,
    *(f"{name}{policy_process.BATCHED}" for name in POLICIES if name != KUBEDSM),
    bare_loop.NAME,
)
#: Capacity of the workers in pods.
MOST_PODS = sum(int(node["status"]["allocatable"]["pods"]) for node in NODES)
#: Seconds after a burst for the last events, and for stopped schedulers to catch up.
AFTERGLOW = 1.0
#: Time from bound to Ready.
START_DELAY = "1s"
#: Seconds until a scheduler has synced.
SYNC_TIMEOUT = 120.0


async def run(plan: Plan, report: Callable[[str], None], keepalive: float) -> BurstResult:
    """Start an emulated cluster and all schedulers, and run the bursts.

    The bare loop closes a connection that is idle for `keepalive` seconds. Raises ClusterError,
    ChildProcessError if a scheduler ends, and TimeoutError if synchronisation or a burst takes too
    long.
    """
    clock, cpu = SystemClock(), defaultdict[str, list[float]](list)
    options = ("--tls", "--start-delay", START_DELAY)
    async with emulated_cluster(NODES, *options) as (kubeconfig, cluster):
        schedulers = {
            name: Scheduler(_command(name, kubeconfig, keepalive), clock)
            for name in plan.schedulers
        }
        async with asyncio.TaskGroup() as tasks:
            for scheduler in schedulers.values():
                tasks.create_task(scheduler.run())
            async with asyncio.timeout(SYNC_TIMEOUT):
                for scheduler in schedulers.values():
                    await scheduler.log.synced.wait()
            plan = attrs.evolve(plan, pause=AFTERGLOW)
            alone = partial(_stop_others, schedulers, cpu)
            result = await run_bursts(cluster, clock, report, plan, alone)
            await asyncio.gather(*(scheduler.stop() for scheduler in schedulers.values()))
    sides = tuple(
        _add_process_figures(side, cpu[side.scheduler], schedulers[side.scheduler])
        for side in result.sides
    )
    return attrs.evolve(result, sides=sides)


def _command(name: str, kubeconfig: Path, keepalive: float) -> Sequence[str]:
    """Return the Python module and arguments that start the named scheduler."""
    if name == KUBEDSM:
        # Without leader election: a stopped process would lose its Lease.
        return run_command(kubeconfig, "--leader-elect", "false")
    if name == bare_loop.NAME:
        return bare_loop.__name__, str(kubeconfig), str(keepalive)
    return policy_process.__name__, str(kubeconfig), name


@contextmanager
def _stop_others(
    schedulers: Mapping[str, Scheduler], cpu: Mapping[str, list[float]], name: str
) -> Iterator[None]:
    """Stop all other scheduler processes (SIGSTOP) during the block, and append the CPU ms that the
    named scheduler used.
    """
    others = [scheduler for other, scheduler in schedulers.items() if other != name]
    try:
        for other in others:
            other.send(signal.SIGSTOP)
        before = sum(schedulers[name].cpu_seconds())
        yield
        cpu[name].append(1000 * (sum(schedulers[name].cpu_seconds()) - before))
    finally:
        for other in others:
            other.send(signal.SIGCONT)


def _add_process_figures(side: Side, cpu: Sequence[float], scheduler: Scheduler) -> Side:
    rounds = tuple(
        attrs.evolve(each, figures={**each.figures, CPU: spent})
        for each, spent in zip(side.rounds, cpu, strict=True)
    )
    lookups = policy_process.decode_lookups(scheduler.last_lines["stdout"])
    return attrs.evolve(side, rounds=rounds, lookups=lookups)

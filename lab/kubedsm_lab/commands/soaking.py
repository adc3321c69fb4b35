"""`kubedsm bench soak`: tenants for half an hour, one of them odd, and harm done meanwhile."""

import asyncio
import random
import sys
from contextlib import AsyncExitStack

from kubedsm.cli.console import log_to, print_json
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.console import Console
from kubedsm_lab.bench.soak import harm, run
from kubedsm_lab.bench.soak.line import Line
from kubedsm_lab.bench.soak.processes import Scheduler, emulated_cluster
from kubedsm_lab.bench.soak.run import SoakShape
from kubedsm_lab.bench.soak.verdict import SoakResult
from kubedsm_lab.commands.tables import soak_table


def soak(
    minutes: float,
    rate: float,
    odd: tuple[str, ...],
    odd_pods: int,
    seed: int,
    replicas: int,
    kill_every: float,
    cut_every: float,
    output: str,
) -> None:
    log_to(level="ERROR")
    seconds = 60 * minutes
    ways = tuple(way for way in dict.fromkeys(odd) if way != "none")
    shape = SoakShape(
        seconds,
        rate,
        lifetime=min(run.LIFETIME, seconds / 4),
        odd=ways,
        odd_pods=odd_pods,
        kill_every=kill_every,
        cut_every=cut_every,
        burst=harm.BURST if kill_every or cut_every else 1,
    )
    result = asyncio.run(_soak(shape, replicas, random.Random(seed)))
    if output == "json":
        print_json(result.as_json())
    else:
        Console().print(soak_table(result))
    if not result.kept:
        sys.exit(1)


async def _soak(shape: SoakShape, replicas: int, rng: random.Random) -> SoakResult:
    clock = SystemClock()
    async with (
        emulated_cluster(run.CLUSTER) as path,
        await KubernetesCluster.connect(path) as cluster,
        AsyncExitStack() as stack,
    ):
        lines = [
            await stack.enter_async_context(Line(cluster.server, clock))
            for _ in range(replicas if shape.cut_every else 0)
        ]
        paths = [
            line.kubeconfig(path, path.with_name(f"line-{number}"))
            for number, line in enumerate(lines)
        ]
        options = harm.options(path.parent) if shape.harmed else ()
        schedulers = [Scheduler(each, clock, *options) for each in paths or [path] * replicas]
        return await run.run(cluster, schedulers, lines, clock, rng, shape)

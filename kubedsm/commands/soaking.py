"""`kubedsm bench soak`: tenants for half an hour, one of them odd, and harm done meanwhile."""

import asyncio
import random
import sys
from contextlib import AsyncExitStack

import click
from rich.console import Console

from kubedsm.bench.soak import harm, run
from kubedsm.bench.soak.line import Line
from kubedsm.bench.soak.oddities import ODDITIES
from kubedsm.bench.soak.processes import Scheduler, emulated_cluster
from kubedsm.bench.soak.run import SoakShape
from kubedsm.bench.soak.verdict import SoakResult
from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.commands.console import log_to, print_json
from kubedsm.commands.options import output
from kubedsm.commands.tables import soak_table


@click.command()
@click.option(
    "--minutes", type=click.FloatRange(0.1, 10_000), default=30.0, help="How long it goes on."
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 100),
    default=2.0,
    show_default=True,
    help="New Deployments a second.",
)
@click.option(
    "--odd",
    type=click.Choice([*ODDITIES, "none"]),
    multiple=True,
    default=list(ODDITIES),
    show_default=True,
    help="In which ways the odd tenant is odd.",
)
@click.option(
    "--odd-pods",
    type=click.IntRange(1, 500),
    default=run.ODD_PODS,
    show_default=True,
    help="How many pods it makes at once in each way.",
)
@click.option("--seed", type=int, default=0, help="Seed of what is done.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="How many `kubedsm run` there are.",
)
@click.option(
    "--kill-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds from one SIGKILL to the next, of the leader for the most part; now and then it is"
    " paused, too, for longer than its Lease lasts.",
)
@click.option(
    "--cut-every",
    type=click.FloatRange(0, 10_000),
    default=0.0,
    show_default="never",
    help="Seconds until the lines to the API server fail again: reset, stalled, or broken off"
    " halfway through an answer.",
)
@output
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
    """Many tenants and an odd one: are all others served as usual?

    Tenants come and go over HTTP.
    The odd one asks for absurd amounts, overlapping spread selectors and forged marks. Both the
    API server, `kubedsm emulate`, and `kubedsm run` are processes of their own. With --kill-every
    and --cut-every harm is done to them, but for a while in the beginning and at the end. Exit code
    1 if a promise is broken.
    """
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

"""What `kubedsm run` costs as a process, at each size of a cluster."""

import asyncio

import click

from kubedsm.bench import footprint
from kubedsm.bench.scale.world import Size
from kubedsm.bench.soak.processes import Scheduler, emulated_cluster
from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.commands.benching.showing import report, say, sizes
from kubedsm.commands.console import log_to
from kubedsm.commands.options import output
from kubedsm.commands.tables import scale_table
from kubedsm.emulator.paper import paper_cluster


@click.command("loop")
@click.option("--nodes", type=click.IntRange(1, 100_000), default=1000, help="How many.")
@click.option("--pods", type=click.IntRange(1, 1_000_000), default=10_000, help="That run there.")
@output
def loop(nodes: int, pods: int, output: str) -> None:
    """How long hard bursts hold the event loop up (10 s).

    The longest turn of each part of the scheduler, and the longest of what is done in them.
    """
    from kubedsm.bench.scale import holding  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    report(holding.run(Size(nodes, pods)), output)


@click.command("scale")
@click.option(
    "--nodes", default="100,1000,5000", callback=sizes, help="Of each size, separated by commas."
)
@click.option(
    "--pods", default="1000,10000,50000", callback=sizes, help="Of each size, separated by commas."
)
@click.option("--rounds", type=click.IntRange(1, 1000), default=11, help="Of each pair, in turn.")
@click.option("--suggestions", type=click.IntRange(0, 1000), default=3, help="Rounds of these.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, 100_000),
    default=30.0,
    help="How long pods come and go, and how long it is quiet then; 0 for no `kubedsm run`.",
)
@output
def scale(
    nodes: tuple[int, ...],
    pods: tuple[int, ...],
    rounds: int,
    suggestions: int,
    seconds: float,
    output: str,
) -> None:
    """What everything costs at each size.

    Decisions and suggestions beside the same on a snapshot of which nothing was kept along,
    reading beside kubernetes_asyncio's typed models. Then `kubedsm run`, beside `kubedsm emulate`:
    200 pod events a second, bursts, suggestions.
    """
    from kubedsm.bench.scale import run as bench_scale  # noqa: PLC0415  the models load slowly

    if len(nodes) != len(pods):
        raise click.UsageError("--nodes and --pods: not as many of the one as of the other")
    log_to(level="ERROR")
    for size in map(Size, nodes, pods):
        result = bench_scale.run(size, rounds=rounds, suggestions=suggestions, seconds=seconds)
        say(result.as_json(), scale_table(result), output)


@click.command("idle")
@click.option("--nodes", type=click.IntRange(1, 5000), default=5000, help="How many.")
@click.option("--pods", type=click.IntRange(1, 10_000), default=1000, help="How many.")
@click.option(
    "--seconds", type=click.FloatRange(1, 100_000), default=60.0, help="How long it is watched."
)
@click.option(
    "--heartbeat",
    type=click.FloatRange(1, 100_000),
    default=footprint.HEARTBEAT,
    help="Seconds between two reports of a node; a kubelet without news waits for 300.",
)
@output
def idle(nodes: int, pods: int, seconds: float, heartbeat: float, output: str) -> None:
    """What `kubedsm run` costs while nothing is to be done.

    It has bound the pods, nodes report their status, and metrics are scraped each 15 seconds.
    The API server is `kubedsm emulate` in a process of its own.
    """
    if pods > nodes * footprint.PODS_OF_A_NODE:
        raise click.UsageError(f"--pods: more than {footprint.PODS_OF_A_NODE} for each node")
    log_to(level="ERROR")

    async def measured() -> footprint.IdleResult:
        clock = SystemClock()
        async with (
            emulated_cluster(footprint.nodes(nodes)) as path,
            await KubernetesCluster.connect(path) as cluster,
        ):
            scheduler = Scheduler(path, clock)
            return await footprint.idle(
                cluster, scheduler, clock, pods=pods, seconds=seconds, beat=heartbeat
            )

    report(asyncio.run(measured()), output)


@click.command("start")
@click.option("--rounds", type=click.IntRange(1, 50), default=5, help="How often.")
@output
def start(rounds: int, output: str) -> None:
    """The first bind of `kubedsm run`, beside importing it.

    From starting it, while a Deployment waits on the paper's four nodes.
    The API server is `kubedsm emulate` in a process of its own.
    """
    log_to(level="ERROR")

    async def measured() -> footprint.StartResult:
        async with (
            emulated_cluster(paper_cluster().nodes) as path,
            await KubernetesCluster.connect(path) as cluster,
        ):
            return await footprint.start(cluster, path, SystemClock(), rounds=rounds)

    report(asyncio.run(measured()), output)

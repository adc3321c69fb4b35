"""`kubedsm bench`: one side beside the other, and the ratio."""

import asyncio
import math
import random
from pathlib import Path
from typing import Any

import click
import structlog
from rich.console import Console, RenderableType
from rich.progress import Progress

from kubedsm.bench import bare_loop, burst, cluster_burst, footprint
from kubedsm.bench import match as bench_match
from kubedsm.bench.cluster_burst import ClusterBurstResult
from kubedsm.bench.scale.world import Size
from kubedsm.bench.soak.processes import Scheduler, emulated_cluster
from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.paths import is_name
from kubedsm.commands.console import log_to, output, print_json, until_interrupted
from kubedsm.commands.inputs import kubeconfig_context
from kubedsm.commands.soaking import soak
from kubedsm.commands.tables import (
    bench_table,
    cluster_burst_table,
    pack_table,
    scale_table,
    sites_table,
    solve_table,
)
from kubedsm.emulator.paper import paper_cluster
from kubedsm.replay.runner import processors
from kubedsm.solvers.available import installed


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(",")))
    for name in names:
        if not is_name(name):
            raise click.BadParameter(f"{name!r} is no name of a scheduler")
    return names


def _sizes(_: click.Context, __: click.Parameter, value: str) -> tuple[int, ...]:
    counts = value.split(",")
    if not all(count.isascii() and count.isdecimal() and int(count) for count in counts):
        raise click.BadParameter(f"{value!r} is no list of numbers from 1 up, such as 100,1000")
    return tuple(map(int, counts))


@click.group()
def bench() -> None:
    """Measure one side beside another, and print the ratio."""


bench.add_command(soak)


@bench.command("match")
@click.option("--pods", type=click.IntRange(1, 18), default=16, help="How many.")
@click.option("--nodes", type=click.IntRange(1, 10), default=3, help="How many.")
@output
def match(pods: int, nodes: int, output: str) -> None:
    """Algorithm 8 on counts, beside its textbook bitmask form (10 s)."""
    _report(bench_match.run(pods=pods, nodes=nodes).as_json(), output)


@bench.command("suggest")
@output
def suggest(output: str) -> None:
    """The suggester, beside its literal form and enumeration (40 s)."""
    from kubedsm.bench import suggest as bench_suggest  # noqa: PLC0415  of no use elsewhere

    _report(bench_suggest.run().as_json(), output)


@bench.command("solve")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1, 10_000),
    default=200,
    help="Batches; half as many with rules, and clusters.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Draws them.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=1.0, help="Of the solver, for each programme."
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    show_default="none: by seconds",
    help="Of the solver's search, instead of seconds: the same results, however busy the machine.",
)
@click.option(
    "--oracle-seconds",
    "patience",
    type=click.FloatRange(1),
    default=60.0,
    help="How long the best may be looked for; what is not found by then is bounded.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 1024), show_default="one a processor", help="Processes."
)
@output
def solve(
    number: int,
    seed: int,
    seconds: float,
    nodes: int | None,
    patience: float,
    jobs: int | None,
    output: str,
) -> None:
    """Decisions beyond the bounds, beside the best (20 minutes).

    Batches to place, half as many with rules among their pods, and as many clusters of 9 to 16
    workloads to move pods in until nothing more is suggested: KubeDSM with its solver and without,
    kube-scheduler's rules, and the best, which HiGHS finds by a model of its own.
    """
    if not installed("highs"):
        raise click.ClickException("highspy is not installed: the best cannot be found")
    from kubedsm.bench.solve import run as bench_solve  # noqa: PLC0415  of no use elsewhere

    planned = bench_solve.tasks(
        number,
        seed,
        seconds=math.inf if nodes else seconds,
        nodes=nodes,
        patience=patience,
    )
    with Progress(console=Console(stderr=True), transient=True) as progress:
        at = progress.add_task("instances", total=sum(map(len, planned)))
        result = bench_solve.run(*planned, jobs or processors(), lambda: progress.advance(at))
    _say(result.as_json(), solve_table(result), output)


@bench.command("pack")
@click.option("-n", "--instances", type=click.IntRange(1, 1000), default=3, help="Of each size.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 1000), default=1.0, help="That each may take."
)
@click.option(
    "--gaps/--no-gaps",
    default=True,
    help="Whether pods that move may be missing meanwhile, as in the paper.",
)
@output
def pack(instances: int, seconds: float, gaps: bool, output: str) -> None:
    """Packing all pods, with each solver beside none (60 s).

    The instances of "Priority Matters", 4 x 4 to 32 x 8, full to the brim, without evictions.
    """
    from kubedsm.bench import pack as bench_pack  # noqa: PLC0415  of no use elsewhere

    results = bench_pack.run(instances, seconds, gaps=gaps)
    _say([result.as_json() for result in results], pack_table(results), output)


@bench.command("ingest")
@click.option("--events", type=click.IntRange(1, 100_000), default=400, help="How many.")
@output
def ingest(events: int, output: str) -> None:
    """Reading watch lines, beside kubernetes_asyncio's typed models."""
    from kubedsm.bench import ingest as bench_ingest  # noqa: PLC0415  they take long to load

    _report(bench_ingest.run(events=events).as_json(), output)


@bench.command("rules")
@click.option("--pods", type=click.IntRange(1, 2000), default=200, help="Of the batch.")
@click.option("--nodes", type=click.IntRange(1, 5000), default=500, help="How many.")
@output
def rules(pods: int, nodes: int, output: str) -> None:
    """Hard spread and anti-affinity, beside asking every rule (30 s).

    A batch of pods; 500 that want to be even over the zones of 1,000 nodes, and 50 that want to be
    apart there, both beside 10,000 others; and one class of pods on 5,000 nodes.
    """
    from kubedsm.bench import rules as bench_rules  # noqa: PLC0415  of no use elsewhere

    _report(bench_rules.run(pods=pods, nodes=nodes).as_json(), output)


@bench.command("load")
@output
def load(output: str) -> None:
    """Placing by measured load, beside where nothing is measured (5 s)."""
    from kubedsm.bench import load as bench_load  # noqa: PLC0415  of no use elsewhere

    _report(bench_load.run(), output)


@bench.command("queue")
@click.option("--pods", type=click.IntRange(1, 100_000), default=5000, help="That wait in vain.")
@click.option("--classes", type=click.IntRange(1, 1000), default=10, help="Of pods alike.")
@click.option("--minutes", type=click.IntRange(1, 1000), default=10, help="Of virtual time.")
@output
def queue(pods: int, classes: int, minutes: int, output: str) -> None:
    """Events while many pods wait, beside asking each of them (60 s).

    And what is written about these pods, while nothing happens that could help them.
    """
    from kubedsm.bench import queue as bench_queue  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    _report(bench_queue.run(pods=pods, classes=classes, minutes=minutes).as_json(), output)


@bench.command("burst")
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, help="How many.")
@click.option("--rounds", type=click.IntRange(1, 50), default=11, help="Of each side, in turns.")
@click.option(
    "--silence",
    type=click.FloatRange(0, 3600),
    default=30.0,
    help="Seconds before each round; not on a real cluster.",
)
@click.option(
    "--keepalive",
    type=click.FloatRange(0, bare_loop.FOREVER),
    default=bare_loop.FOREVER,
    show_default="for ever",
    help="Seconds after which the bare loop lets go of an idle connection; aiohttp's: 15.",
)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    help="Of a real cluster, on which schedulers that run there are compared, instead.",
)
@kubeconfig_context
@click.option(
    "--schedulers",
    default="kubedsm,default-scheduler",
    callback=_names,
    help="On a real cluster: which, separated by commas; ratios are the first one's to the others.",
)
@click.option(
    "--image", default="registry.k8s.io/pause:3.9", help="On a real cluster: of the pods."
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 100_000),
    default=120.0,
    help="On a real cluster: seconds that a burst may take to be Ready, and to be gone.",
)
@output
def burst_command(
    pods: int,
    rounds: int,
    silence: float,
    keepalive: float,
    kubeconfig_path: Path | None,
    context: str | None,
    schedulers: tuple[str, ...],
    image: str,
    timeout: float,
    output: str,
) -> None:
    """A burst over HTTPS, beside a bare loop that only posts binds.

    The pods of one Deployment, all at once, from created to bound.
    The API server, `kubedsm emulate --tls`, and both sides are processes of their own. With
    --kubeconfig it is that of a real cluster, in a namespace of its own, deleted at the end.
    """
    if kubeconfig_path is None:
        log_to(level="ERROR")
        _report(asyncio.run(_burst(pods, rounds, silence, keepalive)).as_json(), output)
        return
    log_to(level="WARNING")
    found: list[ClusterBurstResult] = []

    async def measured() -> None:
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            found.append(
                await cluster_burst.run(
                    cluster,
                    SystemClock(),
                    random.Random(),
                    structlog.get_logger().warning,
                    schedulers=schedulers,
                    pods=pods,
                    rounds=rounds,
                    patience=timeout,
                    image=image,
                )
            )

    until_interrupted(measured())
    if not found:
        raise click.Abort
    _say(found[0].as_json(), cluster_burst_table(found[0]), output)


async def _burst(pods: int, rounds: int, silence: float, keepalive: float) -> burst.BurstResult:
    async with (
        burst.server(pods) as path,
        await KubernetesCluster.connect(path) as cluster,
    ):
        return await burst.run(
            cluster,
            path,
            SystemClock(),
            pods=pods,
            rounds=rounds,
            silence=silence,
            keepalive=keepalive,
        )


_SIZES = "Of each size, separated by commas."


@bench.command("loop")
@click.option("--nodes", type=click.IntRange(1, 100_000), default=1000, help="How many.")
@click.option("--pods", type=click.IntRange(1, 1_000_000), default=10_000, help="That run there.")
@output
def loop(nodes: int, pods: int, output: str) -> None:
    """How long hard bursts hold the event loop up (10 s).

    The longest turn of each part of the scheduler, and the longest of what is done in them.
    """
    from kubedsm.bench.scale import holding  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    held = holding.run(Size(nodes, pods))
    _report({str(each.burst): each.as_json() for each in held}, output)


@bench.command("scale")
@click.option("--nodes", default="100,1000,5000", callback=_sizes, help=_SIZES)
@click.option("--pods", default="1000,10000,50000", callback=_sizes, help=_SIZES)
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
        _say(result.as_json(), scale_table(result), output)


@bench.command("idle")
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

    _report(asyncio.run(measured()).as_json(), output)


@bench.command("start")
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

    _report(asyncio.run(measured()).as_json(), output)


@bench.command("site")
@output
def site(output: str) -> None:
    """Sites that are cut off, beside not knowing of sites (5 s).

    An emulated edge site goes away and comes back, in virtual time: for 4 minutes, for 15, and
    again and again. And beside kube-scheduler's rules, which move nothing.
    """
    from kubedsm.bench import sites  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    result = sites.run()
    _say(result, sites_table(result), output)


def _report(rows: dict[str, Any], output: str) -> None:
    _say(rows, bench_table(rows), output)


def _say(said: Any, shown: RenderableType, output: str) -> None:
    if output == "json":
        print_json(said)
    else:
        Console().print(shown)

"""`kubedsm bench`: one side beside the other, and the ratio."""

import asyncio
import random
from typing import Any

import click
from rich.console import Console

from kubedsm.bench import burst
from kubedsm.bench import match as bench_match
from kubedsm.clock import SystemClock
from kubedsm.cluster.kubernetes import KubernetesCluster
from kubedsm.commands.console import log_to, output, print_json
from kubedsm.tables import bench_table


@click.group()
def bench() -> None:
    """Measure one side beside another, and print the ratio."""


@bench.command("match")
@click.option("--pods", type=click.IntRange(1, 18), default=16, show_default=True)
@click.option("--nodes", type=click.IntRange(1, 10), default=3, show_default=True)
@output
def match(pods: int, nodes: int, output: str) -> None:
    """Algorithm 8: the count-vector form beside the plain-Python bitmask (about 10 s)."""
    _report(bench_match.run(pods=pods, nodes=nodes).as_json(), output)


@bench.command("suggest")
@output
def suggest(output: str) -> None:
    """The suggester's two forms beside the literal one and beside enumeration (about 40 s)."""
    from kubedsm.bench import suggest as bench_suggest  # noqa: PLC0415  of no use elsewhere

    _report(bench_suggest.run().as_json(), output)


@bench.command("ingest")
@click.option("--events", type=click.IntRange(1, 100_000), default=400, show_default=True)
@output
def ingest(events: int, output: str) -> None:
    """Watch lines to pods: ours beside the typed models of kubernetes_asyncio."""
    from kubedsm.bench import ingest as bench_ingest  # noqa: PLC0415  they take long to load

    _report(bench_ingest.run(events=events).as_json(), output)


@bench.command("rules")
@click.option("--pods", type=click.IntRange(1, 2000), default=200, show_default=True)
@click.option("--nodes", type=click.IntRange(1, 5000), default=500, show_default=True)
@output
def rules(pods: int, nodes: int, output: str) -> None:
    """Hard spread and anti-affinity: a batch, and one class on 5,000 nodes (about 10 s)."""
    from kubedsm.bench import rules as bench_rules  # noqa: PLC0415  of no use elsewhere

    _report(bench_rules.run(pods=pods, nodes=nodes).as_json(), output)


@bench.command("burst")
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 50), default=11, show_default=True)
@output
def burst_command(pods: int, rounds: int, output: str) -> None:
    """Pods of one Deployment at once over HTTP: KubeDSM beside a bare loop that posts binds.

    The API server is `kubedsm emulate` in a process of its own.
    """
    log_to(level="ERROR")
    _report(asyncio.run(_burst(pods, rounds)).as_json(), output)


async def _burst(pods: int, rounds: int) -> burst.BurstResult:
    async with (
        burst.server(pods) as path,
        await KubernetesCluster.connect(path) as cluster,
    ):
        return await burst.run(cluster, SystemClock(), random.Random(0), pods=pods, rounds=rounds)


def _report(rows: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(rows)
    else:
        Console().print(bench_table(rows))

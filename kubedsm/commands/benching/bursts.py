"""Bursts of pods: over HTTPS, and on real clusters."""

import asyncio
import random
from pathlib import Path

import click
import structlog

from kubedsm.bench import bare_loop, burst, cluster_burst
from kubedsm.bench.cluster_burst import ClusterBurstResult
from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.paths import is_name
from kubedsm.commands.benching.showing import report, say
from kubedsm.commands.console import log_to, output, until_interrupted
from kubedsm.commands.inputs import kubeconfig_context
from kubedsm.commands.tables import cluster_burst_table


def _names(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(",")))
    for name in names:
        if not is_name(name):
            raise click.BadParameter(f"{name!r} is no name of a scheduler")
    return names


@click.command("burst")
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
        report(asyncio.run(_burst(pods, rounds, silence, keepalive)).as_json(), output)
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
    say(found[0].as_json(), cluster_burst_table(found[0]), output)


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

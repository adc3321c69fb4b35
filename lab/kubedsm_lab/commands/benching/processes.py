"""What `kubedsm run` costs as a process, at each size of a cluster."""

import asyncio

import click

from kubedsm.cli.console import log_to
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.process.clock import SystemClock
from kubedsm_lab.bench import footprint, viewing
from kubedsm_lab.bench.scale.world import Size
from kubedsm_lab.bench.soak.processes import Scheduler, emulated_cluster
from kubedsm_lab.commands.benching.showing import report, say
from kubedsm_lab.commands.tables import scale_table
from kubedsm_lab.emulator.paper import paper_cluster


def loop(nodes: int, pods: int, output: str) -> None:
    from kubedsm_lab.bench.scale import holding  # noqa: PLC0415  of no use elsewhere

    log_to(level="ERROR")
    report(holding.run(Size(nodes, pods)), output)


def scale(
    nodes: tuple[int, ...],
    pods: tuple[int, ...],
    rounds: int,
    suggestions: int,
    seconds: float,
    output: str,
) -> None:
    from kubedsm_lab.bench.scale import run as bench_scale  # noqa: PLC0415  the models load slowly

    if len(nodes) != len(pods):
        raise click.UsageError("--nodes and --pods: not as many of the one as of the other")
    log_to(level="ERROR")
    for size in map(Size, nodes, pods):
        result = bench_scale.run(size, rounds=rounds, suggestions=suggestions, seconds=seconds)
        say(result.as_json(), scale_table(result), output)


def idle(nodes: int, pods: int, seconds: float, heartbeat: float, output: str) -> None:
    _check_room(pods, nodes)
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


def page(nodes: int, pods: int, viewers: int, rounds: int, seconds: float, output: str) -> None:
    _check_room(pods, nodes)
    log_to(level="ERROR")

    async def measured() -> viewing.ViewingResult:
        clock = SystemClock()
        async with (
            emulated_cluster(footprint.nodes(nodes)) as path,
            await KubernetesCluster.connect(path) as cluster,
        ):
            return await viewing.run(
                cluster,
                Scheduler(path, clock, "--page"),
                clock,
                pods=pods,
                viewers=viewers,
                rounds=rounds,
                seconds=seconds,
            )

    report(asyncio.run(measured()), output)


def start(rounds: int, output: str) -> None:
    log_to(level="ERROR")

    async def measured() -> footprint.StartResult:
        async with (
            emulated_cluster(paper_cluster().nodes) as path,
            await KubernetesCluster.connect(path) as cluster,
        ):
            return await footprint.start(cluster, path, SystemClock(), rounds=rounds)

    report(asyncio.run(measured()), output)


def _check_room(pods: int, nodes: int) -> None:
    """Raises UsageError."""
    if pods > nodes * footprint.PODS_OF_A_NODE:
        raise click.UsageError(f"--pods: more than {footprint.PODS_OF_A_NODE} for each node")

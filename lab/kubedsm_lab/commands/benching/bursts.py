"""Bursts of pods: under policies on an emulated cluster, and under schedulers of real ones."""

import random
from pathlib import Path

import click
import structlog

from kubedsm.cli.console import log_to, print_json, until_interrupted
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.echo import echo
from kubedsm_lab.bench.burst import bare_loop, contenders
from kubedsm_lab.bench.burst.result import BurstResult
from kubedsm_lab.bench.burst.run import Plan
from kubedsm_lab.bench.burst.run import run as run_bursts
from kubedsm_lab.bench.burst.tables import tables

#: seconds of silence before a round, where the machine is ours
_SILENCE = 30.0
#: by the name of their parameter: options that only one of the two sorts of cluster has
_REAL = {"context": "--context", "schedulers": "--schedulers", "image": "--image"}
_EMULATED = {"policies": "--policies", "keepalive": "--keepalive"}


def burst_command(
    pods: int,
    rounds: int,
    policies: tuple[str, ...],
    silence: float | None,
    keepalive: float,
    kubeconfig_path: Path | None,
    context: str | None,
    schedulers: tuple[str, ...],
    image: str,
    timeout: float,
    output: str,
) -> None:
    given = click.get_current_context()
    _check(given, pods, policies, real=kubeconfig_path is not None)
    usual = _SILENCE if kubeconfig_path is None else 0.0
    plan = Plan(
        schedulers=policies if kubeconfig_path is None else schedulers,
        pods=pods,
        rounds=rounds,
        patience=timeout,
        image=image,
        silence=usual if silence is None else silence,
    )
    log_to(level="WARNING")
    found: list[BurstResult] = []

    async def measured() -> None:
        report = structlog.get_logger().warning
        if kubeconfig_path is None:
            found.append(await contenders.run(plan, report, keepalive))
            return
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            found.append(await run_bursts(cluster, SystemClock(), random.Random(), report, plan))

    until_interrupted(measured())
    if not found:
        raise click.Abort
    if output == "json":
        print_json(found[0].as_json())
    else:
        echo(tables(found[0]), nl=False)


def _check(given: click.Context, pods: int, policies: tuple[str, ...], *, real: bool) -> None:
    """Raises UsageError for options that say nothing here."""
    default = click.core.ParameterSource.DEFAULT
    for name, flag in (_EMULATED if real else _REAL).items():
        if given.get_parameter_source(name) is not default:
            about = "not for a real cluster" if real else "for a real cluster, with --kubeconfig"
            raise click.UsageError(f"{flag} is {about}")
    if real:
        return
    if pods > contenders.MOST:
        raise click.UsageError(f"the paper's five workers take {contenders.MOST} pods, not {pods}")
    if given.get_parameter_source("keepalive") is not default and bare_loop.NAME not in policies:
        raise click.UsageError(
            f"--keepalive is about {bare_loop.NAME}, which --policies leaves out"
        )

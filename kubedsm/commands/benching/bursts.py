"""Bursts of pods: under policies on an emulated cluster, and under schedulers of real ones."""

import random
from pathlib import Path

import click
import structlog

from kubedsm.bench.burst import bare_loop, contenders
from kubedsm.bench.burst.policy_process import BATCHED
from kubedsm.bench.burst.result import BurstResult
from kubedsm.bench.burst.run import Plan
from kubedsm.bench.burst.run import run as run_bursts
from kubedsm.bench.burst.tables import tables
from kubedsm.clock import SystemClock
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.paths import is_name
from kubedsm.commands.console import log_to, print_json, until_interrupted
from kubedsm.commands.options import kubeconfig_context, output
from kubedsm.core.policies.registry import KUBEDSM

_POLICIES = f"{KUBEDSM},{bare_loop.NAME}"
_WITHOUT_BATCHED = [name for name in contenders.NAMES if not name.endswith(BATCHED)]
_SCHEDULERS = f"{KUBEDSM},default-scheduler"
#: seconds of silence before a round, where the machine is ours
_SILENCE = 30.0
#: by the name of their parameter: options that only one of the two sorts of cluster has
_REAL = {"context": "--context", "schedulers": "--schedulers", "image": "--image"}
_EMULATED = {"policies": "--policies", "keepalive": "--keepalive"}


def _names(value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return names


def _schedulers(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if not is_name(name):
            raise click.BadParameter(f"{name!r} is no name of a scheduler")
    return names


def _policies(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        if name not in contenders.NAMES:
            raise click.BadParameter(f"no policy {name!r}: there are {', '.join(_WITHOUT_BATCHED)}")
    return names


@click.command("burst")
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, help="How many.")
@click.option("--rounds", type=click.IntRange(1, 50), default=11, help="Of each of them, in turns.")
@click.option(
    "--policies",
    default=_POLICIES,
    callback=_policies,
    help=f"Of {', '.join(_WITHOUT_BATCHED)}; all but kubedsm take one pod at a time, or,"
    f" with {BATCHED} behind the name, all that wait. Ratios are the first one's to the others.",
)
@click.option(
    "--silence",
    type=click.FloatRange(0, 3600),
    show_default=f"{_SILENCE:g}; on a real cluster 0",
    help="Seconds before each round.",
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
    default=_SCHEDULERS,
    callback=_schedulers,
    help="On a real cluster: which, separated by commas; ratios are the first one's to the others.",
)
@click.option(
    "--image", default="registry.k8s.io/pause:3.9", help="On a real cluster: of the pods."
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 100_000),
    default=120.0,
    help="Seconds that a burst may take to be Ready, and to be gone.",
)
@output
@click.pass_context
def burst_command(
    given: click.Context,
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
    """A burst under one scheduler after another: how soon, how even.

    The pods of one Deployment, all at once, from created to bound to Ready, and how they lie on the
    nodes; beside what the paper of the rotating score cache published. The API server, `kubedsm
    emulate --tls` with the paper's five workers, and all schedulers are processes of their own;
    bare-loop only posts binds. With --kubeconfig it is a real cluster, in a namespace of its own,
    deleted at the end.
    """
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
        click.echo(tables(found[0]), nl=False)


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

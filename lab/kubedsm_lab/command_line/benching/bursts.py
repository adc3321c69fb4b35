"""What the benchmark of bursts is called with."""

from pathlib import Path
from typing import Any

import click

from kubedsm.cli.options import kubeconfig_context, output
from kubedsm.kube.client.port import is_name
from kubedsm.terminal.running import nearest

POLICIES = (
    "kubedsm",
    "kube-scheduler",
    "kube-scheduler-opportunistic",
    "kube-scheduler-all-nodes",
    "cache-scheduler",
    "load-aware",
    "smallest-edge-first",
    "biggest-edge-first",
    "random",
    "cloud-first",
    "bare-loop",
)
#: behind the name of one that takes all that wait, not one pod at a time
BATCHED = ".batched"
_NOT_BATCHED = tuple(f"{name}{BATCHED}" for name in ("kubedsm", "bare-loop"))
#: seconds after which a connection is let go of
FOREVER = 1e6


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
        if name.removesuffix(BATCHED) not in POLICIES or name in _NOT_BATCHED:
            near = nearest(name, POLICIES)
            raise click.BadParameter(f"no policy {name!r}: there are {', '.join(POLICIES)}.{near}")
    return names


@click.command("burst")
@click.option("-n", "--pods", type=click.IntRange(1, 5000), default=200, help="How many.")
@click.option("--rounds", type=click.IntRange(1, 50), default=11, help="Of each of them, in turns.")
@click.option(
    "--policies",
    default="kubedsm,bare-loop",
    callback=_policies,
    help=f"Of {', '.join(POLICIES)}; all but kubedsm take one pod at a time, or,"
    f" with {BATCHED} behind the name, all that wait. Ratios are the first one's to the others.",
)
@click.option(
    "--silence",
    type=click.FloatRange(0, 3600),
    show_default="30; on a real cluster 0",
    help="Seconds before each round.",
)
@click.option(
    "--keepalive",
    type=click.FloatRange(0, FOREVER),
    default=FOREVER,
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
def burst_command(**given: Any) -> None:
    """A burst under one scheduler after another: how soon, how even.

    The pods of one Deployment, all at once, from created to bound to Ready, and how they lie on the
    nodes; beside what the paper of the rotating score cache published. The API server, `kubedsm
    emulate --tls` with the paper's five workers, and all schedulers are processes of their own;
    bare-loop only posts binds. With --kubeconfig it is a real cluster, in a namespace of its own,
    deleted at the end.
    """
    from kubedsm_lab.commands.benching import bursts

    bursts.burst_command(**given)

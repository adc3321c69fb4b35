"""What `kubedsm emulate` is called with."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubedsm.commands.options import (
    DurationType,
    address,
    cluster_file,
    output,
    paced,
    page,
)

if TYPE_CHECKING:
    from kubedsm.model.model import Tier


class Network(click.ParamType[Mapping["Tier", float]]):
    """Seconds by tier, written as `edge=20ms,cloud=80ms`."""

    name = "times"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Mapping[Tier, float]":
        from kubedsm.model.model import Tier
        from kubedsm_lab.commands.emulating import NETWORK

        if not isinstance(value, str):
            return dict(value)
        found = {}
        for part in value.split(","):
            tier, _, time = part.partition("=")
            if tier not in list(Tier):
                self.fail(f"{part!r} is not a tier's time, such as edge=20ms", param, ctx)
            found[Tier(tier)] = DurationType().convert(time, param, ctx)
        return NETWORK | found


def _prometheus(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    from kubedsm.terminal.urls import url_problem

    problem = url and url_problem(url)
    if problem:
        raise click.BadParameter(problem)
    return url


@click.command()
@cluster_file
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of this machine to listen on."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes any."
)
@click.option(
    "--token-file",
    "token_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The administrator's bearer token, made if missing; without it and --tls, all are let in.",
)
@click.option(
    "--tls",
    is_flag=True,
    help="Serve https, with a CA of its own, and let each do what Roles allow.",
)
@click.option(
    "--tls-san",
    "tls_names",
    multiple=True,
    metavar="NAME",
    help="One more name or address in the certificate.",
)
@click.option("--seed", type=int, show_default="a random one", help="Seed of names and uids.")
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    show_default="a temporary file",
    help="Where to write the kubeconfig.",
)
@click.option(
    "--start-delay",
    type=DurationType(),
    default="3s",
    show_default=True,
    help="From a pod's binding to its being Ready.",
)
@click.option(
    "--run-pods",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Run each pod that is `loadgen serve` as a process; DIR says where they and Services are.",
)
@click.option(
    "--network",
    type=Network(),
    default="edge=20ms,cloud=80ms",
    help="Network time of a request to a pod, there and back, with --run-pods.",
)
@click.option(
    "--metrics-address",
    callback=address,
    metavar="HOST:PORT",
    help="Serve what clients of pods wait, and what pods and nodes use, with --run-pods.",
)
@click.option(
    "--hpa-metrics",
    "prometheus",
    callback=_prometheus,
    metavar="URL",
    help="A Prometheus that knows how many requests pods get, for autoscalers.",
)
@paced
@page("127.0.0.1:10272")
@output
def emulate(**given: Any) -> None:
    """Serve an emulated cluster, for kubectl and others.

    It lives in memory, until interrupted.
    """
    from kubedsm_lab.commands import emulating

    emulating.emulate(**given)

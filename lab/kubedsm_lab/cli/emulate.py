"""Definition of the command `kubedsm emulate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from kubedsm.cli.options import DurationType, PageOptions, address, collect, output, page
from kubedsm_lab.cli.options import cluster_file, paced, require_libraries

if TYPE_CHECKING:
    from kubedsm.model.model import Tier


def _parse_network(
    context: click.Context, parameter: click.Parameter, value: str
) -> "Mapping[Tier, float]":
    """Parse network latencies by tier, written as `edge=20ms,cloud=80ms`; return seconds."""
    from kubedsm.model.model import Tier
    from kubedsm_lab.cli.emulated_process import NETWORK

    found = {}
    for part in value.split(","):
        tier, _, time = part.partition("=")
        if tier not in list(Tier):
            raise click.BadParameter(f"{part!r} is not a tier's time, such as edge=20ms")
        found[Tier(tier)] = DurationType().convert(time, parameter, context)
    return NETWORK | found


def _check_url(_: click.Context, __: click.Parameter, url: str | None) -> str | None:
    from loadgen.urls import url_problem

    problem = url and url_problem(url)
    if problem:
        raise click.BadParameter(problem)
    return url


@attrs.frozen
class EmulateOptions:
    """Options of `kubedsm emulate`."""

    cluster_name: str
    host: str
    port: int
    token_path: Path | None
    tls: bool
    tls_names: tuple[str, ...]
    seed: int | None
    kubeconfig_path: Path | None
    #: seconds from a pod's bind to Ready
    start_delay: float
    folder: Path | None
    network: "Mapping[Tier, float]"
    metrics_address: tuple[str, int] | None
    prometheus: str | None
    #: None for no audit log
    audit_log: Path | None
    paced: bool
    #: None for no page
    page: PageOptions | None
    output: str


@click.command()
@collect(
    "options",
    EmulateOptions,
    cluster_file,
    click.option("--host", default="127.0.0.1", help="Address of this machine to listen on."),
    click.option("--port", type=click.IntRange(0, 65535), default=8001, help="0 takes any."),
    click.option(
        "--token-file",
        "token_path",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The administrator's bearer token, made if missing; without it and --tls, every client"
        " is admitted.",
    ),
    click.option(
        "--tls",
        is_flag=True,
        help="Serve https with a CA of its own, and authorize clients by RBAC.",
    ),
    click.option(
        "--tls-san",
        "tls_names",
        multiple=True,
        metavar="NAME",
        help="One more name or address in the certificate.",
    ),
    click.option("--seed", type=int, show_default="a random one", help="Seed of names and uids."),
    click.option(
        "--kubeconfig",
        "kubeconfig_path",
        type=click.Path(path_type=Path),
        show_default="a temporary file",
        help="Where to write the kubeconfig.",
    ),
    click.option(
        "--start-delay",
        type=DurationType(),
        default="3s",
        help="Time from the bind of a pod until it is Ready.",
    ),
    click.option(
        "--run-pods",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Run each pod of `loadgen serve` as a process; DIR gets their addresses and Services.",
    ),
    click.option(
        "--network",
        metavar="TIMES",
        callback=_parse_network,
        default="edge=20ms,cloud=80ms",
        help="Network round-trip time of a request to a pod, with --run-pods.",
    ),
    click.option(
        "--metrics-address",
        callback=address,
        metavar="HOST:PORT",
        help="Serve response times of pods, and usage of pods and nodes, with --run-pods.",
    ),
    click.option(
        "--hpa-metrics",
        "prometheus",
        callback=_check_url,
        metavar="URL",
        help="Prometheus with the request rates of pods, for autoscalers.",
    ),
    click.option(
        "--audit-log",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Append each request as a line of audit.k8s.io/v1.",
    ),
    paced,
    page("127.0.0.1:10272"),
    output,
)
def emulate(options: EmulateOptions) -> None:
    """Serve an emulated cluster, for kubectl and other clients.

    The cluster is in memory, until the command is interrupted.
    """
    from kubedsm.cli.console import log_to, until_interrupted
    from kubedsm_lab.cli.emulated_process import NETWORK, EmulatedProcess

    log_to(level="WARNING")
    if options.tls_names and not options.tls:
        raise click.UsageError("--tls-san is part of the certificate of --tls")
    if options.tls:
        require_libraries("trustme")
    if options.folder is None and (options.metrics_address or options.network != NETWORK):
        raise click.UsageError(
            "--network and --metrics-address are about pods that --run-pods runs"
        )
    until_interrupted(EmulatedProcess.prepare(options).serve())

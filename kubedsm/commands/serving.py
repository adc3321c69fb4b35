"""`kubedsm run` and `kubedsm emulate`: what serves until interrupted."""

import asyncio
import random
import socket
from pathlib import Path
from typing import Any

import click
import structlog

from kubedsm import __version__
from kubedsm.clock import SystemClock
from kubedsm.cluster.calls.leases import LeaseName
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.joining import join
from kubedsm.commands.console import (
    Stop,
    config_file,
    configuration_at,
    kubeconfig_context,
    kubeconfig_file,
    log_to,
    output,
    print_json,
    until_interrupted,
)
from kubedsm.commands.electing import DurationType, election_of, leader_election
from kubedsm.commands.private_files import new_token, token_in, written_kubeconfig
from kubedsm.emulator.api.resources import NAMESPACES
from kubedsm.emulator.cluster_file import load
from kubedsm.emulator.emulated_cluster import EmulatedCluster
from kubedsm.emulator.http.certificates import server_tls
from kubedsm.emulator.http.server import HttpFront
from kubedsm.emulator.paper import paper_cluster
from kubedsm.runtime import leadership
from kubedsm.runtime.assembly import Runtime
from kubedsm.why.server import PORT, Diagnostics

#: of the emulated cluster: where it listens, and what pods call it
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")


@click.command()
@config_file
@kubeconfig_file
@kubeconfig_context
@click.option(
    "--namespace",
    default="kubedsm",
    show_default=True,
    help="Where the ConfigMap `kubedsm` with the pause switch is.",
)
@click.option(
    "--diagnostics-port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Where `kubedsm explain` asks, on loopback only; 0 takes any.",
)
@click.option(
    "--grace-period",
    type=DurationType(),
    default="25s",
    show_default=True,
    help="On SIGTERM or SIGINT, how long moves that are under way may take to end, or to be taken"
    " back; less than the pod's terminationGracePeriodSeconds. A second one ends at once.",
)
@leader_election
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
@output
def run(
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    namespace: str,
    diagnostics_port: int,
    grace_period: float,
    verbose: bool,
    output: str,
    **elect: Any,
) -> None:
    """Run the scheduler until interrupted.

    Inside a cluster it uses its service account; elsewhere a kubeconfig. Its log goes to stderr;
    with -o json it goes to stdout, one object a line.
    """
    log_to(json=output == "json", level="DEBUG" if verbose else "INFO")
    configuration, election = configuration_at(config_path), election_of(**elect)
    stop = Stop()

    async def serve() -> None:
        async with await KubernetesCluster.connect(kubeconfig_path, context) as cluster:
            log, clock, rng = structlog.get_logger(), SystemClock(), random.Random()
            version = await join(cluster, clock, rng, log.warning, in_pod=cluster.in_pod)
            elector, written = election.elector(cluster, clock) if election else (None, cluster)
            runtime = Runtime(
                written,
                configuration,
                clock,
                rng,
                instance=socket.gethostname(),
                namespace=namespace,
            )
            async with Diagnostics(runtime.decisions, diagnostics_port) as diagnostics:
                log.info(
                    "connected",
                    version=version,
                    kubedsm=__version__,
                    diagnostics=diagnostics.url or "none",
                )
                stop.heeded = True
                await leadership.serve(runtime, elector, stop.asked, grace_period)

    until_interrupted(serve(), stop)


@click.command()
@click.option(
    "--cluster",
    "cluster_name",
    default="paper",
    show_default=True,
    help="`paper`, or a file: Node objects, or the short form {nodes: [{name, tier, cpu, ..}]}.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
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
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of names and uids.")
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    help="Where to write the kubeconfig.",
)
@output
def emulate(
    cluster_name: str,
    host: str,
    port: int,
    token_path: Path | None,
    tls: bool,
    tls_names: tuple[str, ...],
    seed: int,
    kubeconfig_path: Path | None,
    output: str,
) -> None:
    """Serve an emulated cluster, for kubectl and others.

    It lives in memory, until interrupted.
    """
    spec = paper_cluster() if cluster_name == "paper" else load(cluster_name)
    if tls_names and not tls:
        raise click.UsageError("--tls-san is part of the certificate of --tls")
    token = token_in(token_path) if token_path is not None else new_token() if tls else None
    secured = server_tls((*_OWN_NAMES, host, *tls_names)) if tls else None
    context, ca = (secured.context, secured.ca) if secured is not None else (None, None)

    async def serve() -> None:
        async with (
            EmulatedCluster(spec, SystemClock(), random.Random(seed), token=token) as cluster,
            HttpFront(cluster.routes, host, port, context) as front,
        ):
            # Where `run` looks for its Lease, unless it is told otherwise.
            cluster.api.create(NAMESPACES, {"metadata": {"name": LeaseName().namespace}})
            with written_kubeconfig(front.url, token, kubeconfig_path, ca) as path:
                if output == "json":
                    print_json({"server": front.url, "kubeconfig": str(path)})
                else:
                    click.echo(f"Emulated cluster at {front.url}\nexport KUBECONFIG={path}")
                await asyncio.Event().wait()

    until_interrupted(serve())

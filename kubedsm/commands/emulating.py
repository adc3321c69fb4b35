"""`kubedsm emulate`: a cluster in memory, until interrupted."""

import asyncio
import random
from pathlib import Path

import attrs
import click

from kubedsm.clock import SystemClock
from kubedsm.cluster.calls.leases import LeaseName
from kubedsm.commands.console import output, print_json, until_interrupted
from kubedsm.commands.electing import DurationType
from kubedsm.commands.private_files import new_token, token_in, written_kubeconfig
from kubedsm.emulator.api.resources import NAMESPACES
from kubedsm.emulator.cluster_file import load
from kubedsm.emulator.emulated_cluster import EmulatedCluster
from kubedsm.emulator.http.certificates import server_tls
from kubedsm.emulator.http.server import HttpFront
from kubedsm.emulator.paper import paper_cluster

#: of the emulated cluster: where it listens, and what pods call it
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")


@click.command()
@click.option(
    "--cluster",
    "cluster_name",
    default="paper",
    show_default=True,
    help="`paper`, or a file: Node objects, or the short form {nodes: [{name, tier, cpu, ..}]}.",
)
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
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of names and uids.")
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
    start_delay: float,
    output: str,
) -> None:
    """Serve an emulated cluster, for kubectl and others.

    It lives in memory, until interrupted.
    """
    spec = paper_cluster() if cluster_name == "paper" else load(cluster_name)
    spec = attrs.evolve(spec, timing=attrs.evolve(spec.timing, start_delay=start_delay))
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

"""`kubedsm emulate`: a cluster in memory, until interrupted."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import click

from kubedsm.clock import SystemClock
from kubedsm.cluster.calls.leases import LeaseName
from kubedsm.commands.console import address, output, print_json, until_interrupted
from kubedsm.commands.electing import DurationType
from kubedsm.commands.private_files import new_token, token_in, written_kubeconfig
from kubedsm.core.world.model import Tier
from kubedsm.emulator.api.resources import NAMESPACES
from kubedsm.emulator.cluster_file import load
from kubedsm.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm.emulator.http.certificates import server_tls
from kubedsm.emulator.http.server import HttpFront
from kubedsm.emulator.paper import paper_cluster
from kubedsm.emulator.processes.lab import Lab, pod_processes, reachable
from kubedsm.emulator.processes.pod_usage import PodUsage
from kubedsm.emulator.processes.request_rates import request_rates
from loadgen.transport import url_problem

#: of the emulated cluster: where it listens, and what pods call it
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")
#: seconds there and back
NETWORK = {Tier.EDGE: 0.02, Tier.CLOUD: 0.08}


class Network(click.ParamType[Mapping[Tier, float]]):
    """Seconds by tier, written as `edge=20ms,cloud=80ms`."""

    name = "times"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Mapping[Tier, float]:
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
    problem = url and url_problem(url)
    if problem:
        raise click.BadParameter(problem)
    return url


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
    folder: Path | None,
    network: Mapping[Tier, float],
    metrics_address: tuple[str, int] | None,
    prometheus: str | None,
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

    if folder is None and (metrics_address or network != NETWORK):
        raise click.UsageError(
            "--network and --metrics-address are about pods that --run-pods runs"
        )
    lab = None if folder is None else Lab(folder, network, metrics_address)

    async def serve() -> None:
        async with (
            _emulated(spec, seed, token, lab, prometheus) as (cluster, metrics),
            HttpFront(cluster.routes, host, port, context) as front,
        ):
            with written_kubeconfig(front.url, token, kubeconfig_path, ca) as path:
                if output == "json":
                    more = {"metrics": metrics} if metrics else {}
                    print_json({"server": front.url, "kubeconfig": str(path), **more})
                else:
                    click.echo(f"Emulated cluster at {front.url}\nexport KUBECONFIG={path}")
                    if metrics:
                        click.echo(f"Metrics of its pods and nodes at {metrics}/metrics")
                await asyncio.Event().wait()

    until_interrupted(serve())


@asynccontextmanager
async def _emulated(
    spec: ClusterSpec, seed: int, token: str | None, lab: Lab | None, prometheus: str | None
) -> AsyncIterator[tuple[EmulatedCluster, str]]:
    """The cluster, and where its metrics are, if it has any."""
    clock, rng = SystemClock(), random.Random(seed)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        rates = None if prometheus is None else await enter(request_rates(prometheus, clock))
        pods = None if lab is None else await enter(pod_processes(lab.folder, clock))
        usage = None if pods is None else PodUsage(pods, clock)
        cluster = await enter(
            EmulatedCluster(spec, clock, rng, rates, token, pods, usage, default_scheduler=True)
        )
        # Where `run` looks for its Lease, unless it is told otherwise.
        cluster.api.create(NAMESPACES, {"metadata": {"name": LeaseName().namespace}})
        url = ""
        if lab is not None and pods is not None:
            url = await enter(reachable(cluster.api.store, pods, clock, random.Random(seed), lab))
        yield cluster, url

"""`kubedsm emulate`: a cluster in memory, until interrupted."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import click

from kubedsm.app.assembly import Runtime
from kubedsm.commands.console import log_to, print_json, until_interrupted
from kubedsm.commands.options import require_extra
from kubedsm.commands.private_files import new_token, token_in
from kubedsm.commands.viewing import Viewing, viewing_of
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.app import LOOPBACK, page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.model.model import Tier
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.echo import echo
from kubedsm_lab.commands.kubeconfigs import written_kubeconfig
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.cluster_file import load
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.http.certificates import server_tls
from kubedsm_lab.emulator.http.server import HttpFront
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.emulator.processes.lab import Lab, pod_processes, reachable
from kubedsm_lab.emulator.processes.pod_usage import PodUsage
from kubedsm_lab.emulator.processes.request_rates import request_rates

#: of the emulated cluster: where it listens, and what pods call it
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")
#: where its page is, unless another place is named
PAGE = (LOOPBACK, 10272)
#: seconds there and back
NETWORK = {Tier.EDGE: 0.02, Tier.CLOUD: 0.08}


def emulate(
    cluster_name: str,
    host: str,
    port: int,
    token_path: Path | None,
    tls: bool,
    tls_names: tuple[str, ...],
    seed: int | None,
    kubeconfig_path: Path | None,
    start_delay: float,
    folder: Path | None,
    network: Mapping[Tier, float],
    metrics_address: tuple[str, int] | None,
    prometheus: str | None,
    paced: bool,
    output: str,
    **page: Any,
) -> None:
    if tls:
        require_extra("--tls", "trustme", "tls")
    log_to(level="WARNING")
    spec = paper_cluster() if cluster_name == "paper" else load(cluster_name)
    spec = attrs.evolve(spec, timing=attrs.evolve(spec.timing, start_delay=start_delay))
    if tls_names and not tls:
        raise click.UsageError("--tls-san is part of the certificate of --tls")
    viewing = viewing_of(**page)
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
            _emulated(spec, seed, token, lab, prometheus, paced=paced) as (cluster, metrics),
            HttpFront(cluster.routes, host, port, context) as front,
            _shown(viewing, cluster, token) as page_url,
        ):
            with written_kubeconfig(front.url, token, kubeconfig_path, ca) as path:
                if output == "json":
                    more = {"metrics": metrics, "page": page_url}
                    told = {name: url for name, url in more.items() if url}
                    print_json({"server": front.url, "kubeconfig": str(path), **told})
                else:
                    echo(f"Emulated cluster at {front.url}\nexport KUBECONFIG={path}")
                    if metrics:
                        echo(f"Metrics of its pods and nodes at {metrics}/metrics")
                    if page_url:
                        echo(f"The page that shows it is {page_url}")
                await asyncio.Event().wait()

    until_interrupted(serve())


@asynccontextmanager
async def _shown(
    viewing: Viewing | None, cluster: EmulatedCluster, token: str | None
) -> AsyncIterator[str]:
    """The URL of the page that shows it, if one is wanted. No scheduler of ours is at work."""
    if viewing is None:
        yield ""
        return
    clock = SystemClock()
    scene = Scene(clock)
    front = EmulatedFront(cluster.routes, clock, token=token)
    runtime = Runtime(front, Configuration(), clock, random.Random(), listener=scene)
    address = viewing.address or PAGE
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(runtime.follow())
        async with page_of(runtime, scene, clock, address, viewing.access, lambda: None) as url:
            yield url
        following.cancel()


@asynccontextmanager
async def _emulated(
    spec: ClusterSpec,
    seed: int | None,
    token: str | None,
    lab: Lab | None,
    prometheus: str | None,
    *,
    paced: bool,
) -> AsyncIterator[tuple[EmulatedCluster, str]]:
    """The cluster, and where its metrics are, if it has any."""
    clock, rng = SystemClock(), random.Random(seed)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        rates = None if prometheus is None else await enter(request_rates(prometheus, clock))
        pods = None if lab is None else await enter(pod_processes(lab.folder, clock))
        usage = None if pods is None else PodUsage(pods, clock)
        cluster = await enter(
            EmulatedCluster(
                spec, clock, rng, rates, token, pods, usage, default_scheduler=True, paced=paced
            )
        )
        # Where `run` looks for its Lease, unless it is told otherwise.
        cluster.api.create(NAMESPACES, {"metadata": {"name": LeaseName().namespace}})
        url = ""
        if lab is not None and pods is not None:
            url = await enter(reachable(cluster.api.store, pods, clock, random.Random(seed), lab))
        yield cluster, url

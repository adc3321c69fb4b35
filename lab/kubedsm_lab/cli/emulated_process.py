"""Process of `kubedsm emulate`: a cluster in memory, served over HTTP, until interrupted."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.cli.console import print_json
from kubedsm.cli.options import PageOptions
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.opening import LOOPBACK, page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.model.model import Tier
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.echo import echo
from kubedsm_lab.cli.credentials import written_kubeconfig
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.http.certificates import server_tls
from kubedsm_lab.emulator.http.server import HttpFront
from kubedsm_lab.emulator.processes.lab import Lab, pod_processes, reachable
from kubedsm_lab.emulator.processes.pod_usage import PodUsage
from kubedsm_lab.emulator.processes.request_rates import request_rates

#: names of the emulated API server in its certificate
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")
#: default address of the page
PAGE = (LOOPBACK, 10272)
#: round-trip times, in seconds
NETWORK = {Tier.EDGE: 0.02, Tier.CLOUD: 0.08}


@attrs.frozen(kw_only=True)
class EmulatedProcess:
    """Settings of the process, from the options of `kubedsm emulate`."""

    spec: ClusterSpec
    host: str
    port: int
    token: str | None
    #: additional names in the certificate; None for plain HTTP
    tls_names: tuple[str, ...] | None
    seed: int | None
    kubeconfig: Path | None
    lab: Lab | None
    prometheus: str | None
    paced: bool
    page: PageOptions | None
    output: str

    async def serve(self) -> None:
        """Serve the cluster until cancelled."""
        secured = None
        if self.tls_names is not None:
            secured = server_tls((*_OWN_NAMES, self.host, *self.tls_names))
        context, ca = (secured.context, secured.ca) if secured is not None else (None, None)
        async with (
            self._emulate() as (cluster, metrics),
            HttpFront(cluster.routes, self.host, self.port, context) as front,
            self._serve_page(cluster) as page,
        ):
            with written_kubeconfig(front.url, self.token, self.kubeconfig, ca) as path:
                if self.output == "json":
                    urls = {"server": front.url, "metrics": metrics, "page": page}
                    found = {name: url for name, url in urls.items() if url}
                    print_json(found | {"kubeconfig": str(path)})
                else:
                    echo(f"Emulated cluster at {front.url}\nexport KUBECONFIG={path}")
                    if metrics:
                        echo(f"Metrics of its pods and nodes at {metrics}/metrics")
                    if page:
                        echo(f"Page of the cluster at {page}")
                await asyncio.Event().wait()

    @asynccontextmanager
    async def _serve_page(self, cluster: EmulatedCluster) -> AsyncIterator[str]:
        """Yield the URL of the page; empty without one. The page shows no scheduler."""
        if self.page is None:
            yield ""
            return
        clock = SystemClock()
        scene = Scene(clock)
        front = EmulatedFront(cluster.routes, clock, token=self.token)
        runtime = Runtime(front, Configuration(), clock, random.Random(), listener=scene)
        address, access = self.page.address or PAGE, self.page.access
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(runtime.follow())
            async with page_of(runtime, scene, clock, address, access, lambda: None) as url:
                yield url
            following.cancel()

    @asynccontextmanager
    async def _emulate(self) -> AsyncIterator[tuple[EmulatedCluster, str]]:
        """Yield the cluster, and the URL of its metrics; empty without them."""
        clock, lab = SystemClock(), self.lab
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            rates = pods = usage = None
            if self.prometheus is not None:
                rates = await enter(request_rates(self.prometheus, clock))
            if lab is not None:
                pods = await enter(pod_processes(lab.folder, clock))
                usage = PodUsage(pods, clock)
            cluster = await enter(
                EmulatedCluster(
                    self.spec,
                    clock,
                    random.Random(self.seed),
                    rates,
                    self.token,
                    pods,
                    usage,
                    default_scheduler=True,
                    paced=self.paced,
                )
            )
            # Namespace of the Lease that `kubedsm run` takes by default.
            cluster.api.create(NAMESPACES, {"metadata": {"name": LeaseName().namespace}})
            url = ""
            if lab is not None and pods is not None:
                rng = random.Random(self.seed)
                url = await enter(reachable(cluster.api.store, pods, clock, rng, lab))
            yield cluster, url

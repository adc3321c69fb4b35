"""Implementation of `kubedsm emulate`: an in-memory cluster, served over HTTP until interrupted."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.cli.console import print_json
from kubedsm.config.documents import DocumentError
from kubedsm.config.fields import did_you_mean
from kubedsm.config.settings import Configuration
from kubedsm.dashboard.server.app import LOOPBACK, page_of
from kubedsm.dashboard.state.scene import Scene
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import Tier
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.echo import echo
from kubedsm.terminal.problems import Problem
from kubedsm_lab.cli.credentials import ensure_token, make_token, written_kubeconfig
from kubedsm_lab.cli.emulate import EmulateOptions
from kubedsm_lab.emulator.actors.volumes import LOCAL_PATH_CLASS
from kubedsm_lab.emulator.api.resources import NAMESPACES, STORAGE_CLASSES
from kubedsm_lab.emulator.cluster_file import load
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.http.audit_log import AuditLog
from kubedsm_lab.emulator.http.server import HttpFront, ServerTls, server_tls
from kubedsm_lab.emulator.paper import paper_cluster
from kubedsm_lab.emulator.processes.lab import pod_processes, reachable
from kubedsm_lab.emulator.processes.request_rates import request_rates
from kubedsm_lab.emulator.processes.usage import PodUsage

#: names of the emulated API server in the certificate
_OWN_NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc")
#: default address of the page
PAGE = (LOOPBACK, 10272)
#: round-trip latencies, in seconds
NETWORK = {Tier.EDGE: 0.02, Tier.CLOUD: 0.08}


@attrs.frozen
class EmulatedProcess:
    """Emulated cluster and its HTTP server, configured by the command's options."""

    options: EmulateOptions
    spec: ClusterSpec
    #: the administrator's; None if every client is admitted
    token: str | None
    #: None for plain HTTP
    tls: ServerTls | None

    @classmethod
    def prepare(cls, options: EmulateOptions) -> Self:
        """Read the cluster file and create credentials. Raises DocumentError, CertificateError."""
        name, path = options.cluster_name, options.token_path
        if name != "paper" and not Path(name).exists():
            raise DocumentError(f"no such file{did_you_mean(name, ('paper',))}", source=name)
        spec = paper_cluster() if name == "paper" else load(name)
        timing = attrs.evolve(spec.timing, start_delay=options.start_delay)
        token = ensure_token(path) if path is not None else make_token() if options.tls else None
        names = (*_OWN_NAMES, options.host, *options.tls_names)
        tls = server_tls(names) if options.tls else None
        return cls(options, attrs.evolve(spec, timing=timing), token, tls)

    async def serve(self) -> None:
        """Serve the emulated cluster over HTTP until cancelled."""
        options = self.options
        context, ca = (None, None) if self.tls is None else (self.tls.context, self.tls.ca)
        async with (
            self._emulate() as (cluster, metrics),
            self._open_audit_log() as audit,
            HttpFront(cluster.routes, options.host, options.port, context, audit) as front,
            self._serve_page(cluster) as page,
        ):
            with written_kubeconfig(front.url, self.token, options.kubeconfig_path, ca) as path:
                if options.output == "json":
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
    async def _open_audit_log(self) -> AsyncIterator[AuditLog | None]:
        """Open the audit log for appending; None without one. Raises Problem."""
        path = self.options.audit_log
        if path is None:
            yield None
            return
        try:
            file = path.open("ab")
        except OSError as error:
            raise Problem(f"--audit-log: {error}") from None
        with file:
            yield AuditLog(file)

    @asynccontextmanager
    async def _serve_page(self, cluster: EmulatedCluster) -> AsyncIterator[str]:
        """Serve the cluster page and yield its URL; an empty URL without a page."""
        page = self.options.page
        if page is None:
            yield ""
            return
        clock = SystemClock()
        scene = Scene(clock)
        scene.cluster = page.name or "emulated"
        front = EmulatedFront(cluster.routes, clock, token=self.token)
        runtime = Runtime(front, Configuration(), clock, random.Random(), listener=scene)
        address, access = page.address or PAGE, page.access
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(runtime.follow())
            served = page_of(runtime, scene, clock, address, access, lambda: None, page.history)
            async with served as url:
                yield url
            following.cancel()

    @asynccontextmanager
    async def _emulate(self) -> AsyncIterator[tuple[EmulatedCluster, str]]:
        """Run the emulated cluster during the block; yield the cluster and the URL of its metrics
        ("" without metrics).
        """
        options, clock = self.options, SystemClock()
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            rates = pods = usage = None
            if options.prometheus is not None:
                rates = await enter(request_rates(options.prometheus, clock))
            if options.folder is not None:
                pods = await enter(pod_processes(options.folder, clock))
                usage = PodUsage(pods, clock)
            cluster = await enter(
                EmulatedCluster(
                    self.spec,
                    clock,
                    random.Random(options.seed),
                    rates,
                    self.token,
                    pods,
                    usage,
                    default_scheduler=True,
                    paced=options.paced,
                )
            )
            # Namespace of the Lease that `kubedsm run` takes by default.
            cluster.api.create(NAMESPACES, {"metadata": {"name": ObjectName().namespace}})
            cluster.api.create(STORAGE_CLASSES, LOCAL_PATH_CLASS)
            url = ""
            if options.folder is not None and pods is not None:
                store, rng = cluster.api.store, random.Random(options.seed)
                to = options.folder, options.network, options.metrics_address
                url = await enter(reachable(store, pods, clock, rng, *to))
            yield cluster, url

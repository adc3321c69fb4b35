"""Process of `kubedsm run`: scheduler, metrics server, diagnostics server and dashboard page."""

import asyncio
import gc
import linecache
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import structlog
from aiohttp import web

from kubedsm import __version__
from kubedsm.app import leadership
from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import NotLeadingError
from kubedsm.app.prometheus import InAThread
from kubedsm.cli.cluster import read_configuration
from kubedsm.cli.console import Stop
from kubedsm.cli.inputs import configuration_at
from kubedsm.cli.options import PageOptions
from kubedsm.cli.run import RunOptions
from kubedsm.config.documents import STDIN
from kubedsm.dashboard.server.access import Access
from kubedsm.dashboard.server.leader import LeaderPage
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.listener import Listeners
from kubedsm.explain.server import Diagnostics
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.reads import namespace_uid
from kubedsm.kube.client.dry_run import DryRun
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import (
    TIMEOUT,
    Cluster,
    ClusterError,
    Forbidden,
    NotFound,
    ObjectName,
)
from kubedsm.kube.joining import join
from kubedsm.observability.instruments import Instruments, watch_the_loop
from kubedsm.observability.measured_cluster import MeasuredCluster
from kubedsm.observability.reading import Leadership
from kubedsm.observability.server import Monitoring, probes_answered
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.solvers.available import explain_missing

#: allocations of Python objects until the youngest are collected; Python's own: 700
GC_THRESHOLD = 20_000


async def serve(options: RunOptions, stop: Stop) -> None:
    """Connect to the cluster and run the scheduler; shut down gracefully on `stop`."""
    configuration = configuration_at(options.config_path)
    source: Path | ObjectName | None = options.config_map
    if options.config_path not in {None, STDIN}:  # a configuration on stdin does not change
        source = Path(options.config_path)
    if options.dry_run:
        structlog.contextvars.bind_contextvars(dry_run=True)
    log, clock, rng = structlog.get_logger(), SystemClock(), random.Random()
    async with await KubernetesCluster.connect(*options.kubeconfig) as server:
        async with probes_answered(options.metrics_address):
            explained = ExplainedCluster(server, server.server)
            version = await join(explained, clock, rng, log.warning, in_pod=server.in_pod)
            if options.config_map is not None:
                # No migration begins meanwhile: an unreadable pause switch counts as set.
                unread = partial(log.warning, "configuration not read, defaults in effect")
                configuration = await read_configuration(server, options.config_map, unread)
        instruments = Instruments(clock, configuration.scheduler_name, server.host)
        cluster: Cluster = MeasuredCluster(server, clock, instruments.count_request)
        if options.dry_run:
            cluster = DryRun(cluster)
        elector, cluster = options.election.join(cluster, clock)
        scene = Scene(clock)
        scene.cluster = (options.page.name if options.page else "") or server.context
        runtime = Runtime(
            cluster,
            configuration,
            clock,
            rng,
            instance=socket.gethostname(),
            namespace=options.namespace,
            source=source,
            # Without a page no client reads the scene.
            listener=Listeners(instruments, scene) if options.page else instruments,
            apart=True,
            prometheus=InAThread(options.prometheus_credentials),
            dry_run=options.dry_run,
        )

        def find_leader() -> Leadership:
            if elector is None:
                return Leadership()
            return Leadership(elector.leading, elector.holder, options.election.resource_namespace)

        address = options.metrics_address
        async with (
            Monitoring(runtime, instruments, clock, address, find_leader) as monitoring,
            _serve_page(options.page, runtime, scene, clock, cluster, find_leader) as (
                page_url,
                page_app,
            ),
            Diagnostics(
                runtime.explanations,
                options.diagnostics_port,
                dry_run=options.dry_run,
                leader=lambda: None if find_leader().leading else find_leader().leader,
                mandatory=page_app,
                add_routes=partial(_add_routes, monitoring, is_guarded=page_app is not None),
            ) as diagnostics,
            asyncio.TaskGroup() as tasks,
        ):
            background = (
                tasks.create_task(
                    watch_the_loop(
                        clock,
                        instruments.loop_lag.observe,
                        *([scene.loop_late] if options.page else []),
                    )
                ),
                tasks.create_task(server.keep_warm(clock)),
                tasks.create_task(_freeze_listed_objects(runtime.synced)),
                tasks.create_task(_identify_cluster(explained, clock, diagnostics, scene)),
            )
            log.info(
                "connected",
                version=version,
                kubedsm=__version__,
                diagnostics=diagnostics.url or "none",
                metrics=monitoring.url or "none",
                **({"page": page_url or diagnostics.url} if options.page else {}),
            )
            if options.dry_run:
                log.warning("dry run: decisions are logged, nothing is written")
            if missing := explain_missing(configuration.solver.kind):
                log.warning(missing)
            stop.heeded = True
            with _log_end(runtime, clock, stop):
                await leadership.serve(runtime, elector, stop.asked, options.grace_period)
            for task in background:
                task.cancel()


def _add_routes(monitoring: Monitoring, app: web.Application, *, is_guarded: bool) -> None:
    """Add the monitoring routes to the diagnostics server, and protect it as the page's server."""
    monitoring.add_routes(app)
    if not is_guarded:
        Access().guard(app, lambda _: False)


@asynccontextmanager
async def _serve_page(
    page: PageOptions | None,
    runtime: Runtime,
    scene: Scene,
    clock: Clock,
    cluster: Cluster,
    find_leader: Callable[[], Leadership],
) -> AsyncIterator[tuple[str, web.Application | None]]:
    """Serve the page at a separate address, and yield the URL; or yield the application.

    With a token, a standby shows the leader's page, at the same port of the leader's pod. Raises
    AddressUnavailableError.
    """
    if page is None:
        yield "", None
        return
    from kubedsm.dashboard.server.app import app_of, page_of

    if page.address is None:
        async with app_of(runtime, scene, clock, page.access, find_leader, page.history) as app:
            yield "", app
    else:
        access, leader = page.access, None
        if access.token is not None:
            port, here = page.address[1], socket.gethostname()
            leader = LeaderPage(cluster, find_leader, here, port, access.token)
        async with page_of(
            runtime, scene, clock, page.address, access, find_leader, page.history, leader
        ) as url:
            yield url, None


@contextmanager
def _log_end(runtime: Runtime, clock: Clock, stop: Stop) -> Iterator[None]:
    """Log cause, uptime and completed binds and migrations when the block ends."""
    began, why = clock.monotonic(), "an error"
    try:
        yield
        why = "stop requested"
    except asyncio.CancelledError:
        why = "immediate stop requested"
        raise
    except BaseExceptionGroup as errors:
        if errors.subgroup(NotLeadingError) is not None:
            why = "another process leads"
        raise
    finally:
        by = {"signal": signal.Signals(stop.by).name} if stop.by else {}
        uptime = round(clock.monotonic() - began, 1)
        done = runtime.summary()
        structlog.get_logger().info("stopped", why=why, **by, uptime_seconds=uptime, **done)


async def _freeze_listed_objects(synced: asyncio.Event) -> None:
    """Exempt the objects of the initial lists from Python's garbage collection, for shorter pauses.

    Occasional full collections would traverse them, for 90 ms with 50,000 pods, and free none.
    Young objects are collected less often than by default, which costs 4% of a burst's CPU.
    """
    gc.set_threshold(GC_THRESHOLD)
    await synced.wait()
    linecache.clearcache()  # 1 MB: the source of methods generated by attrs
    # No collection first: it takes half a second with 100,000 pods, and finds a hundred objects.
    gc.freeze()


async def _identify_cluster(
    cluster: Cluster, clock: Clock, diagnostics: Diagnostics, scene: Scene
) -> None:
    """Read the cluster's UID (of namespace kube-system), by which commands compare clusters.

    The page names a cluster without another name by the UID's beginning.
    """
    while not diagnostics.cluster_uid:
        try:
            diagnostics.cluster_uid = await namespace_uid(cluster)
            scene.cluster = scene.cluster or diagnostics.cluster_uid[:8]
        except (Forbidden, NotFound) as error:
            structlog.get_logger().warning("cluster not identified", error=str(error))
            return
        except ClusterError:
            await clock.sleep(TIMEOUT)

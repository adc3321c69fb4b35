"""`kubedsm run`: the scheduler, until interrupted."""

import asyncio
import gc
import random
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
import structlog

from kubedsm import __version__
from kubedsm.app import leadership
from kubedsm.app.assembly import Runtime
from kubedsm.app.configuration_source import said_in
from kubedsm.app.leader_election import NotLeadingError
from kubedsm.app.prometheus import InAThread
from kubedsm.commands.console import Stop, log_to, until_interrupted
from kubedsm.commands.electing import Election, election_of
from kubedsm.commands.inputs import (
    configuration_at,
)
from kubedsm.commands.viewing import Viewing, shown, viewing_of
from kubedsm.config.documents import STDIN
from kubedsm.config.settings import Configuration
from kubedsm.config.settings import load as load_configuration
from kubedsm.dashboard.state.scene import Scene
from kubedsm.explain.listener import Listeners
from kubedsm.explain.server import Diagnostics
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.verbs import cluster_uid
from kubedsm.kube.client.dry_run import DryRun
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Cluster, ClusterError, Forbidden, NotFound
from kubedsm.kube.joining import TIMEOUT, join
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.errors import WireError
from kubedsm.observability.instruments import Instruments
from kubedsm.observability.loop_lag import watch_the_loop
from kubedsm.observability.measured_cluster import MeasuredCluster
from kubedsm.observability.reading import Leadership
from kubedsm.observability.server import Monitoring, probes_answered
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.process.http_limits import raise_file_limit
from kubedsm.solvers.available import lacking


def run(
    config_path: str | None,
    config_map: ConfigMapName | None,
    kubeconfig_path: Path | None,
    context: str | None,
    namespace: str,
    diagnostics_port: int,
    grace_period: float,
    dry_run: bool,
    metrics_address: tuple[str, int] | None,
    prometheus_credentials: Path,
    log_format: str | None,
    log_level: str,
    verbose: bool,
    output: str,
    page: bool,
    page_address: tuple[str, int] | None,
    page_token_file: Path | None,
    page_hosts: tuple[str, ...],
    **elect: Any,
) -> None:
    as_json = output == "json" or (log_format or _format()) == "json"
    level = "DEBUG" if verbose else log_level.upper()
    log_to(json=as_json, level=level, stdout=output == "json")
    if config_path is not None and config_map is not None:
        raise click.UsageError("--config and --configmap: only one of them")
    if dry_run:
        structlog.contextvars.bind_contextvars(dry_run=True)
    # What comes from standard input does not change.
    file = Path(config_path) if config_path is not None and config_path != STDIN else None
    source = config_map or file
    raise_file_limit()
    stop = Stop()
    serving = _Serving(
        kubeconfig_path,
        context,
        configuration_at(config_path),
        source,
        namespace,
        None if dry_run else election_of(**elect),
        diagnostics_port,
        metrics_address,
        # Nothing is under way that could end.
        0.0 if dry_run else grace_period,
        stop,
        dry_run,
        viewing_of(
            page=page,
            page_address=page_address,
            page_token_file=page_token_file,
            page_hosts=page_hosts,
        ),
        prometheus_credentials,
    )
    until_interrupted(serving.serve(), stop)


@attrs.frozen
class _Serving:
    """What `kubedsm run` is asked to do."""

    kubeconfig: Path | None
    context: str | None
    #: what holds unless the source is a ConfigMap
    configuration: Configuration
    source: Path | ConfigMapName | None
    namespace: str
    election: Election | None
    diagnostics_port: int
    metrics_address: tuple[str, int] | None
    grace_period: float
    stop: Stop
    dry_run: bool
    #: None: no page is shown
    viewing: Viewing | None
    prometheus_credentials: Path

    async def serve(self) -> None:
        log, clock, rng = structlog.get_logger(), SystemClock(), random.Random()
        async with await KubernetesCluster.connect(self.kubeconfig, self.context) as server:
            async with probes_answered(self.metrics_address):
                asked = ExplainedCluster(server, server.server)
                version = await join(asked, clock, rng, log.warning, in_pod=server.in_pod)
                configuration = await self._configured(server)
            instruments = Instruments(clock, configuration.scheduler_name, server.host)
            cluster: Cluster = MeasuredCluster(server, clock, instruments.answered)
            if self.dry_run:
                cluster = DryRun(cluster)
            elector, written = (
                self.election.elector(cluster, clock) if self.election else (None, cluster)
            )
            scene = Scene(clock)
            runtime = Runtime(
                written,
                configuration,
                clock,
                rng,
                instance=socket.gethostname(),
                namespace=self.namespace,
                source=self.source,
                # Nobody looks at the scene unless it is shown.
                listener=Listeners(instruments, scene) if self.viewing else instruments,
                apart=True,
                prometheus=InAThread(self.prometheus_credentials),
                dry_run=self.dry_run,
            )

            def who_leads() -> Leadership:
                if elector is None or self.election is None:
                    return Leadership()
                namespace = self.election.lease.namespace
                return Leadership(elector.leading, elector.holder, namespace)

            address = self.metrics_address
            async with (
                Monitoring(runtime, instruments, clock, address, who_leads) as monitoring,
                shown(self.viewing, runtime, scene, clock, who_leads) as (page, app),
                Diagnostics(
                    runtime.explanations,
                    self.diagnostics_port,
                    dry_run=self.dry_run,
                    leader=lambda: None if who_leads().leading else who_leads().leader,
                    beside=app,
                ) as diagnostics,
                asyncio.TaskGroup() as tasks,
            ):
                beside = (
                    tasks.create_task(
                        watch_the_loop(
                            clock,
                            instruments.loop_lag.observe,
                            *([scene.loop_late] if self.viewing else []),
                        )
                    ),
                    tasks.create_task(server.keep_warm(clock)),
                    tasks.create_task(_keep_what_was_listed(runtime.synced)),
                    tasks.create_task(_identify_cluster(asked, clock, diagnostics)),
                )
                log.info(
                    "connected",
                    version=version,
                    kubedsm=__version__,
                    diagnostics=diagnostics.url or "none",
                    metrics=monitoring.url or f"none: {monitoring.unavailable}",
                    **({"page": page or diagnostics.url} if self.viewing else {}),
                )
                if self.dry_run:
                    log.warning("dry run: nothing is bound, moved or written, only said")
                if said := lacking(configuration.solver.kind):
                    log.warning(said)
                self.stop.heeded = True
                with self._end_told(runtime, clock):
                    await leadership.serve(runtime, elector, self.stop.asked, self.grace_period)
                for task in beside:
                    task.cancel()

    @contextmanager
    def _end_told(self, runtime: Runtime, clock: Clock) -> Iterator[None]:
        """Say at the end why it came, and what was done until then."""
        began, why = clock.monotonic(), "an error"
        try:
            yield
            why = "told to stop"
        except asyncio.CancelledError:
            why = "told to stop at once"
            raise
        except BaseExceptionGroup as errors:
            if errors.subgroup(NotLeadingError) is not None:
                why = "another process leads"
            raise
        finally:
            by = {"signal": signal.Signals(self.stop.by).name} if self.stop.by else {}
            uptime = round(clock.monotonic() - began, 1)
            done = runtime.work_done.summary()
            structlog.get_logger().info("stopped", why=why, **by, uptime_seconds=uptime, **done)

    async def _configured(self, cluster: Cluster) -> Configuration:
        if not isinstance(self.source, ConfigMapName):
            return self.configuration
        try:
            text, source = await said_in(cluster, self.source)
        except Forbidden as error:
            # No move begins meanwhile: an unreadable pause switch counts as set.
            structlog.get_logger().warning("no configuration, the defaults hold", error=str(error))
            return self.configuration
        return load_configuration(text, source)


async def _keep_what_was_listed(synced: asyncio.Event) -> None:
    """Spare the collector of cycles, once all is listed, what is going to stay.

    It would go through all of that now and then, for 90 ms with 50,000 pods, and find nothing.
    """
    await synced.wait()
    gc.collect()
    gc.freeze()


async def _identify_cluster(cluster: Cluster, clock: Clock, diagnostics: Diagnostics) -> None:
    """Read which cluster this is, for commands that ask this process about a cluster."""
    while not diagnostics.cluster_uid:
        try:
            diagnostics.cluster_uid = await cluster_uid(cluster, timeout=TIMEOUT)
        except (Forbidden, NotFound) as error:
            structlog.get_logger().warning("cluster not identified", error=str(error))
            return
        except (ClusterError, WireError):
            await clock.sleep(TIMEOUT)


def _format() -> str:
    return "console" if sys.stderr.isatty() else "json"

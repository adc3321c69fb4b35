"""Controllers and placement managers, tested without the rest of a scheduler."""

import asyncio
import random

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Handle
from kubedsm.execution.bind_calls import BindCalls
from kubedsm.execution.limits import Limits
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.execution.migrations import Migrations
from kubedsm.execution.orphan_sweep import OrphanSweep
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.execution.volume_calls import VolumeCalls
from kubedsm.explain.listener import Listener
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor


class SilentRecorder:
    """Recorder that writes no Events, and keeps the calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def handle_of(clock, *, cluster=None, mirror=None, configuration=None, recorder=None):
    return Handle(
        cluster,
        mirror or ClusterMirror(),
        configuration or CurrentConfiguration(),
        clock,
        asyncio.Event(),
        recorder or SilentRecorder(),
        Listener(),
        Supervisor(clock, random.Random(0)),
        LogThrottle(clock),
    )


def nothing(*_):
    pass


@attrs.frozen
class Parts:
    manager: PlacementManager
    binds: BindCalls
    supervisor: Supervisor
    throttle: LogThrottle
    followed: dict


def plan_runner(cluster, mirror, clock, on_bound=nothing, limits=None):
    limits, followed = limits or Limits(), {}
    configuration = CurrentConfiguration(
        Configuration(migration=MigrationSettings(drain_delay=0.0))
    )
    handle = handle_of(clock, cluster=cluster, mirror=mirror, configuration=configuration)
    throttle, supervisor = handle.throttle, handle.supervisor
    binds = BindCalls(handle, limits.binds_in_flight)
    calls = MigrationCalls(handle)
    manager = PlacementManager(
        handle,
        followed,
        binds,
        VolumeCalls(handle, mirror.apply),
        calls,
        Migrations(handle, nothing, nothing, nothing, nothing),
        OrphanSweep(handle, calls),
        on_bound,
        lambda event: manager.observe(mirror.apply(event)),
        limits,
        Listener(),
    )
    return Parts(manager, binds, supervisor, throttle, followed)

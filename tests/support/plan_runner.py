"""Placement manager with all parts, on a cluster and mirror of a test."""

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.sections import MigrationSettings
from kubedsm.config.settings import Configuration
from kubedsm.execution.bind_calls import BindCalls
from kubedsm.execution.limits import Limits
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.execution.migrations import Migrations
from kubedsm.execution.orphan_sweep import OrphanSweep
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.execution.volume_calls import VolumeCalls
from kubedsm.explain.listener import Listener
from kubedsm.process.log_throttle import LogThrottle
from kubedsm.process.supervisor import Supervisor
from support.handles import handle_of


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
    timeout = limits.request_timeout
    handle = handle_of(
        clock, cluster=cluster, mirror=mirror, configuration=configuration, timeout=timeout
    )
    throttle, supervisor = handle.throttle, handle.supervisor
    binds = BindCalls(cluster, mirror, throttle, at_once=limits.binds_in_flight, timeout=timeout)
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

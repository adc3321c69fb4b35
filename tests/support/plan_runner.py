"""Placement manager with all parts, on a cluster and mirror of a test."""

import random

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
    limits, throttle, followed = limits or Limits(), LogThrottle(clock), {}
    configuration = CurrentConfiguration(
        Configuration(migration=MigrationSettings(drain_delay=0.0))
    )
    supervisor = Supervisor(clock, random.Random(0))
    binds = BindCalls(
        cluster, mirror, throttle, at_once=limits.binds_in_flight, timeout=limits.request_timeout
    )
    calls = MigrationCalls(cluster, clock, limits.request_timeout, throttle, nothing)
    moves = Migrations(mirror, configuration, clock, nothing, nothing, nothing, nothing)
    left_behind = OrphanSweep(mirror, calls, clock, nothing, nothing, nothing)
    manager = PlacementManager(
        mirror,
        followed,
        clock,
        binds,
        VolumeCalls(cluster, mirror, clock, limits.request_timeout, throttle, mirror.apply),
        calls,
        moves,
        left_behind,
        on_bound,
        supervisor,
        limits,
        Listener(),
    )
    return Parts(manager, binds, supervisor, throttle, followed)

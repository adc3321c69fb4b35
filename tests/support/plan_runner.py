"""The placement manager with all its parts, on a cluster and a mirror of the test's own."""

import random

import attrs

from kubedsm.configuration.current import CurrentConfiguration
from kubedsm.configuration.sections import MigrationSettings
from kubedsm.configuration.settings import Configuration
from kubedsm.runtime.bind_calls import BindCalls
from kubedsm.runtime.left_behind import LeftBehind
from kubedsm.runtime.limits import Limits, MoveLimits
from kubedsm.runtime.listener import Listener
from kubedsm.runtime.moves import Moves
from kubedsm.runtime.placement_manager import PlacementManager
from kubedsm.runtime.step_calls import StepCalls
from kubedsm.runtime.supervisor import Supervisor
from kubedsm.said_by_cause import SaidByCause


def nothing(*_):
    pass


@attrs.frozen
class Parts:
    manager: PlacementManager
    binds: BindCalls
    supervisor: Supervisor
    said: SaidByCause
    followed: dict


def plan_runner(cluster, mirror, clock, on_bound=nothing, limits=None):
    limits, said, followed = limits or Limits(), SaidByCause(clock), {}
    configuration = CurrentConfiguration(
        Configuration(migration=MigrationSettings(drain_delay=0.0))
    )
    supervisor = Supervisor(clock, random.Random(0))
    binds = BindCalls(
        cluster, mirror, said, at_once=limits.binds_in_flight, timeout=limits.request_timeout
    )
    step_calls = StepCalls(cluster, clock, limits.request_timeout, configuration, said, nothing)
    moves = Moves(mirror, MoveLimits(configuration), clock, nothing, nothing, nothing)
    left_behind = LeftBehind(mirror, step_calls, clock, nothing, nothing, nothing)
    manager = PlacementManager(
        mirror,
        followed,
        clock,
        binds,
        step_calls,
        moves,
        left_behind,
        on_bound,
        supervisor,
        limits,
        Listener(),
    )
    return Parts(manager, binds, supervisor, said, followed)

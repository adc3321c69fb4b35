"""Snapshot of the scheduler's state at a moment, for metrics and health checks in any thread."""

from collections.abc import Mapping

import attrs

from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import host_of
from kubedsm.kube.watching.reflector import ReflectorStatistics
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.observability.health_rules import CAUGHT_WITHIN
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.scheduling.scheduling_queue import QueueStatistics


@attrs.frozen(slots=True)
class Leadership:
    """Leadership state of this process; always leading without leader election."""

    leading: bool = True
    #: identity of the leader; empty if unknown
    holder: str = ""
    #: namespace of the Lease
    namespace: str = "kubedsm"

    @property
    def leader(self) -> str:
        """Leading host, in a cluster a pod; empty if unknown, or for the leading process."""
        return "" if self.leading else host_of(self.holder)

    @property
    def known(self) -> bool:
        return self.leading or bool(self.holder)


@attrs.frozen
class Reading:
    snapshot: Snapshot
    policy: KubeDSM
    queue: QueueStatistics
    #: unschedulable pods by plugin; a pod counts once for each plugin
    rejected_by: Mapping[str, int]
    watches: Mapping[str, ReflectorStatistics]
    caught: Mapping[str, int]
    #: the same, of parts with an error in the last `health_rules.CAUGHT_WITHIN`
    caught_lately: Mapping[str, int]
    events_lost: int
    #: whether the pause switch is set, or unknown
    paused: bool
    #: Services that ignore the sites of their workload's demand
    spreading_services: int
    away: Away
    plans: int
    moves: int
    leadership: Leadership
    #: configuration in force: number, and begin in seconds since the epoch
    generation: int
    configured_at: float
    #: acceptance of the latest configuration
    configuration_valid: bool
    #: seconds since the epoch
    now: float


def read(runtime: Runtime, leadership: Leadership, now: float) -> Reading:
    configuration = runtime.configuration
    return Reading(
        snapshot=runtime.mirror.snapshot(),
        policy=configuration.current.policy,
        queue=runtime.queue.statistics,
        rejected_by=runtime.queue.count_by_plugin(),
        watches=runtime.followed.watches,
        caught=dict.fromkeys(runtime.supervisor.list_parts(), 0) | runtime.supervisor.caught,
        caught_lately=runtime.supervisor.caught_within(CAUGHT_WITHIN),
        events_lost=runtime.recorder.lost,
        paused=runtime.pause_switch.is_set,
        spreading_services=len({name for name, _ in runtime.service_routing.spreading}),
        away=runtime.sites.away(),
        plans=runtime.manager.under_way,
        moves=len(runtime.manager.migrations),
        leadership=leadership,
        generation=configuration.generation,
        configured_at=configuration.since,
        configuration_valid=configuration.valid,
        now=now,
    )

"""Observed changes of workloads: time since the last change, and pods now starting or terminating.

A workload changes when a pod is created or deleted, except by a migration, and when its measured
demand by site changes. The suggester estimates
the duration of benefits from quiet periods. Quiet periods are kept in memory only: after a restart
the creation times of pods bound them.
"""

from collections import Counter
from collections.abc import Container

import attrs

from kubedsm.model.events import Change
from kubedsm.model.measured import NOTHING_MEASURED
from kubedsm.model.model import Pod, Uid, Workload
from kubedsm.objective.lasting import ASSUMED, Quiet, QuietPeriods, end_period
from kubedsm.process.clock import Clock

#: expected seconds until readiness, or until deletion, of a pod
SETTLING = 10.0
#: seconds; a pod older than this at its first observation existed before this process
_NEW = 5.0
#: share of all pods whose creation or deletion counts as a change of the edge
_TURNOVER = 0.05
#: relative growth of a quiet period after which benefits are estimated again
_GROWTH = 0.25


@attrs.define
class WorkloadChanges:
    clock: Clock
    scheduler_name: str
    #: pods of execution plans in progress
    followed: Container[Uid]
    #: replacements of migrated pods
    claimed: Container[Uid]
    _pods: Counter[Workload] = attrs.field(factory=Counter, init=False)
    _all_pods: int = attrs.field(default=0, init=False)
    _periods: dict[Workload, QuietPeriods] = attrs.field(factory=dict, init=False)
    #: quiet periods of the whole edge, see `Quiet`; created or deleted pods of the present period
    _edge: QuietPeriods | None = attrs.field(default=None, init=False)
    _turned: int = attrs.field(default=0, init=False)
    #: end of `SETTLING` of pods that start, and of pods that stop
    _starting: dict[Uid, float] = attrs.field(factory=dict, init=False)
    _stopping: dict[Uid, float] = attrs.field(factory=dict, init=False)

    def observe(self, change: Change) -> None:
        before, after = change.pod_before, change.pod_after
        self._count(before, after)
        pod = after or before
        if pod is None or pod.scheduler_name != self.scheduler_name:
            return
        ends = after is None or after.terminating or after.finished
        if before is None:
            now = self.clock.wall()
            if now - pod.created >= _NEW:
                self._periods[pod.workload] = _begin_at(
                    self._periods.get(pod.workload), pod.created
                )
                self._edge = _begin_at(self._edge, pod.created)
                return
            self._starting[pod.uid] = self.clock.monotonic() + SETTLING
            if pod.uid not in self.claimed:
                self._note_change(pod.workload, now)
        elif ends and not (before.terminating or before.finished):
            if not (before.detached or pod.uid in self.followed):
                self._note_change(pod.workload, self.clock.wall())
            self._stopping[pod.uid] = self.clock.monotonic() + SETTLING
        if after is None or after.ready or ends:
            self._starting.pop(pod.uid, None)
        if after is None or after.finished:
            self._stopping.pop(pod.uid, None)

    def observe_demand(self, change: Change) -> None:
        """End the quiet period of workloads whose measured demand by site changed, or of all if
        latencies between sites did: the benefit of a replica at a site lasts no longer.
        """
        measured, before = change.measured_after, change.measured_before or NOTHING_MEASURED
        if measured is None or measured is before:
            return
        now = self.clock.wall()
        by_site = measured.demand.keys() | before.demand.keys()
        then = before.latency
        if any(time != then.get(pair, time) for pair, time in measured.latency.items()):
            changed = set(self._pods)
        else:
            changed = {w for w in by_site if measured.demand.get(w) != before.demand.get(w)}
        for workload in changed & self._pods.keys():
            self._periods[workload] = end_period(self._periods.get(workload), now)

    def _count(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and after is not None and before.workload == after.workload:
            return
        self._all_pods += (after is not None) - (before is not None)
        if after is not None:
            self._pods[after.workload] += 1
        if before is not None:
            self._pods[before.workload] -= 1
            if not self._pods[before.workload]:
                del self._pods[before.workload]
                self._periods.pop(before.workload, None)

    def _note_change(self, workload: Workload, now: float) -> None:
        if workload in self._pods:
            self._periods[workload] = end_period(self._periods.get(workload), now)
        self._turned += 1
        if self._turned >= _TURNOVER * self._all_pods:
            self._turned = 0
            self._edge = end_period(self._edge, now)

    def quiet(self) -> Quiet:
        """Return how long each workload has been unchanged (its quiet period), as observed
        so far.
        """
        return Quiet(self.clock.wall(), dict(self._periods), self._edge)

    def settling(self) -> bool:
        """Return True while starting or terminating pods are expected to be Ready or deleted soon.

        Pods of plans do not count: suggestions exclude their workloads in any case.
        """
        now = self.clock.monotonic()
        self._starting = {uid: due for uid, due in self._starting.items() if now < due}
        return not all(uid in self.followed for uid in (*self._starting, *self.stopping()))

    def stopping(self) -> frozenset[Uid]:
        """Return the terminating pods that should be deleted within `SETTLING` seconds."""
        now = self.clock.monotonic()
        self._stopping = {uid: due for uid, due in self._stopping.items() if now < due}
        return frozenset(self._stopping)

    def worth_another_look(self) -> float:
        """Return the seconds until workloads have been unchanged long enough for another search for
        migrations.
        """
        now = self.clock.wall()
        ages = (max(0.0, now - known.since) for known in self._periods.values())
        return _GROWTH * (ASSUMED + min(ages, default=0.0))


def _begin_at(known: QuietPeriods | None, created: float) -> QuietPeriods:
    """Begin a workload's quiet period at the creation of a pod, unless a later change is known."""
    if known is None:
        return QuietPeriods(created)
    return attrs.evolve(known, since=max(known.since, created))

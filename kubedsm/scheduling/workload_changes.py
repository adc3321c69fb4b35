"""What is learned of how workloads change: how long each may stay as it is, and what is on its way.

Kept for the suggester, in memory only: after a restart there is what pods tell by their age.
"""

from collections import Counter
from collections.abc import Callable

import attrs

from kubedsm.model.events import Change
from kubedsm.model.model import Pod, Uid, Workload
from kubedsm.objective.lasting import ASSUMED, Quiet, QuietPeriods
from kubedsm.process.clock import Clock

#: Seconds that a pod is waited for to become ready, or to be gone.
SETTLING = 10.0
#: Seconds. A pod that is older when it is first seen was there before us.
_NEW = 5.0
#: The part of all pods that must come or go for the edge to be another one.
_TURNOVER = 0.05
#: What a workload's quiet must grow by, for what it is worth to be asked again.
_GROWTH = 0.25


@attrs.define
class WorkloadChanges:
    """A workload changes when it gets a pod, or loses one: not when one of its pods is moved."""

    clock: Clock
    scheduler_name: str
    #: whether a plan of ours is about the pod
    followed: Callable[[Uid], bool]
    #: the move that the pod was made for, if any
    claimant: Callable[[Uid], str | None]
    _pods: Counter[Workload] = attrs.field(factory=Counter, init=False)
    _all_pods: int = attrs.field(default=0, init=False)
    _periods: dict[Workload, QuietPeriods] = attrs.field(factory=dict, init=False)
    #: see `Quiet`
    _edge: QuietPeriods | None = attrs.field(default=None, init=False)
    #: pods that came or went since
    _turned: int = attrs.field(default=0, init=False)
    #: the pods that start, and those that stop, and until when that is waited for
    _starting: dict[Uid, float] = attrs.field(factory=dict, init=False)
    _stopping: dict[Uid, float] = attrs.field(factory=dict, init=False)

    def observe(self, change: Change) -> None:
        before, after = change.pod_before, change.pod_after
        self._count(before, after)
        pod = after or before
        if pod is None or pod.scheduler_name != self.scheduler_name:
            return
        now, due = self.clock.wall(), self.clock.monotonic() + SETTLING
        if before is None:
            if now - pod.created >= _NEW:
                self._found(pod)
                return
            self._starting[pod.uid] = due
            if self.claimant(pod.uid) is None:
                self._changed(pod.workload, now)
        elif not _ends(before) and (after is None or _ends(after)):
            if not (before.detached or self.followed(pod.uid)):
                self._changed(pod.workload, now)
            self._stopping[pod.uid] = due
        if after is None or after.ready or _ends(after):
            self._starting.pop(pod.uid, None)
        if after is None or after.finished:
            self._stopping.pop(pod.uid, None)

    def _count(self, before: Pod | None, after: Pod | None) -> None:
        self._all_pods += (after is not None) - (before is not None)
        if after is not None:
            self._pods[after.workload] += 1
        if before is not None:
            self._pods[before.workload] -= 1
            if not self._pods[before.workload]:
                del self._pods[before.workload]
                self._periods.pop(before.workload, None)

    def _changed(self, workload: Workload, now: float) -> None:
        if workload in self._pods:
            self._periods[workload] = _changed(self._periods.get(workload), now)
        self._turned += 1
        if self._turned >= _TURNOVER * self._all_pods:
            self._turned = 0
            self._edge = _changed(self._edge, now)

    def _found(self, pod: Pod) -> None:
        """A pod that was there before us: at that moment, at least, something changed."""
        self._periods[pod.workload] = _found(self._periods.get(pod.workload), pod.created)
        self._edge = _found(self._edge, pod.created)

    def quiet(self) -> Quiet:
        """What is known by now."""
        return Quiet(self.clock.wall(), dict(self._periods), self._edge)

    def settling(self) -> bool:
        """Whether pods start or stop that should be done with that in a moment.

        Pods of plans are not waited for: their workloads are left alone as long as those last.
        """
        now = self.clock.monotonic()
        self._starting = {uid: due for uid, due in self._starting.items() if now < due}
        return not all(map(self.followed, (*self._starting, *self.stopping())))

    def stopping(self) -> frozenset[Uid]:
        """The pods that are being deleted, and should be gone in a moment."""
        now = self.clock.monotonic()
        self._stopping = {uid: due for uid, due in self._stopping.items() if now < due}
        return frozenset(self._stopping)

    def worth_another_look(self) -> float:
        """In how many seconds it could be seen that some workload stays longer than was thought."""
        now = self.clock.wall()
        ages = (max(0.0, now - known.since) for known in self._periods.values())
        return _GROWTH * (ASSUMED + min(ages, default=0.0))


def _changed(known: QuietPeriods | None, now: float) -> QuietPeriods:
    return QuietPeriods(now) if known is None else known.changed(now)


def _found(known: QuietPeriods | None, created: float) -> QuietPeriods:
    if known is None:
        return QuietPeriods(created)
    return attrs.evolve(known, since=max(known.since, created))


def _ends(pod: Pod) -> bool:
    return pod.terminating or pod.finished

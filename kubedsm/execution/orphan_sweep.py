"""Pods that carry the mark of a move which no plan knows: what they are, and whose turn it is.

A process that ended may have left one behind; but any user who may change a pod can mark it. So
each is looked into before anything is done about it, and no namespace has more than a few of its
pods seen to at once: what one leaves behind, or makes up, keeps no other waiting.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from kubedsm.execution.migration_calls import StepCalls
from kubedsm.kube.client.port import ClusterError
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Uid
from kubedsm.process.backoff import Doubling
from kubedsm.process.clock import Clock
from kubedsm.process.supervisor import Work
from plans.migration import restore_plan
from plans.steps import Plan, Step, StepState

log = structlog.get_logger()

#: seconds between two looks for pods that were left behind; for one that could not be seen to,
#: twice as many each time
SWEEP = 30.0
DELAYS = Doubling(SWEEP, most=600.0)
#: pods of a namespace that are looked into, or restored, at once
MOST_AT_ONCE = 3
#: seconds that pass from one to the next in its place
PACE = 1.0
#: pods of a namespace that are told between two sweeps that their mark is ignored
MOST_TOLD = 10


class Plans(Protocol):
    """What carries plans out."""

    def follows(self, pod: Uid) -> bool:
        """Whether a plan is about the pod."""

    def begin(self, plan: Plan) -> None:
        """Carry the plan out."""

    def spawn_beside(self, part: str, work: Work, **story: object) -> None:
        """Do what belongs to no plan."""


class LeftBehind:
    def __init__(
        self,
        mirror: ClusterMirror,
        step_calls: StepCalls,
        clock: Clock,
        on_ignored: Callable[[Pod], None],
        on_stuck: Callable[[Pod, str], None],
        on_ended: Callable[[Pod, str, bool], None],
    ) -> None:
        self._mirror = mirror
        self._step_calls = step_calls
        self._clock = clock
        #: hears, once of each, of the pods whose mark is none of ours
        self._on_ignored = on_ignored
        #: hears of a detached pod that could neither be given back nor evicted, and why
        self._on_stuck = on_stuck
        #: notified of the end of a migration that another process began: the pod, its target, and
        #: whether the migration was completed
        self._on_ended = on_ended
        #: the pods that are being restored, as they were found
        self._restoring: dict[Uid, tuple[Pod, MoveMark]] = {}
        #: how often that was so, and when it is tried again
        self._stuck: dict[Uid, tuple[int, float]] = {}
        #: by namespace, in the order they were found
        self._waiting: dict[str, dict[Uid, None]] = {}
        #: with their namespaces
        self._seen_to: dict[Uid, str] = {}
        self._strangers: set[Uid] = set()
        self._told: set[Uid] = set()
        #: by namespace, since the last sweep
        self._tellings: Counter[str] = Counter()

    def sweep(self, plans: Plans) -> None:
        """Look at every pod there is."""
        labelled = {p.uid: p for p in self._mirror.pods() if MIGRATING_LABEL in p.labels}
        self._stuck = {uid: tries for uid, tries in self._stuck.items() if uid in labelled}
        self._seen_to = {uid: of for uid, of in self._seen_to.items() if uid in labelled}
        self._strangers &= labelled.keys()
        self._told &= labelled.keys()
        self._tellings.clear()
        for pod in labelled.values():
            self.found(pod, plans)

    def found(self, pod: Pod, plans: Plans) -> None:
        """See to a pod that carries our label, when its turn comes, or ignore the label."""
        if pod.terminating or pod.uid in self._seen_to or plans.follows(pod.uid):
            return
        if not pod.detached or pod.uid in self._strangers:
            self._ignore(pod)
        elif self._stuck.get(pod.uid, (0, 0.0))[1] <= self._clock.monotonic():
            self._waiting.setdefault(pod.namespace, {})[pod.uid] = None
            self._admit(pod.namespace, plans)

    def restored(self, step: Step, plans: Plans) -> None:
        """Take note of how the restoring of a pod ended."""
        uid = Uid(step.pod)
        pod, found = self._mirror.pod(uid), self._restoring.pop(uid, None)
        if found is not None and step.state is StepState.DONE:
            self._on_ended(found[0], found[1].target, self._is_replaced(*found))
        if step.state is StepState.FAILED and pod is not None:
            tries, _ = self._stuck.get(uid, (0, 0.0))
            again = self._clock.monotonic() + DELAYS.after(tries)
            self._stuck[uid] = (tries + 1, again)
            self._on_stuck(pod, step.reason)
        else:
            self._stuck.pop(uid, None)
        self._over(uid, plans)

    def _is_replaced(self, old: Pod, mark: MoveMark) -> bool:
        """Whether the old pod leaves, and a Ready one of its workload is on its target instead."""
        known = self._mirror.pod(old.uid)
        others = self._mirror.pods_on(NodeName(mark.target))
        return (known is None or known.terminating) and any(
            pod.workload == old.workload
            and pod.ready
            and not pod.terminating
            and pod.created >= mark.began
            for pod in others
        )

    def _over(self, uid: Uid, plans: Plans) -> None:
        """Let another pod of its namespace have its turn, in a moment."""
        if uid in self._seen_to:
            plans.spawn_beside("left behind", partial(self._make_way, uid, plans))

    async def _make_way(self, uid: Uid, plans: Plans) -> None:
        await self._clock.sleep(PACE)
        namespace = self._seen_to.pop(uid, None)
        if namespace is not None:
            self._admit(namespace, plans)

    def _admit(self, namespace: str, plans: Plans) -> None:
        waiting = self._waiting.get(namespace, {})
        free = MOST_AT_ONCE - sum(of == namespace for of in self._seen_to.values())
        for uid in list(waiting)[:free]:
            del waiting[uid]
            self._seen_to[uid] = namespace
            plans.spawn_beside("left behind", partial(self._see_to, uid, plans), uid=uid)
        if not waiting:
            self._waiting.pop(namespace, None)

    async def _see_to(self, uid: Uid, plans: Plans) -> None:
        """Begin to restore the pod if a move of ours took it from its owner."""
        try:
            mark = await self._mark_of(uid, plans)
        except Exception:  # not when cancelled: nothing begins any more then
            self._over(uid, plans)
            raise
        pod = self._mirror.pod(uid)
        if mark is None or pod is None:
            self._over(uid, plans)
            return
        log.info("detached pod found", pod=str(pod))
        self._restoring[uid] = pod, mark
        plans.begin(restore_plan(uid))

    async def _mark_of(self, uid: Uid, plans: Plans) -> MoveMark | None:
        """Return the pod's mark if it is one of ours, and the pod still to be restored."""
        pod = self._mirror.pod(uid)
        if pod is None:
            return None
        try:
            took = await self._step_calls.took(pod)
        except (ClusterError, WireError) as error:
            self._step_calls.said.log(log.warning, "detached pod unreadable", error, pod=str(pod))
            return None  # the next sweep looks again
        now = self._mirror.pod(uid)
        if now is None or now.terminating or plans.follows(uid):
            return None
        if took is False:
            self._strangers.add(uid)
            self._ignore(now)
            return None
        return took if now.detached else None

    def _ignore(self, pod: Pod) -> None:
        if pod.uid not in self._told and self._tellings[pod.namespace] < MOST_TOLD:
            self._tellings[pod.namespace] += 1
            self._told.add(pod.uid)
            log.warning("label ignored", pod=str(pod), label=MIGRATING_LABEL)
            self._on_ignored(pod)

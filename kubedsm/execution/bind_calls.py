"""The calls of binds: each is sent once, and what came of it is told to its plan."""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from kubedsm.execution.migration_calls import Tell
from kubedsm.execution.tier_labels import TIER_LABEL, tier_marks
from kubedsm.kube.calls import verbs
from kubedsm.kube.client.port import (
    ApiStatusError,
    Cluster,
    ClusterError,
    Conflict,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.kube.wire.decoding import WireError
from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Uid, Workload
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.process.supervisor import Work
from plans.events import CallRefused, OutcomeLost, PodGone
from plans.steps import Step

log = structlog.get_logger()


class BindCalls:
    """`at_once`: calls in flight at most. `timeout`: of each, in seconds."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: ClusterMirror,
        said: SaidByCause,
        *,
        at_once: int,
        timeout: float,
    ) -> None:
        self._cluster = cluster
        self._mirror = mirror
        self._said = said
        self._timeout = timeout
        self._at_once = at_once
        #: how many tasks make the calls, and those that none has taken up yet
        self._callers = 0
        self._calls: deque[Work] = deque()
        #: set while no bind is being asked for
        self.none_under_way = asyncio.Event()
        self.none_under_way.set()
        #: workloads that lost pods by the label we set: theirs are bound without it
        self._unlabelled: set[Workload] = set()

    def observe(self, change: Change) -> None:
        """Notice owners that let go of what we label."""
        workload = _lost_by_label(change)
        if workload is not None:
            log.warning("owner lets go of what we label", owner=str(workload), label=TIER_LABEL)
            self._unlabelled.add(workload)

    def make(self, call: Work, spawn: Callable[[Work], None]) -> None:
        """Have the call made as soon as fewer than `at_once` are, by a task that `spawn` begins."""
        if self._callers < self._at_once:
            spawn(self._make_calls)
            self._callers += 1
            self.none_under_way.clear()
        self._calls.append(call)

    async def _make_calls(self) -> None:
        try:
            while self._calls:
                await self._calls.popleft()()
        finally:
            self._callers -= 1
            if not self._callers:
                self.none_under_way.set()

    async def bind(self, step: Step, tell: Tell) -> None:
        pod = self._mirror.pod(Uid(step.pod))
        if pod is None:
            return  # its plan has heard that
        node = self._mirror.node(NodeName(step.node))
        marks = tier_marks(pod, None if node is None else node.tier)
        try:
            # The API server copies both to the pod, at no extra call.
            await verbs.bind(
                self._cluster,
                pod,
                NodeName(step.node),
                annotations=marks.annotations,
                labels={} if pod.workload in self._unlabelled else marks.labels,
                timeout=self._timeout,
            )
        except (Conflict, OutcomeUnknown, ServerError) as error:
            # A conflict can be a bind of ours whose answer got lost: only a read can tell.
            self._said.log(log.warning, "bind unanswered", error, pod=str(pod), node=step.node)
            tell(OutcomeLost(step.id, str(error)))
        except (ApiStatusError, Unreachable) as error:
            self._said.log(log.warning, "bind refused", error, pod=str(pod), node=step.node)
            tell(CallRefused(step.id, str(error)))

    async def read(self, step: Step, tell: Tell, take_in: Callable[[Pod], None]) -> None:
        """Read the step's pod live; `take_in` hears of it as it is now."""
        pod = self._mirror.pod(Uid(step.pod))
        if pod is None:
            tell(PodGone(step.pod))
            return
        try:
            live = await verbs.get_pod(
                self._cluster, pod.namespace, pod.name, timeout=self._timeout
            )
        except (ClusterError, WireError) as error:
            self._said.log(log.warning, "pod unreadable", error, pod=str(pod))
            return  # the step stays overdue, and is verified again, unless the watch tells
        if live.uid != step.pod or self._mirror.pod(Uid(step.pod)) is None:
            tell(PodGone(step.pod))
        else:
            take_in(live)


def _lost_by_label(change: Change) -> Workload | None:
    """Whose pod it was, if its owner has let it go since it carries our label.

    A selector may exclude the label, or a value of it; that shows only when it is set. A pod that
    was detached and is given back has no owner until its ReplicaSet adopts it.
    """
    before, after = change.pod_before, change.pod_after
    if before is None or after is None or TIER_LABEL not in after.labels or before.detached:
        return None
    lost = before.workload.kind != "Pod" and after.workload.kind == "Pod"
    return before.workload if lost else None

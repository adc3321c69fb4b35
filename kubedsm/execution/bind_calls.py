"""Bind calls to the API server: sent exactly once, with tier labels; plans receive the outcome."""

import asyncio
from collections.abc import Callable, Mapping

import attrs
import structlog

from kubedsm.events.controller import Controller
from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.port import (
    TIMEOUT,
    ApiStatusError,
    ClusterError,
    Conflict,
    OutcomeUnknown,
    ServerError,
    Unreachable,
)
from kubedsm.model.events import Change
from kubedsm.model.model import DELETION_COST_ANNOTATION, Node, NodeName, Pod, Tier, Uid, Workload
from kubedsm.plugins.fit import shortages
from plans.events import CallRefused, OutcomeLost, PlanEvent, PodGone, PodSeen
from plans.steps import Step

log = structlog.get_logger()


#: reports an event to the plan of a call
Report = Callable[[PlanEvent], None]
#: returns whether the step still awaits the API call
IsPending = Callable[[], bool]


def observation(pod: Pod, *, live: bool = False) -> PodSeen:
    """Convert a pod's observed state to the plan event PodSeen."""
    return PodSeen(
        pod.uid,
        pod.node_name or "",
        pod.ready,
        pod.terminating,
        pod.detached,
        live=live,
        ended=pod.finished,
    )


#: makes controllers scale down cloud pods first
DELETION_COST: Mapping[str, str] = {Tier.EDGE: "100", Tier.CLOUD: "-100"}
TIER_LABEL = "kubedsm.io/tier"


@attrs.define(eq=False, repr=False, slots=False)
class BindCalls(Controller):
    """Bind calls and live reads, up to `at_once` binds in flight."""

    at_once: int
    _slots: asyncio.Semaphore = attrs.field(init=False)
    #: number of binds in flight, or waiting for a slot
    _under_way: int = attrs.field(default=0, init=False)
    #: set while no bind is under way
    none_under_way: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    #: workloads that released a labelled pod: bound without the tier label
    _unlabelled: set[Workload] = attrs.field(factory=set, init=False)
    #: those of them whose owner's selector was not read yet
    _suspected: set[Workload] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.at_once)
        self.none_under_way.set()

    def observe(self, change: Change) -> None:
        """Detect an owner that releases pods with a tier label, and label no more of its pods until
        its selector is read.

        A selector may exclude the label, or some label value. A restored pod, detached before, has
        no owner until adoption by the ReplicaSet.
        """
        before, after = change.pod_before, change.pod_after
        if before is None or after is None or TIER_LABEL not in after.labels or before.detached:
            return
        if before.workload.kind != "Pod" and after.workload.kind == "Pod":
            if before.workload not in self._unlabelled:
                self._suspected.add(before.workload)
            self._unlabelled.add(before.workload)

    def longest_wait(self, number: int) -> float:
        """Return the longest wait for a slot, in seconds, of a bind after `number` further binds:
        each earlier round of `at_once` binds may take a request's whole time limit.
        """
        return (self._under_way + number) // self.at_once * TIMEOUT

    async def bind(self, step: Step, is_pending: IsPending, report: Report) -> None:
        """Bind the pod to its node once fewer than `at_once` binds are in flight, unless the plan
        has given up the bind.

        While volumes or a slot were awaited, the node may have gone, or the pods of others may have
        filled the node: then the bind is refused here. The API server checks neither.
        """
        self._under_way += 1
        self.none_under_way.clear()
        try:
            async with self._slots:
                pod = self.mirror.pod(Uid(step.pod))
                if pod is not None and pod.workload in self._suspected:
                    await self._read_selector(pod)
                    pod = self.mirror.pod(Uid(step.pod))
                if pod is None or not is_pending():
                    return
                name = NodeName(step.node)
                free = self.mirror.free.get(name)
                in_doubt = free is None or any(amount < 0 for _, amount in free.items())
                obstacle = self._find_obstacle(pod, name) if in_doubt else ""
                if obstacle:
                    report(CallRefused(step.id, obstacle))
                else:
                    await self._send_bind(step, pod, report)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self.none_under_way.set()

    async def _read_selector(self, pod: Pod) -> None:
        """Label the workload's pods again if the selector of the pod's owner names no tier label:
        users may have taken the released pod out of service.
        """
        try:
            known_by = await reads.owner_knows_by(self.cluster, pod)
        except ClusterError as error:
            self.throttle.log(log.info, "owner unreadable", error, pod=str(pod))
            return
        if known_by is not None and pod.workload in self._suspected:
            self._suspected.discard(pod.workload)
            if TIER_LABEL in known_by:
                name = str(pod.workload)
                log.warning("owner releases labelled pods", owner=name, label=TIER_LABEL)
            else:
                self._unlabelled.discard(pod.workload)

    def _find_obstacle(self, pod: Pod, name: NodeName) -> str:
        """Return the reason why the node cannot take the pod, gone or full meanwhile; else "".

        Reservations of other plans, which may yet be given up, do not count.
        """
        node = self.mirror.node(name)
        if node is None:
            return f"node {name} is gone"
        free = node.allocatable
        for other in self.mirror.pods_on(name):
            if other.held is not None and other.uid != pod.uid:
                free -= other.held[1]
        short = shortages(pod.requests, free)
        return f"node {name} filled up meanwhile: {', '.join(short)}" if short else ""

    async def _send_bind(self, step: Step, pod: Pod, report: Report) -> None:
        node = self.mirror.node(NodeName(step.node))
        labels, annotations = tier_marks(pod, None if node is None else node.tier)
        try:
            # The API server copies annotations and labels to the pod, without a further call.
            await writes.bind(
                self.cluster,
                pod,
                NodeName(step.node),
                annotations=annotations,
                labels={} if pod.workload in self._unlabelled else labels,
            )
        except (Conflict, OutcomeUnknown, ServerError) as error:
            # A conflict can be our own bind whose response got lost: only a live read can tell.
            self.throttle.log(log.warning, "bind unanswered", error, pod=str(pod), node=step.node)
            report(OutcomeLost(step.id, str(error)))
        except (ApiStatusError, Unreachable) as error:
            self.throttle.log(log.warning, "bind refused", error, pod=str(pod), node=step.node)
            report(CallRefused(step.id, str(error)))

    async def read_pod(self, step: Step) -> Pod | PodGone | None:
        """Read the plan step's pod from the API server; None if unreadable, PodGone if deleted."""
        pod = self.mirror.pod(Uid(step.pod))
        if pod is None:
            return PodGone(step.pod)
        try:
            live = await reads.get_pod(self.cluster, pod.namespace, pod.name)
        except ClusterError as error:
            self.throttle.log(log.warning, "pod unreadable", error, pod=str(pod))
            return None  # the step is verified again, unless the watch shows the pod before
        if live.uid != step.pod or self.mirror.pod(Uid(step.pod)) is None:
            return PodGone(step.pod)
        return live


def tier_marks(pod: Pod, tier: Tier | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tier labels and annotations for a pod bound to a node of the given tier.

    A deletion cost chosen by users remains: any value except the scheduler's for the labelled tier.
    A tier label of the pod template remains as well, because the owner's selector may require the
    label.
    """
    if tier is None:
        return {}, {}
    made_with = pod.node_name is None and TIER_LABEL in pod.labels
    labels = {} if made_with else {TIER_LABEL: tier.value}
    ours = DELETION_COST.get(pod.labels.get(TIER_LABEL, ""))
    if pod.deletion_cost not in (None, ours):
        return labels, {}
    return labels, {DELETION_COST_ANNOTATION: DELETION_COST[tier]}


def list_removable_marks(
    pod: Pod, template_labels: Mapping[str, str], template_annotations: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return keys of the labels and annotations that `tier_marks` has set on the pod.

    Labels and annotations of the owner's pod template stay, as do deletion costs set by users.
    """
    ours = DELETION_COST.get(pod.labels.get(TIER_LABEL, ""))
    has_label = TIER_LABEL in pod.labels and TIER_LABEL not in template_labels
    is_ours = ours is not None and pod.deletion_cost == ours
    has_cost = is_ours and DELETION_COST_ANNOTATION not in template_annotations
    return (TIER_LABEL,) * has_label, (DELETION_COST_ANNOTATION,) * has_cost


@attrs.define
class TierKeeper(Controller):
    """Reconciler of tier labels on pods: the label must equal the tier of the pod's node.

    Only the leader reconciles labels: nothing is reported before the first `mark_all`.
    """

    _active: bool = attrs.field(default=False, init=False)

    def mark_all(self) -> None:
        """Reconcile tier labels of all pods now, and later of pods on nodes that change tier."""
        self._active = True
        for node in self.mirror.nodes():
            self._mark_pods(node)

    def observe(self, change: Change) -> None:
        before, after = change.node_before, change.node_after
        if self._active and before and after and before.tier is not after.tier:
            self._mark_pods(after, again=True)

    def _mark_pods(self, node: Node, *, again: bool = False) -> None:
        """`again`: an update to the former tier may be on its way, so even equal labels are set."""
        scheduler_name = self.configuration.current.scheduler_name
        for pod in self.mirror.pods_on(node.name):
            label, ours = pod.labels.get(TIER_LABEL), pod.scheduler_name == scheduler_name
            if ours and node.tier is not None and label and (again or label != node.tier):
                self.recorder.update_tier_labels(pod, *tier_marks(pod, node.tier))

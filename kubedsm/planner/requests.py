"""Planner interface: long-running requests, planner implementations, and placement requests.

A response describes the cluster at `ClusterMirror.changes` of the request. For an in-process
planner the cluster is unchanged. Responses of a child process require revalidation by the client.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, Protocol, TypeVar

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.model.deadline import PATIENT_SHARE, URGENT_SHARE, Deadline
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Resources, Uid
from kubedsm.model.selecting import Budget
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.preemption import Preemption, PreemptionSearch
from kubedsm.optimizer.policies.kubedsm import KubeDSM
from kubedsm.optimizer.policies.policy import Policy
from kubedsm.process.clock import Clock

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class NoResponseError(Exception):
    """The planner cannot respond now; the reason has been logged. A later request may succeed."""


@attrs.frozen(slots=True)
class PlanningContext:
    """Read-only inputs of a planner request: mirror, configuration, policy and clock."""

    mirror: ClusterMirror
    #: pods of plans under way
    followed: Container[Uid]
    #: the present values
    configuration: Callable[[], Configuration]
    policy: Callable[[], Policy]
    clock: Clock
    #: a request of higher precedence is waiting
    interrupted: Callable[[], bool] = lambda: False

    def deadline(self, request: "Request[Any]") -> Deadline:
        """Return the deadline for solving a request: the end of the time budget or, unless the
        request is urgent, an interruption.

        The work of an urgent request is limited as if `Deadline.within` had the budget. On a busy
        machine more time may pass: pods wait, and are placed as well as on an idle one.
        """
        deadline = Deadline.within(time_limit(request), self.clock.monotonic, PATIENT_SHARE)
        if request.urgent:
            return deadline
        return attrs.evolve(
            deadline, spent=lambda: max(deadline.spent(), float(self.interrupted()))
        )


class Request(Protocol[R_co]):
    """Base class of requests to the planner process."""

    @property
    def name(self) -> str:
        """Name of the request type in metrics and log lines."""

    @property
    def budget(self) -> float:
        """Time limit for solving the request, in seconds; if the request is urgent, three times as
        long on a busy machine.
        """

    @property
    def urgent(self) -> bool:
        """True if pods wait for the response; urgent requests interrupt other requests."""

    def solve(self, context: PlanningContext) -> R_co:
        """Compute the response to the request in the planner process."""


def time_limit(request: Request[Any]) -> float:
    """Return the time limit for solving the request on a busy machine, in seconds."""
    return request.budget * (URGENT_SHARE / PATIENT_SHARE if request.urgent else 1)


class Planner(Protocol):
    async def solve(self, request: Request[R], *, idle: bool = False) -> R:
        """Solve a request and return the response. Raises NoResponseError.

        `idle`: nothing depends on the response, and every other request takes precedence.
        """


@attrs.frozen
class InProcessPlanner:
    """Planner that solves requests synchronously in the scheduler's own process, for tests and
    replay.
    """

    context: PlanningContext

    async def solve(self, request: Request[R], *, idle: bool = False) -> R:  # noqa: ARG002
        return request.solve(self.context)


# Requests for pods without a node.

#: restricts the cluster for some pods while sites are partitioned
View = Callable[[Snapshot], Snapshot]

#: time limit of a search for victims, in seconds
PREEMPTION_BUDGET = 0.5


@attrs.frozen(slots=True)
class PlaceResponse:
    #: without rejections: the client filters again, considering current nodes
    decision: Decision
    unplaced: tuple[Pod, ...]
    #: pods possibly waiting for edge capacity of terminating pods
    awaiting_capacity: tuple[Pod, ...]


@attrs.frozen(slots=True)
class PlaceRequest:
    """Planner request for placing a batch that exceeds the time limit of the event loop."""

    name = "placing"
    urgent = True
    uids: tuple[Uid, ...]
    #: seconds since the epoch
    at: float
    budget: float
    #: terminating pods whose edge capacity the batch may wait for
    leaving: frozenset[Uid] = frozenset()
    #: None: the whole cluster
    view: View | None = None
    #: cloud node at which the sampling of a large cloud starts
    start: int = 0
    #: time limit of the event loop, in seconds; 0: too many pods for the event loop
    inline: float = 0.0

    def solve(self, context: PlanningContext) -> PlaceResponse:
        """Compute the placement decision. Raises TypeError if the policy is not KubeDSM."""
        policy = context.policy()
        if not isinstance(policy, KubeDSM):
            raise TypeError(f"{policy} does not plan batches")
        snapshot = context.mirror.snapshot(self.at)
        if self.view is not None:
            snapshot = self.view(snapshot)
        pods = snapshot.schedulable(snapshot.pods[uid] for uid in self.uids if uid in snapshot.pods)
        decided = None
        if self.inline:
            # The event loop may have run out of time: on an idle machine this decision stands.
            again = Deadline.within(self.inline, lambda: 0.0)
            decided = policy.at_once(snapshot, pods, self.leaving, again, self.start)
        decision, awaiting = decided or policy.decide_ahead(
            snapshot, pods, self.leaving, context.deadline(self), self.start
        )
        unplaced = tuple(snapshot.pods[uid] for uid in decision.unplaced)
        return PlaceResponse(attrs.evolve(decision, unplaced={}), unplaced, awaiting)


@attrs.frozen(slots=True)
class PreemptResponse:
    pod: Pod
    #: feasible node after the deletion of terminating pods
    freeing: NodeName | None = None
    #: victims to evict, possibly none
    found: Preemption | None = None
    #: some eviction would help; only for requests without budgets
    helps: bool = False


@attrs.frozen(slots=True)
class PreemptRequest:
    """Planner request for the pods to evict (victims) for a pending pod, on `node` or else on the
    best node.

    Without budgets, the request only determines whether any eviction helps.
    """

    name = "preemption"
    urgent = True
    budget = PREEMPTION_BUDGET
    pod: Pod
    #: capacity reserved for the pod and for less important pods, free to the pod
    reserved: Mapping[NodeName, Resources]
    #: pods whose eviction was granted
    leaving: frozenset[Uid]
    budgets: tuple[Budget, ...] | None = None
    shunned: frozenset[NodeName] = frozenset()
    node: NodeName | None = None
    #: prefer the edge for a pod with a QoS target, unlike kube-scheduler
    use_qos_targets: bool = True

    def solve(self, context: PlanningContext) -> PreemptResponse:
        pod, snapshot = self.pod, context.mirror.snapshot().with_free(self.reserved)
        policy = context.configuration().policy
        snapshot, qos_targets = policy.resolve(snapshot)
        search = PreemptionSearch(
            snapshot,
            pod,
            qos_targets if self.use_qos_targets else None,
            policy.objective,
            self.leaving,
            context.followed,
            self.budgets or (),
            context.deadline(self),
            policy.sites.labels if policy.sites and policy.sites.may_apply(snapshot) else (),
        )
        if self.node is not None:
            found = search.on(self.node)
            enough = found is not None and not found.victims
            return PreemptResponse(pod, None if enough else search.room_to_come, found)
        freeing = search.room_to_come
        if freeing is not None:
            return PreemptResponse(pod, freeing)
        if self.budgets is None:
            return PreemptResponse(pod, helps=search.helps())
        return PreemptResponse(pod, found=search.best(self.shunned))

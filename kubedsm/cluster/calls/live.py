"""What has to be known about a pod and its owner at the moment it is moved, read live.

The mirror may lag, and knows nothing of owners, Services and budgets. A check reads the objects
themselves, just before it matters.
"""

from typing import TypeVar

import attrs
import msgspec

from kubedsm.cluster.calls.verbs import answer_of, pod_path
from kubedsm.cluster.client.paths import APPS, CORE, POLICY, path_of
from kubedsm.cluster.client.port import Cluster, NotFound, Request
from kubedsm.cluster.wire import decoding
from kubedsm.cluster.wire.errors import UNREADABLE, unreadable
from kubedsm.cluster.wire.move_mark import MIGRATION_ANNOTATION, mark_of
from kubedsm.core.placing.preemption import Budget
from kubedsm.core.world.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL, Pod
from kubedsm.core.world.selectors import Requirement, selects

T = TypeVar("T")
Labels = dict[str, str]


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Reference(_Shape, frozen=True):
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class _Metadata(_Shape, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: tuple[_Reference, ...] | None = None


class _Expression(_Shape, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class _Selector(_Shape, frozen=True):
    match_labels: Labels | None = None
    match_expressions: tuple[_Expression, ...] | None = None

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        equal = (Requirement(k, "In", (v,)) for k, v in (self.match_labels or {}).items())
        more = (
            Requirement(e.key, e.operator, e.values or ()) for e in self.match_expressions or ()
        )
        return (*equal, *more)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(requirement.key for requirement in self.requirements)

    def matches(self, labels: Labels) -> bool:
        return selects(self.requirements, labels)


class _PodSpec(_Shape, frozen=True):
    termination_grace_period_seconds: float | None = None
    volumes: tuple[dict[str, object], ...] | None = None


class _Pod(_Shape, frozen=True):
    metadata: _Metadata
    spec: _PodSpec


class _Condition(_Shape, frozen=True):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Template(_Shape, frozen=True):
    metadata: _Metadata = _Metadata()


class _WorkloadSpec(_Shape, frozen=True):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    selector: _Selector | None = None
    template: _Template = _Template()


class _WorkloadStatus(_Shape, frozen=True):
    replicas: int | None = None
    updated_replicas: int | None = None
    observed_generation: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Workload(_Shape, frozen=True):
    metadata: _Metadata
    spec: _WorkloadSpec
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def wanted(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def leaving(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def selector(self) -> _Selector:
        return self.spec.selector or _Selector()

    @property
    def template_labels(self) -> frozenset[str]:
        return frozenset(self.spec.template.metadata.labels or ())

    @property
    def shrinking(self) -> bool:
        """Whether it has more pods than it wants, so that some will be deleted."""
        return (self.status.replicas or 0) > self.wanted


class _ServiceSpec(_Shape, frozen=True):
    selector: Labels | None = None


class _Service(_Shape, frozen=True):
    metadata: _Metadata
    spec: _ServiceSpec = _ServiceSpec()


class _BudgetSpec(_Shape, frozen=True):
    selector: _Selector | None = None


class _BudgetStatus(_Shape, frozen=True):
    disruptions_allowed: int = 0


class _Budget(_Shape, frozen=True):
    metadata: _Metadata
    spec: _BudgetSpec
    status: _BudgetStatus = _BudgetStatus()


class _Items(_Shape, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = None


@attrs.frozen(slots=True)
class LivePod:
    pod: Pod
    template_hash: str
    grace: float
    #: kind and name of its controller; of the one it had, if it is detached
    owner_kind: str
    owner_name: str
    owner_uid: str
    has_claims: bool


@attrs.frozen(slots=True)
class LiveOwner:
    """A pod's owner, and the Deployment above it if there is one."""

    #: neither the ReplicaSet nor its Deployment, nor the StatefulSet, is there any more
    gone: bool
    #: pods the Deployment (the owner, without one) wants
    wanted: int = 0
    #: pods the ReplicaSet itself wants
    owner_wants: int = 0
    #: its pods that are Ready and stay, without the one in question and other detached ones
    ready_others: int = 0
    rolling_out: bool = False
    min_ready_seconds: float = 0.0
    #: it, or the Deployment above it, has more pods than it wants
    shrinking: bool = False
    #: why the owner cannot create pods; empty if it can
    failed_create: str = ""
    #: the labels that the selectors ask about, and those that its pods are made with
    selected_labels: frozenset[str] = frozenset()
    template_labels: frozenset[str] = frozenset()
    #: it has lost the pod by what detaching changed, and would have it back if that were undone
    lets_go: bool = False


async def read_pod(cluster: Cluster, pod: Pod, *, timeout: float) -> LivePod:
    """The pod of that name as it is now. Raises NotFound, WireError."""
    body = await answer_of(cluster, Request("GET", pod_path(pod.namespace, pod.name)), timeout)
    return _live_pod(body)


def _live_pod(body: bytes) -> LivePod:
    shape = _read("Pod", body, _Pod)
    metadata = shape.metadata
    labels, annotations = metadata.labels or {}, metadata.annotations or {}
    owner = next((o for o in metadata.owner_references or () if o.controller), None)
    controller = (owner.kind, owner.name, owner.uid) if owner else None
    mark = mark_of(labels, annotations.get(MIGRATION_ANNOTATION), controller)
    if mark is not None:
        controller = ("ReplicaSet", mark.replica_set, mark.uid)
    kind, name, uid = controller or ("", "", "")
    return LivePod(
        pod=decoding.pod(body),
        template_hash=labels.get(MIGRATING_LABEL if mark else TEMPLATE_HASH_LABEL, ""),
        grace=shape.spec.termination_grace_period_seconds or 0.0,
        owner_kind=kind,
        owner_name=name,
        owner_uid=uid,
        has_claims=any("persistentVolumeClaim" in v for v in shape.spec.volumes or ()),
    )


async def read_owner(cluster: Cluster, live: LivePod, *, timeout: float) -> LiveOwner:
    """What the pod's owner wants and has, without this pod.

    Raises NotFound for a pod that names no owner: that of one that is gone would be known.
    """
    if not live.owner_name:
        raise NotFound(404, "NotFound", f"pod {live.pod} names no owner")
    namespace = live.pod.namespace
    resource = "statefulsets" if live.owner_kind == "StatefulSet" else "replicasets"
    owner = await _workload(cluster, namespace, resource, live.owner_name, live.owner_uid, timeout)
    if owner is None:
        return LiveOwner(gone=True)
    above = next((o for o in owner.metadata.owner_references or () if o.controller), None)
    top = owner
    if above is not None and above.kind == "Deployment":
        found = await _workload(cluster, namespace, "deployments", above.name, above.uid, timeout)
        if found is None:
            return LiveOwner(gone=True)
        top = found
    failure = next(
        (
            c.message or c.reason or "it cannot create pods"
            for c in owner.status.conditions or ()
            if c.type == "ReplicaFailure" and c.status == "True"
        ),
        "",
    )
    return LiveOwner(
        gone=False,
        wanted=top.wanted,
        owner_wants=owner.wanted,
        ready_others=await _ready_others(cluster, live, top, timeout),
        rolling_out=_rolling_out(top),
        min_ready_seconds=float(top.spec.min_ready_seconds or 0),
        shrinking=owner.shrinking or top.shrinking,
        failed_create=failure,
        selected_labels=owner.selector.keys | top.selector.keys,
        template_labels=owner.template_labels | top.template_labels,
        lets_go=_lets_go(owner, live),
    )


async def owner_knows_by(cluster: Cluster, pod: Pod, *, timeout: float) -> frozenset[str]:
    """The labels by which the pod's owner finds its pods: to change one would make it lose it.

    Raises ClusterError, WireError.
    """
    live = await read_pod(cluster, pod, timeout=timeout)
    if not live.owner_name:
        return frozenset()
    return (await read_owner(cluster, live, timeout=timeout)).selected_labels


def _lets_go(owner: _Workload, live: LivePod) -> bool:
    labels = dict(live.pod.labels)
    others = {key: value for key, value in labels.items() if key != MIGRATING_LABEL}
    attached = {**others, TEMPLATE_HASH_LABEL: live.template_hash}
    return owner.selector.matches(attached) and not owner.selector.matches(labels)


def _rolling_out(top: _Workload) -> bool:
    status = top.status
    if status.observed_generation is not None and (
        status.observed_generation < top.metadata.generation
    ):
        return True
    if status.update_revision and status.current_revision:
        return status.update_revision != status.current_revision
    return status.updated_replicas is not None and (status.updated_replicas != status.replicas)


async def _workload(
    cluster: Cluster, namespace: str, resource: str, name: str, uid: str, timeout: float
) -> _Workload | None:
    path = path_of(APPS, namespace, resource, name)
    try:
        body = await answer_of(cluster, Request("GET", path), timeout)
    except NotFound:
        return None
    found = _read(resource, body, _Workload)
    return None if found.leaving or (uid and found.metadata.uid != uid) else found


async def _ready_others(cluster: Cluster, live: LivePod, top: _Workload, timeout: float) -> int:
    path = path_of(CORE, live.pod.namespace, "pods")
    query = {"labelSelector": _selector_text(top.selector)}
    body = await answer_of(cluster, Request("GET", path, query), timeout)
    pods = [decoding.pod(item) for item in _read("PodList", body, _Items).items or ()]
    return sum(
        pod.ready and not (pod.terminating or pod.finished or pod.detached)
        for pod in pods
        # One without an owner is not theirs, though their selector finds it.
        if pod.uid != live.pod.uid and pod.workload.kind != "Pod"
    )


def _selector_text(selector: _Selector) -> str:
    parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        values = ",".join(expression.values or ())
        match expression.operator:
            case "Exists":
                parts.append(expression.key)
            case "DoesNotExist":
                parts.append(f"!{expression.key}")
            case "In":
                parts.append(f"{expression.key} in ({values})")
            case _:
                parts.append(f"{expression.key} notin ({values})")
    return ",".join(parts)


async def services_by_template(cluster: Cluster, namespace: str, *, timeout: float) -> list[str]:
    """Services that select a template hash, and so would lose a detached pod."""
    body = await answer_of(cluster, Request("GET", path_of(CORE, namespace, "services")), timeout)
    services = [
        _read("Service", item, _Service) for item in _read("List", body, _Items).items or ()
    ]
    return [s.metadata.name for s in services if TEMPLATE_HASH_LABEL in (s.spec.selector or {})]


async def budgets_of(cluster: Cluster, pod: Pod, *, timeout: float) -> list[tuple[str, int]]:
    """The disruption budgets that cover the pod: (name, disruptions allowed) of each."""
    path = path_of(POLICY, pod.namespace, "poddisruptionbudgets")
    body = await answer_of(cluster, Request("GET", path), timeout)
    budgets = [
        _read("PodDisruptionBudget", i, _Budget) for i in _read("List", body, _Items).items or ()
    ]
    labels = dict(pod.labels)
    return [
        (budget.metadata.name, budget.status.disruptions_allowed)
        for budget in budgets
        if budget.spec.selector is not None and budget.spec.selector.matches(labels)
    ]


async def all_budgets(cluster: Cluster, *, timeout: float) -> list[Budget]:
    """Every disruption budget. One without a selector, or with an empty one, covers nothing."""
    body = await answer_of(cluster, Request("GET", "/apis/policy/v1/poddisruptionbudgets"), timeout)
    budgets = [
        _read("PodDisruptionBudget", i, _Budget) for i in _read("List", body, _Items).items or ()
    ]
    return [
        Budget(budget.metadata.namespace, requirements, budget.status.disruptions_allowed)
        for budget in budgets
        if budget.spec.selector and (requirements := budget.spec.selector.requirements)
    ]


def _read(kind: str, body: bytes | msgspec.Raw, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        raise unreadable(kind, error, body) from None

"""What has to be known about a pod and its owner at the moment it is moved, read live.

The mirror may lag, and knows nothing of owners, Services and budgets. A check reads the objects
themselves, just before it matters.
"""

import attrs
import msgspec

from kubedsm.kube.calls.verbs import pod_path
from kubedsm.kube.client.api_errors import body_of
from kubedsm.kube.client.paths import APPS, CORE, POLICY, path_of
from kubedsm.kube.client.port import Cluster, NotFound, Request
from kubedsm.kube.wire import decoding, live_schema
from kubedsm.kube.wire.decoding import Reader
from kubedsm.kube.wire.errors import UNREADABLE, unreadable
from kubedsm.kube.wire.live_schema import Items, Workload
from kubedsm.kube.wire.move_mark import MoveMark
from kubedsm.kube.wire.pod_rules import selector_of
from kubedsm.kube.wire.pods import controller_of, made, mark_on
from kubedsm.kube.wire.schema import T
from kubedsm.model.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL, Pod
from kubedsm.model.model import Workload as ModelWorkload
from kubedsm.model.selectors import Selector, keys_of, selects
from kubedsm.optimizer.placing.preemption import Budget

#: kinds of owners that can be read, with their plurals
APPS_RESOURCES = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
}


@attrs.frozen(slots=True)
class LivePod:
    pod: Pod
    template_hash: str
    grace: float
    #: kind and name of its controller; of the one it had, if it is detached
    owner_kind: str
    owner_name: str
    owner_uid: str
    #: of the migration that detached it, if one did
    mark: MoveMark | None = None


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
    body = body_of(
        await cluster.request(Request("GET", pod_path(pod.namespace, pod.name)), timeout=timeout)
    )
    return _PODS.value(body)


def _live_pod(shape: live_schema.Pod) -> LivePod:
    spec, labels, owner = shape.spec, shape.metadata.labels or {}, controller_of(shape.metadata)
    kind, name, uid = (owner.kind, owner.name, owner.uid or "") if owner else ("", "", "")
    mark = mark_on(shape.metadata)
    if mark is not None:
        kind, name, uid = "ReplicaSet", mark.replica_set, mark.uid
    return LivePod(
        pod=made(shape),
        template_hash=labels.get(MIGRATING_LABEL if mark else TEMPLATE_HASH_LABEL, ""),
        grace=spec.termination_grace_period_seconds or 0.0,
        owner_kind=kind,
        owner_name=name,
        owner_uid=uid,
        mark=mark,
    )


_PODS = Reader("Pod", live_schema.Pod, _live_pod)


async def read_owner(cluster: Cluster, live: LivePod, *, timeout: float) -> LiveOwner:
    """What the pod's owner wants and has, without this pod.

    Raises NotFound for a pod that names no owner: that of one that is gone would be known.
    """
    if not live.owner_name:
        raise NotFound(404, "NotFound", f"pod {live.pod} names no owner")
    namespace = live.pod.namespace
    resource = APPS_RESOURCES["StatefulSet" if live.owner_kind == "StatefulSet" else "ReplicaSet"]
    owner = await _workload(cluster, namespace, resource, live.owner_name, live.owner_uid, timeout)
    if owner is None:
        return LiveOwner(gone=True)
    above = controller_of(owner.metadata)
    top = owner
    if above is not None and above.kind == "Deployment":
        found = await _workload(
            cluster, namespace, APPS_RESOURCES["Deployment"], above.name, above.uid or "", timeout
        )
        if found is None:
            return LiveOwner(gone=True)
        top = found
    selector, of_top = owner.selector, top.selector
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
        ready_others=await _ready_others(cluster, live, of_top, timeout),
        rolling_out=_rolling_out(top),
        min_ready_seconds=float(top.spec.min_ready_seconds or 0),
        shrinking=owner.shrinking or top.shrinking,
        failed_create=failure,
        selected_labels=keys_of(selector) | keys_of(of_top),
        template_labels=owner.template_labels | top.template_labels,
        lets_go=_lets_go(selector, live),
    )


async def uid_of(cluster: Cluster, workload: ModelWorkload, *, timeout: float) -> str | None:
    """The uid of a workload whose kind is in APPS_RESOURCES; None if it is gone, or going.

    Raises ClusterError, WireError.
    """
    plural = APPS_RESOURCES[workload.kind]
    found = await _workload(cluster, workload.namespace, plural, workload.name, None, timeout)
    return found.metadata.uid if found else None


async def owner_knows_by(cluster: Cluster, pod: Pod, *, timeout: float) -> frozenset[str]:
    """The labels by which the pod's owner finds its pods: to change one would make it lose it.

    Raises ClusterError, WireError.
    """
    live = await read_pod(cluster, pod, timeout=timeout)
    if not live.owner_name:
        return frozenset()
    return (await read_owner(cluster, live, timeout=timeout)).selected_labels


def _lets_go(selector: Selector, live: LivePod) -> bool:
    labels = dict(live.pod.labels)
    others = {key: value for key, value in labels.items() if key != MIGRATING_LABEL}
    attached = {**others, TEMPLATE_HASH_LABEL: live.template_hash}
    return selects(selector, attached) and not selects(selector, labels)


def _rolling_out(top: Workload) -> bool:
    status = top.status
    if status.observed_generation is not None and (
        status.observed_generation < top.metadata.generation
    ):
        return True
    if status.update_revision and status.current_revision:
        return status.update_revision != status.current_revision
    return status.updated_replicas is not None and (status.updated_replicas != status.replicas)


async def _workload(
    cluster: Cluster, namespace: str, resource: str, name: str, uid: str | None, timeout: float
) -> Workload | None:
    path = path_of(APPS, namespace, resource, name)
    try:
        body = body_of(await cluster.request(Request("GET", path), timeout=timeout))
    except NotFound:
        return None
    found = _read(resource, body, Workload)
    return (
        None if found.metadata.deletion_timestamp or (uid and found.metadata.uid != uid) else found
    )


async def _ready_others(cluster: Cluster, live: LivePod, selector: Selector, timeout: float) -> int:
    path = path_of(CORE, live.pod.namespace, "pods")
    query = {"labelSelector": _selector_text(selector)}
    body = body_of(await cluster.request(Request("GET", path, query), timeout=timeout))
    pods = [decoding.pod(item) for item in _read("PodList", body, Items[msgspec.Raw]).items or ()]
    return sum(
        pod.ready and not (pod.terminating or pod.finished or pod.detached)
        for pod in pods
        # One without an owner is not theirs, though their selector finds it.
        if pod.uid != live.pod.uid and pod.workload.kind != "Pod"
    )


def _selector_text(selector: Selector) -> str:
    parts = []
    for requirement in selector or ():
        key, values = requirement.key, ",".join(requirement.values)
        match requirement.operator:
            case "Exists":
                parts.append(key)
            case "DoesNotExist":
                parts.append(f"!{key}")
            case "In":
                parts.append(f"{key} in ({values})")
            case _:
                parts.append(f"{key} notin ({values})")
    return ",".join(parts)


async def services_by_template(cluster: Cluster, namespace: str, *, timeout: float) -> list[str]:
    """Services that select a template hash, and so would lose a detached pod."""
    body = body_of(
        await cluster.request(Request("GET", path_of(CORE, namespace, "services")), timeout=timeout)
    )
    services = _read("Service", body, Items[live_schema.Service]).items or ()
    return [s.metadata.name for s in services if TEMPLATE_HASH_LABEL in (s.spec.selector or {})]


async def budgets_of(cluster: Cluster, pod: Pod, *, timeout: float) -> list[tuple[str, int]]:
    """The disruption budgets that cover the pod: (name, disruptions allowed) of each."""
    path = path_of(POLICY, pod.namespace, "poddisruptionbudgets")
    return [
        (budget.metadata.name, budget.status.disruptions_allowed)
        for budget in await _budgets(cluster, path, timeout)
        if selects(selector_of(budget.spec.selector), pod.labels)
    ]


async def all_budgets(cluster: Cluster, *, timeout: float) -> list[Budget]:
    """Every disruption budget. One without a selector, or with an empty one, covers nothing."""
    return [
        Budget(budget.metadata.namespace or "", requirements, budget.status.disruptions_allowed)
        for budget in await _budgets(cluster, "/apis/policy/v1/poddisruptionbudgets", timeout)
        if (requirements := selector_of(budget.spec.selector))
    ]


async def _budgets(cluster: Cluster, path: str, timeout: float) -> tuple[live_schema.Budget, ...]:
    body = body_of(await cluster.request(Request("GET", path), timeout=timeout))
    return _read("PodDisruptionBudget", body, Items[live_schema.Budget]).items or ()


def _read(kind: str, body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except UNREADABLE as error:
        raise unreadable(kind, error, body) from None

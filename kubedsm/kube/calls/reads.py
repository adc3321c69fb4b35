"""Reads from the API server, one request each: pods, owners, disruption budgets, Events, version.

The mirror may lag, and knows no owners, Services and budgets. Hence a migration reads these objects
right before each step. The functions raise the exceptions of `Cluster.request`, ApiStatusError for
an unsuccessful response, and WireError for a malformed object. No function retries.
"""

from datetime import datetime
from http import HTTPStatus

import attrs
import msgspec

from kubedsm.kube.calls.writes import CONTROLLER
from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import (
    APPS,
    CORE,
    POLICY,
    Cluster,
    Conflict,
    NotFound,
    ObjectName,
    path_of,
)
from kubedsm.kube.wire import decoding, schema
from kubedsm.kube.wire.annotations import ANSWER_ANNOTATION, MoveMark, RequestAnswer, answer_in
from kubedsm.kube.wire.decoding import Reader, read_json
from kubedsm.kube.wire.pods import controller_of, mark_on, pod_of, selector_of
from kubedsm.kube.wire.schema import Items, LabelSelector
from kubedsm.model.model import MIGRATING_LABEL, TEMPLATE_HASH_LABEL, Pod, Workload
from kubedsm.model.selecting import Budget, Service
from kubedsm.model.selectors import Selector, keys_of, selects
from kubedsm.model.surroundings import Claim, Volume

#: Kubernetes' defaults of probes
_PROBE_PERIOD, _PROBE_FAILURES = 10.0, 3
#: plurals of readable owner kinds
APPS_RESOURCES = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
}


async def get_pod(cluster: Cluster, namespace: str, name: str) -> Pod:
    """Read a pod. Raises NotFound if absent."""
    return decoding.pod(await send(cluster, "GET", path_of(CORE, namespace, "pods", name)))


async def pod_address(cluster: Cluster, namespace: str, name: str, *, timeout: float) -> str:
    """Read the IP address of a pod; empty before it has one. Raises NotFound if absent."""
    path = path_of(CORE, namespace, "pods", name)
    body = await send(cluster, "GET", path, timeout=timeout)
    return read_json("Pod", body, _Details).status.address or ""


async def has_pulled(cluster: Cluster, pod: Pod) -> bool:
    """Return True if a finished pod has pulled its images; False if the kubelet rejected it, or
    ended it at its deadline: only then its status has a reason. Raises ClusterError.
    """
    body = await send(cluster, "GET", path_of(CORE, pod.namespace, "pods", pod.name))
    return not read_json("Pod", body, _Details).status.reason


async def get_config_map(cluster: Cluster, name: ObjectName) -> decoding.ConfigMap | None:
    """Read a ConfigMap; None if absent."""
    path = path_of(CORE, name.namespace, "configmaps", name.name)
    try:
        return decoding.config_map(await send(cluster, "GET", path))
    except NotFound:
        return None


async def get_claim(cluster: Cluster, namespace: str, name: str) -> Claim:
    """Read a PersistentVolumeClaim. Raises NotFound if absent."""
    path = path_of(CORE, namespace, "persistentvolumeclaims", name)
    return decoding.claim(await send(cluster, "GET", path))


async def get_volume(cluster: Cluster, name: str) -> Volume:
    """Read a PersistentVolume. Raises NotFound if absent."""
    path = path_of(CORE, None, "persistentvolumes", name)
    return decoding.volume(await send(cluster, "GET", path))


async def version(cluster: Cluster) -> str:
    """Read the API server's version, such as v1.36.2, as a check of address and credentials."""
    body = await send(cluster, "GET", "/version")
    return read_json("Version", body, schema.ServerVersion).git_version


async def namespace_uid(cluster: Cluster, name: str = "kube-system") -> str:
    """Return the uid of a namespace; that of kube-system identifies a cluster.

    Requires the right to list namespaces. Raises NotFound without the namespace.
    """
    query = {"fieldSelector": f"metadata.name={name}"}
    body = await send(cluster, "GET", f"{CORE}/namespaces", query=query)
    listed = read_json("NamespaceList", body, Items[schema.AnyObject]).items
    if not listed:
        raise NotFound(HTTPStatus.NOT_FOUND, "NotFound", f"there is no namespace {name}")
    return listed[0].metadata.uid or ""


class _Annotated(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    """Event in core/v1 representation."""

    metadata: _Annotated = _Annotated()
    reporting_component: str | None = None
    reason: str | None = None
    message: str | None = None
    event_time: str | None = None
    last_timestamp: str | None = None


@attrs.frozen(slots=True)
class PodEvent:
    #: RFC 3339
    at: str
    reason: str
    message: str


async def events_about(cluster: Cluster, pod: Pod) -> list[PodEvent]:
    """Return the Events about the pod that KubeDSM wrote, oldest first."""
    ours = [
        PodEvent(e.event_time or e.last_timestamp or "", e.reason or "", e.message or "")
        for e in await _our_events(cluster, pod.namespace, pod.uid)
    ]
    return sorted(ours, key=lambda event: event.at)


async def answers_to(
    cluster: Cluster, about: decoding.ConfigMap, request: str
) -> list[RequestAnswer]:
    """Return the schedulers' responses to a migration request, from Events on the ConfigMap."""
    identity = about.identity
    written = await _our_events(cluster, identity.namespace, identity.uid)
    said = [answer_in((e.metadata.annotations or {}).get(ANSWER_ANNOTATION, "")) for e in written]
    return [answer for answer in said if answer is not None and answer.request == request]


async def _our_events(cluster: Cluster, namespace: str, uid: str) -> list[_Event]:
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    body = await send(cluster, "GET", path_of(CORE, namespace, "events"), query=query)
    listed = read_json("EventList", body, Items[_Event]).items or ()
    return [event for event in listed if event.reporting_component == CONTROLLER]


@attrs.frozen(slots=True)
class LivePod:
    pod: Pod
    template_hash: str
    grace: float
    #: kind and name of the pod's controller; of its former controller, if the pod is detached
    owner_kind: str
    owner_name: str
    owner_uid: str
    #: migration mark of a detached pod
    mark: MoveMark | None = None
    #: seconds from the bind to readiness, observed and as its probes allow; 0: unknown
    started_within: float = 0.0
    starts_within: float = 0.0


@attrs.frozen(slots=True)
class LiveOwner:
    """Owner of a pod (such as a ReplicaSet) as read from the API server, and any Deployment."""

    #: the ReplicaSet and its Deployment, or the StatefulSet, no longer exist
    gone: bool
    #: replicas of the Deployment (of the owner, without a Deployment)
    wanted: int = 0
    #: replicas of the ReplicaSet itself
    owner_wants: int = 0
    #: other Ready pods of the owner, except terminating and detached pods
    ready_others: int = 0
    rolling_out: bool = False
    min_ready_seconds: float = 0.0
    #: the owner or the owning Deployment has surplus pods
    shrinking: bool = False
    #: reason for failing pod creation; empty without failure
    failed_create: str = ""
    #: label keys of the selectors, and label keys of the pod template
    selected_labels: frozenset[str] = frozenset()
    template_labels: frozenset[str] = frozenset()
    #: the owner's selector excludes the pod only because of detaching: reattaching is possible
    lets_go: bool = False


async def read_pod(cluster: Cluster, pod: Pod) -> LivePod:
    """Read a pod by name from the API server, with its owner. Raises NotFound if absent."""
    body = await send(cluster, "GET", path_of(CORE, pod.namespace, "pods", pod.name))
    live, details = _PODS.value(body), read_json("Pod", body, _Details)
    containers = details.spec.containers or ()
    return attrs.evolve(
        live,
        started_within=details.status.started_within,
        starts_within=max((each.starts_within for each in containers), default=0.0),
    )


class _Probe(msgspec.Struct, frozen=True, rename="camel"):
    initial_delay_seconds: float | None = None
    period_seconds: float | None = None
    failure_threshold: int | None = None


class _StartingContainer(msgspec.Struct, frozen=True, rename="camel"):
    startup_probe: _Probe | None = None
    readiness_probe: _Probe | None = None

    @property
    def starts_within(self) -> float:
        """Return the seconds until the kubelet restarts a container that does not start up, and
        until the first readiness probe; 0 without a startup probe and without a delay.
        """
        startup, readiness = self.startup_probe, self.readiness_probe
        seconds = 0.0 if readiness is None else readiness.initial_delay_seconds or 0.0
        if startup is not None:
            period = startup.period_seconds or _PROBE_PERIOD
            attempts = startup.failure_threshold or _PROBE_FAILURES
            seconds += (startup.initial_delay_seconds or 0.0) + period * attempts
        return seconds


class _TimedCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    status: str | None = None
    last_transition_time: datetime | None = None


class _PodStatus(msgspec.Struct, frozen=True):
    conditions: list[_TimedCondition] | None = None
    address: str | None = msgspec.field(default=None, name="podIP")
    #: of a pod that the kubelet rejected or ended
    reason: str | None = None

    @property
    def started_within(self) -> float:
        since = {
            each.type: each.last_transition_time.timestamp()
            for each in self.conditions or ()
            if each.status == "True" and each.last_transition_time is not None
        }
        if not {"PodScheduled", "Ready"} <= since.keys():
            return 0.0
        return max(0.0, since["Ready"] - since["PodScheduled"])


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_StartingContainer] | None = None


class _Details(msgspec.Struct, frozen=True):
    """Fields of a pod that the mirror does not keep."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def _live_pod(shape: schema.Pod) -> LivePod:
    spec, labels, owner = shape.spec, shape.metadata.labels or {}, controller_of(shape.metadata)
    kind, name, uid = (owner.kind, owner.name, owner.uid or "") if owner else ("", "", "")
    mark = mark_on(shape.metadata)
    if mark is not None:
        kind, name, uid = "ReplicaSet", mark.replica_set, mark.uid
    return LivePod(
        pod=pod_of(shape),
        template_hash=labels.get(MIGRATING_LABEL if mark else TEMPLATE_HASH_LABEL, ""),
        grace=spec.termination_grace_period_seconds or 0.0,
        owner_kind=kind,
        owner_name=name,
        owner_uid=uid,
        mark=mark,
    )


_PODS = Reader("Pod", schema.Pod, _live_pod)


async def read_owner(cluster: Cluster, live: LivePod) -> LiveOwner:
    """Read the pod's owner from the API server, and count the owner's other pods.

    Raises NotFound for a pod without an owner; a deleted owner is reported as `gone`. An API server
    that does not find an owner whose pods run is not believed: Conflict.
    """
    if not live.owner_name:
        raise NotFound(404, "NotFound", f"pod {live.pod} names no owner")
    namespace = live.pod.namespace
    kind = "StatefulSet" if live.owner_kind == "StatefulSet" else "ReplicaSet"
    owner = await _get_workload(cluster, namespace, kind, live.owner_name, live.owner_uid, live)
    if owner is None:
        return LiveOwner(gone=True)
    above = controller_of(owner.metadata)
    top = owner
    if above is not None and above.kind == "Deployment":
        found = await _get_workload(
            cluster, namespace, above.kind, above.name, above.uid or "", live
        )
        if found is None:
            return LiveOwner(gone=True)
        top = found
    selector, of_top = _selector_of(owner), _selector_of(top)
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
        ready_others=await _count_ready_others(cluster, live, of_top),
        rolling_out=_is_rolling_out(top, is_deployment=top is not owner),
        min_ready_seconds=float(top.spec.min_ready_seconds or 0),
        shrinking=owner.shrinking or top.shrinking,
        failed_create=failure,
        selected_labels=keys_of(selector) | keys_of(of_top),
        template_labels=owner.template_labels | top.template_labels,
        lets_go=_lets_go(selector, live),
    )


async def uid_of(cluster: Cluster, workload: Workload) -> str | None:
    """Return the uid of a workload such as a Deployment; None if deleted or terminating."""
    found = await _get_workload(cluster, workload.namespace, workload.kind, workload.name, None)
    return found.metadata.uid if found else None


async def owner_knows_by(cluster: Cluster, pod: Pod) -> frozenset[str] | None:
    """Return the label keys in the selector of the pod's owner: changing such a label detaches the
    pod. None without an owner, or if the owner's kind is unknown.
    """
    live = await read_pod(cluster, pod)
    if live.owner_kind not in APPS_RESOURCES:
        return None
    return (await read_owner(cluster, live)).selected_labels


def _selector_of(workload: schema.Workload) -> Selector:
    return selector_of(workload.spec.selector or LabelSelector())


def _lets_go(selector: Selector, live: LivePod) -> bool:
    labels = dict(live.pod.labels)
    others = {key: value for key, value in labels.items() if key != MIGRATING_LABEL}
    attached = {**others, TEMPLATE_HASH_LABEL: live.template_hash}
    return selects(selector, attached) and not selects(selector, labels)


def _is_rolling_out(top: schema.Workload, *, is_deployment: bool) -> bool:
    status = top.status
    if status.observed_generation is not None and (
        status.observed_generation < top.metadata.generation
    ):
        return True
    if status.update_revision and status.current_revision:
        return status.update_revision != status.current_revision
    # The API server omits zeros.
    return is_deployment and (status.updated_replicas or 0) != (status.replicas or 0)


async def _get_workload(
    cluster: Cluster,
    namespace: str,
    kind: str,
    name: str,
    uid: str | None,
    of: LivePod | None = None,
) -> schema.Workload | None:
    """Read a workload; None if deleted, terminating, or of another uid.

    Raises Conflict if the API server does not find it, though other pods of the owner of `of` run.
    """
    plural = APPS_RESOURCES[kind]
    try:
        body = await send(cluster, "GET", path_of(APPS, namespace, plural, name))
    except NotFound:
        if of is not None:
            await _check_not_found(cluster, of, f"{kind} {name}")
        return None
    found = read_json(plural, body, schema.Workload)
    gone = found.metadata.deletion_timestamp or (uid and found.metadata.uid != uid)
    return None if gone else found


async def _check_not_found(cluster: Cluster, live: LivePod, what: str) -> None:
    """Raise Conflict if other pods of the owner run: they would be deleted with the owner."""
    path = path_of(CORE, live.pod.namespace, "pods")
    query = {"labelSelector": f"{TEMPLATE_HASH_LABEL}={live.template_hash}"}
    body = await send(cluster, "GET", path, query=query if live.template_hash else None)
    for each in read_json("PodList", body, Items[schema.AnyObject]).items or ():
        controller, metadata = controller_of(each.metadata), each.metadata
        is_sibling = controller is not None and controller.uid == live.owner_uid
        if is_sibling and metadata.uid != live.pod.uid and not metadata.deletion_timestamp:
            raise Conflict(
                409, "Conflict", f"{what} is not found, but its pod {metadata.name} runs"
            )


async def _count_ready_others(cluster: Cluster, live: LivePod, selector: Selector) -> int:
    path = path_of(CORE, live.pod.namespace, "pods")
    body = await send(cluster, "GET", path, query={"labelSelector": _selector_text(selector)})
    items = read_json("PodList", body, Items[msgspec.Raw]).items or ()
    return sum(
        pod.ready and not (pod.terminating or pod.finished or pod.detached)
        for pod in map(decoding.pod, items)
        # Pods of another owner, or of none, may match as well.
        if pod.uid != live.pod.uid and pod.workload == live.pod.workload
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


async def list_budgets(cluster: Cluster, namespace: str | None = None) -> tuple[Budget, ...]:
    """List the PodDisruptionBudgets of a namespace, or of all."""
    path = path_of(POLICY, namespace, "poddisruptionbudgets")
    body = await send(cluster, "GET", path)
    return tuple(
        Budget(
            each.metadata.namespace or "",
            each.metadata.name,
            selector_of(each.spec.selector),
            each.status.desired_healthy,
            each.status.expected_pods,
            each.status.disruptions_allowed,
        )
        for each in read_json("PodDisruptionBudget", body, Items[schema.Budget]).items or ()
    )


async def list_services(cluster: Cluster, namespace: str | None = None) -> tuple[Service, ...]:
    """List the Services with a selector, of a namespace or of all."""
    body = await send(cluster, "GET", path_of(CORE, namespace, "services"))
    return tuple(
        Service(
            each.metadata.namespace or "",
            each.metadata.name,
            selector_of(schema.LabelSelector(match_labels=each.spec.selector)),
            bool(each.spec.traffic_distribution) or each.spec.internal_traffic_policy == "Local",
            TEMPLATE_HASH_LABEL in each.spec.selector,
        )
        for each in read_json("Service", body, Items[schema.Service]).items or ()
        if each.spec.selector
    )

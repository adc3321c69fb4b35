"""What JSON type every field must have, before anything else looks at an object.

The Go API server gets this from its types. Here it is a msgspec type a kind, holding the fields
that the emulator itself reads; other fields pass as they are. Null means absent.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kubedsm.emulator.api.errors import bad_request, cannot_be_handled
from kubedsm.emulator.api.field_types import (
    AutoscalerStatus,
    BudgetStatus,
    Int32,
    IntOrText,
    Labels,
    NodeStatus,
    PodStatus,
    Quantities,
    QuantitySyntaxError,
    QuotaStatus,
    Status,
    Timestamp,
    Type,
    WorkloadStatus,
    of_own_type,
)
from kubedsm.emulator.api.resources import Object, Resource


class _Owner(Type):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(Type):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Labels = None
    annotations: Labels = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Any(Type):
    """A kind of which only the metadata matters here."""

    metadata: _Metadata | None = None
    spec: dict[str, Any] | None = None
    status: Status | None = None


class _Resources(Type):
    requests: Quantities = None
    limits: Quantities = None


class _Port(Type):
    container_port: int | None = None
    host_port: int | None = None
    name: str | None = None
    protocol: str | None = None


class _Env(Type):
    name: str | None = None
    value: str | None = None
    value_from: dict[str, Any] | None = None


class _Mount(Type):
    name: str | None = None
    mount_path: str | None = None


class _Container(Type):
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    resources: _Resources | None = None
    ports: list[_Port] | None = None
    env: list[_Env] | None = None
    volume_mounts: list[_Mount] | None = None
    restart_policy: str | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None


class _Toleration(Type):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _Expression(Type):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(Type):
    match_labels: Labels = None
    match_expressions: list[_Expression] | None = None


class _Spread(Type):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: _Selector | None = None
    min_domains: int | None = None


class _Gate(Type):
    name: str


class _PodSpec(Type):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[dict[str, Any]] | None = None
    node_name: str | None = None
    node_selector: Labels = None
    affinity: dict[str, Any] | None = None
    tolerations: list[_Toleration] | None = None
    topology_spread_constraints: list[_Spread] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[_Gate] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    host_network: bool | None = None
    overhead: Quantities = None


class _Pod(_Any):
    spec: _PodSpec | None = None  # type: ignore[assignment]
    status: PodStatus | None = None


class _Template(Type):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _RollingUpdate(Type):
    max_surge: IntOrText = None
    max_unavailable: IntOrText = None
    partition: Int32 | None = None


class _Strategy(Type):
    type: str | None = None
    rolling_update: _RollingUpdate | None = None


class _Ordinals(Type):
    start: Int32 | None = None


class _WorkloadSpec(Type):
    replicas: Int32 | None = None
    selector: _Selector | None = None
    template: _Template | None = None
    min_ready_seconds: Int32 | None = None
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None
    strategy: _Strategy | None = None
    update_strategy: _Strategy | None = None
    ordinals: _Ordinals | None = None
    pod_management_policy: str | None = None
    service_name: str | None = None
    persistent_volume_claim_retention_policy: Labels = None


class _Workload(_Any):
    spec: _WorkloadSpec | None = None  # type: ignore[assignment]
    status: WorkloadStatus | None = None


class _ServicePort(Type):
    port: int | None = None
    target_port: IntOrText = None
    node_port: int | None = None
    name: str | None = None
    protocol: str | None = None


class _ServiceSpec(Type):
    type: str | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    selector: Labels = None
    ports: list[_ServicePort] | None = None


class _Service(_Any):
    spec: _ServiceSpec | None = None  # type: ignore[assignment]


class _Taint(Type):
    key: str
    effect: str
    value: str | None = None
    time_added: Timestamp | None = None


class _NodeSpec(Type):
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None


class _Node(_Any):
    spec: _NodeSpec | None = None  # type: ignore[assignment]
    status: NodeStatus | None = None


class _Target(Type):
    kind: str | None = None
    name: str | None = None
    api_version: str | None = None


class _Metric(Type):
    type: str | None = None
    resource: dict[str, Any] | None = None
    container_resource: dict[str, Any] | None = None
    pods: dict[str, Any] | None = None
    object: dict[str, Any] | None = None
    external: dict[str, Any] | None = None


class _AutoscalerSpec(Type):
    scale_target_ref: _Target | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    metrics: list[_Metric] | None = None
    behavior: dict[str, dict[str, Any] | None] | None = None


class _Autoscaler(_Any):
    spec: _AutoscalerSpec | None = None  # type: ignore[assignment]
    status: AutoscalerStatus | None = None


class _BudgetSpec(Type):
    min_available: IntOrText = None
    max_unavailable: IntOrText = None
    selector: _Selector | None = None


class _Budget(_Any):
    spec: _BudgetSpec | None = None  # type: ignore[assignment]
    status: BudgetStatus | None = None


class _QuotaSpec(Type):
    hard: Quantities = None


class _Quota(_Any):
    spec: _QuotaSpec | None = None  # type: ignore[assignment]
    status: QuotaStatus | None = None


class _NamespaceSpec(Type):
    finalizers: list[str] | None = None


class _Namespace(_Any):
    spec: _NamespaceSpec | None = None  # type: ignore[assignment]


class _ConfigMap(_Any):
    data: Labels = None


class _LeaseSpec(Type):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(_Any):
    spec: _LeaseSpec | None = None  # type: ignore[assignment]


class _Reference(Type):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class _Source(Type):
    component: str | None = None
    host: str | None = None


class _Event(_Any):
    involved_object: _Reference | None = None
    regarding: _Reference | None = None
    source: _Source | None = None
    deprecated_source: _Source | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    type: str | None = None
    count: int | None = None
    event_time: str | None = None
    action: str | None = None
    reporting_controller: str | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


class _Binding(_Any):
    target: _Target | None = None


class _Preconditions(Type):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Type):
    """meta/v1 DeleteOptions, the body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


class _Eviction(_Any):
    delete_options: DeleteOptions | None = None


class _ScaleSpec(Type):
    replicas: Int32 | None = None


class _Scale(_Any):
    spec: _ScaleSpec | None = None  # type: ignore[assignment]


_OF_KIND: Mapping[str, type[_Any]] = {
    "Pod": _Pod, "Deployment": _Workload, "ReplicaSet": _Workload, "StatefulSet": _Workload,
    "Service": _Service, "Node": _Node, "HorizontalPodAutoscaler": _Autoscaler,
    "PodDisruptionBudget": _Budget, "ResourceQuota": _Quota, "Namespace": _Namespace,
    "ConfigMap": _ConfigMap, "Lease": _Lease, "Event": _Event, "Binding": _Binding,
    "Eviction": _Eviction, "Scale": _Scale,
}  # fmt: skip

_BINDING = Resource("", "v1", "bindings", "binding", "Binding")
_EVICTION = Resource("policy", "v1", "evictions", "eviction", "Eviction")
SCALE = Resource("autoscaling", "v1", "scales", "scale", "Scale")


def check_types(resource: Resource, obj: Any) -> Object:
    """The object, if it is one of that resource's kind. Raises ApiError (400)."""
    if not isinstance(obj, dict):
        raise cannot_be_handled(resource, "the body is not an object")
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"no kind is registered for the type {kind} here"
        )
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.api_version})"
        )
    _convert(resource, obj, _OF_KIND.get(resource.kind, _Any))
    return obj


def check_binding(obj: Any) -> Object:
    return check_types(_BINDING, obj)


def check_eviction(obj: Any) -> Object:
    return check_types(_EVICTION, obj)


def check_scale(obj: Any) -> Object:
    return check_types(SCALE, obj)


def delete_options(obj: Any) -> DeleteOptions:
    """Raises ApiError (400)."""
    try:
        return msgspec.convert(obj or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from None


def preconditions(options: DeleteOptions) -> tuple[str, str]:
    """The uid and the resourceVersion that must still hold, empty for any."""
    given = options.preconditions or _Preconditions()
    return given.uid or "", given.resource_version or ""


def _convert(resource: Resource, obj: Object, shape: type[_Any]) -> None:
    try:
        msgspec.convert(obj, shape, dec_hook=of_own_type)
    except (msgspec.ValidationError, QuantitySyntaxError) as error:
        raise cannot_be_handled(resource, str(error)) from None

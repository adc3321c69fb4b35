"""Decode pods: individual fields, and the shared pod class."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

import msgspec

from kubedsm.kube.wire import schema
from kubedsm.kube.wire.annotations import MoveMark, mark_of, wishes_of
from kubedsm.kube.wire.pod_requests import Amounts, FieldError, Reported, Reports, pod_requests
from kubedsm.kube.wire.pod_rules import Demands, Pairs, list_claims, list_disks, scheduling_rules
from kubedsm.model.model import (
    DO_NOT_DISRUPT_ANNOTATION,
    EVERY_ADDRESS,
    MIGRATING_LABEL,
    TEMPLATE_HASH_LABEL,
    HostPort,
    NodeName,
    Pod,
    PodClass,
    Uid,
    Wishes,
    Workload,
)

#: marker, in the JSON of a rule, of dependence on the pod's own labels
_LABEL_KEYS = b"abelKeys"
_RESIZE_PENDING, _INFEASIBLE = "PodResizePending", "Infeasible"
_NO_STATUS = schema.PodStatus()


def pod_of(shape: schema.Pod) -> Pod:
    """Return the pod of a shape.

    Raises FieldError.
    """
    metadata, spec = shape.metadata, shape.spec
    if not metadata.uid:
        raise FieldError("metadata.uid", "missing")
    namespace = metadata.namespace
    if not namespace:
        raise FieldError("metadata.namespace", "missing")
    labels, status = metadata.labels or {}, shape.status or _NO_STATUS
    owner = controller_of(metadata)
    mark = mark_on(metadata) if MIGRATING_LABEL in labels else None
    return Pod(
        uid=Uid(metadata.uid),
        namespace=intern(namespace),
        name=metadata.name,
        workload=_workload_of(metadata, namespace, labels, owner, mark),
        pod_class=_pod_class(
            tuple(map(_requests_of, spec.containers)) if spec.containers else (),
            tuple(map(_init_requests, spec.init_containers)) if spec.init_containers else (),
            tuple(spec.overhead.items()) if spec.overhead else (),
            _requests_of(spec) if spec.resources else (),
            _read_reports(spec, status),
            tuple(spec.node_selector.items()) if spec.node_selector else (),
            spec.tolerations or (),
            _read_demands(metadata, spec, namespace, labels),
            spec.priority or 0,
            spec.preemption_policy != "Never",
        ),
        scheduler_name=intern(spec.scheduler_name or "default-scheduler"),
        node_name=NodeName(intern(spec.node_name)) if spec.node_name else None,
        phase=intern(status.phase or "Pending"),
        ready=bool(status.conditions and _is_ready(status.conditions)),
        terminating=metadata.deletion_timestamp is not None,
        detached=mark is not None,
        gated=bool(spec.scheduling_gates),
        created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
        labels=_intern_labels(tuple(labels.items())),
        resource_version=metadata.resource_version or "",
        gates=_gate_names(spec.scheduling_gates) if spec.scheduling_gates else (),
        pinned=_reason_to_stay(metadata, spec) if metadata.annotations or spec.volumes else "",
        untouchable=bool(metadata.annotations and _why_untouchable(metadata.annotations)),
        deletion_cost=metadata.annotations.deletion_cost if metadata.annotations else None,
        wishes=_read_wishes(metadata.annotations) if metadata.annotations else None,
        images=_image_names(tuple([c.image or "" for c in _all_containers(spec)])),
    )


def _all_containers(spec: schema.PodSpec) -> list[schema.Container]:
    containers = spec.containers or []
    return [*spec.init_containers, *containers] if spec.init_containers else containers


@lru_cache(maxsize=4096)
def _image_names(images: tuple[str, ...]) -> tuple[str, ...]:
    """Return image names with the default tag where none is given."""
    return tuple(
        intern(image if image.rfind(":") > image.rfind("/") else f"{image}:latest")
        for image in images
    )


@lru_cache(maxsize=4096)
def _intern_labels(labels: Pairs) -> Mapping[str, str]:
    """Return a shared object for equal labels."""
    return dict(labels)


def _read_wishes(annotations: schema.Annotations) -> Wishes | None:
    return wishes_of(annotations.qos, annotations.migration, annotations.rate)


def _why_untouchable(annotations: schema.Annotations) -> str:
    """Return why the pod must not leave the node; empty if permitted."""
    if annotations.do_not_disrupt == "true":
        return f"it is annotated {DO_NOT_DISRUPT_ANNOTATION}"
    if annotations.mirror is not None:
        return "it is a static pod of its node"
    return ""


def _reason_to_stay(metadata: schema.Metadata, spec: schema.PodSpec) -> str:
    """Return why the pod must not migrate: untouchable, or with a volume on the node."""
    if metadata.annotations and (why := _why_untouchable(metadata.annotations)):
        return why
    for volume in spec.volumes or ():
        if volume.host_path is not None or volume.empty_dir is not None:
            return "it has a volume on its node (hostPath or emptyDir)"
    return ""


def _gate_names(gates: Iterable[schema.Named]) -> tuple[str, ...]:
    return tuple(gate.name or "" for gate in gates)


def _is_ready(conditions: Iterable[schema.Condition]) -> bool:
    for condition in conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _is_infeasible(conditions: Iterable[schema.Condition]) -> bool:
    for condition in conditions:
        if condition.type == _RESIZE_PENDING:
            return condition.reason == _INFEASIBLE
    return False


def _requests_of(asking: schema.Container | schema.PodSpec) -> Amounts:
    resources = asking.resources
    return tuple(resources.requests.items()) if resources and resources.requests else ()


def _init_requests(container: schema.Container) -> tuple[Amounts, bool]:
    return _requests_of(container), container.restart_policy == "Always"


def _read_reports(spec: schema.PodSpec, status: schema.PodStatus) -> Reports | None:
    """Return the resources reported by the kubelet; None if equal to the requests."""
    if not (
        _may_differ(spec.containers, status.container_statuses)
        or _may_differ(spec.init_containers, status.init_container_statuses)
        or status.allocated_resources
        or status.resources
    ):
        return None
    return Reports(
        _all_reported(spec.containers, status.container_statuses),
        _all_reported(spec.init_containers, status.init_container_statuses),
        _report_of(status),
        _is_infeasible(status.conditions or ()),
    )


def _may_differ(
    containers: list[schema.Container] | None, statuses: list[schema.ContainerStatus] | None
) -> bool:
    """Return True if reports may differ from requests; statuses mostly follow spec order."""
    if not containers or not statuses:
        return False
    if len(containers) != len(statuses):
        return True
    for container, status in zip(containers, statuses):  # noqa: B905 - equally long, see above
        requests = container.resources.requests if container.resources else None
        if (
            status.name != container.name
            or (status.allocated_resources and status.allocated_resources != requests)
            or (status.resources is not None and status.resources.requests != requests)
        ):
            return True
    return False


def _report_of(status: schema.ContainerStatus | schema.PodStatus) -> Reported:
    reported: Reported = ()
    if status.allocated_resources:
        reported = (tuple(status.allocated_resources.items()),)
    if status.resources and status.resources.requests:
        reported += (tuple(status.resources.requests.items()),)
    return reported


def _all_reported(
    containers: list[schema.Container] | None, statuses: list[schema.ContainerStatus] | None
) -> tuple[Reported, ...]:
    by_name = {status.name: _report_of(status) for status in statuses or ()}
    return tuple(by_name.get(container.name, ()) for container in containers or ())


@lru_cache(maxsize=1024)
def _pod_class(
    containers: tuple[Amounts, ...],
    init_containers: tuple[tuple[Amounts, bool], ...],
    overhead: Amounts,
    pod_level: Amounts,
    reports: Reports | None,
    node_selector: Pairs,
    tolerations: tuple[schema.Toleration, ...],
    demands: Demands | None,
    priority: int,
    preempts: bool,
) -> PodClass:
    requests = pod_requests(containers, init_containers, overhead, pod_level, reports)
    tolerated = tuple(
        (t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in tolerations
    )
    rules = scheduling_rules(node_selector, tolerated, demands)
    return PodClass(requests, rules, priority, preempts)


def _read_demands(
    metadata: schema.Metadata, spec: schema.PodSpec, namespace: str, labels: Mapping[str, str]
) -> Demands | None:
    """Return the rare demands of a pod; None without any."""
    ports = _host_ports(spec)
    volumes = spec.volumes or ()
    claimed, mounted = (
        tuple(list_claims(volumes, namespace, metadata.name)),
        tuple(list_disks(volumes)),
    )
    affinity, spread = spec.affinity, spec.topology_spread_constraints
    if not (ports or claimed or mounted or affinity or spread or spec.resource_claims):
        return None
    affinity_json = msgspec.json.encode(affinity) if affinity else b""
    spread_json = msgspec.json.encode(spread) if spread else b""
    by_label = _LABEL_KEYS in affinity_json or _LABEL_KEYS in spread_json
    return Demands(
        ports,
        claimed,
        mounted,
        tuple(claim.name or "" for claim in spec.resource_claims or ()),
        namespace if affinity or spread else "",
        tuple(labels.items()) if by_label else (),
        affinity_json,
        spread_json,
    )


def _host_ports(spec: schema.PodSpec) -> tuple[HostPort, ...]:
    ports = [port for c in spec.containers or () if c.ports for port in c.ports if port.host_port]
    for container in spec.init_containers or ():
        if container.restart_policy == "Always" and container.ports:
            ports += [port for port in container.ports if port.host_port]
    return tuple(
        HostPort(port.host_port or 0, port.protocol or "TCP", port.host_ip or EVERY_ADDRESS)
        for port in ports
    )


def controller_of(metadata: schema.Metadata) -> schema.Owner | None:
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


def mark_on(metadata: schema.Metadata) -> MoveMark | None:
    """Return the complete migration mark of the pod, if any."""
    owner = controller_of(metadata)
    annotation = metadata.annotations.move if metadata.annotations else None
    controller = (owner.kind, owner.name, owner.uid or "") if owner else None
    return mark_of(metadata.labels or {}, annotation, controller)


def _workload_of(
    metadata: schema.Metadata,
    namespace: str,
    labels: Mapping[str, str],
    owner: schema.Owner | None,
    mark: MoveMark | None,
) -> Workload:
    """Return the pod's workload, also for a pod detached by a migration.

    Detaching transfers the template hash to a different label.
    """
    if mark is not None:
        return _resolve_owner(namespace, "ReplicaSet", mark.replica_set, labels[MIGRATING_LABEL])
    if owner is not None:
        return _resolve_owner(
            namespace, owner.kind, owner.name, labels.get(TEMPLATE_HASH_LABEL) or ""
        )
    return Workload(namespace, "Pod", metadata.name)


@lru_cache(maxsize=1024)
def _resolve_owner(namespace: str, kind: str, name: str, template: str) -> Workload:
    deployment = name.removesuffix(f"-{template}")
    if template and kind == "ReplicaSet" and deployment not in ("", name):
        return Workload(namespace, "Deployment", deployment)
    return Workload(namespace, kind, name)

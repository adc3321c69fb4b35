"""Decoder of pods: individual fields, and the pod class (scheduling rules) shared by equal pods."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypeVar

import msgspec

from kubedsm.config.documents import split_location
from kubedsm.kube.wire import schema
from kubedsm.kube.wire.annotations import MoveMark, mark_of, wishes_of
from kubedsm.kube.wire.errors import FieldError
from kubedsm.kube.wire.pod_requests import Amounts, Reported, Reports, pod_requests
from kubedsm.model.images import with_tag
from kubedsm.model.model import (
    DO_NOT_DISRUPT_ANNOTATION,
    EVERY_ADDRESS,
    MIGRATING_LABEL,
    TEMPLATE_HASH_LABEL,
    ClaimReference,
    Disk,
    HostPort,
    NodeName,
    Pod,
    PodAffinityTerm,
    PodClass,
    Preferences,
    SchedulingRules,
    SpreadConstraint,
    Toleration,
    Uid,
    Workload,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement, Selector

T = TypeVar("T")
Pairs = tuple[tuple[str, str], ...]

_AFFINITY = msgspec.json.Decoder(schema.Affinity)
_SPREAD = msgspec.json.Decoder(tuple[schema.TopologySpreadConstraint, ...])
_NO_TERMS = schema.PodAffinity()
_DEFAULT_RBD_POOL = "rbd"
#: marker, in the JSON of a rule, of dependence on the pod's own labels
_LABEL_KEYS = b"abelKeys"
#: name of a CronJob's Job: that of the CronJob, and the scheduled time in minutes since the epoch
#: (from 2017 to 2084, so that no date such as 20261127 is one)
_SCHEDULED = re.compile(r"(.+)-((?:2[5-9]|[3-5]\d)\d{6})")
#: why a pod must not migrate
_LOCAL = "it has a volume on its node, or of its own (hostPath, emptyDir or ephemeral)"
_NO_STATUS = schema.PodStatus()


class Demands(NamedTuple):
    """Rarely used scheduling fields of a pod (ports, volumes, affinity, ...), as a cache key for
    decoded pod classes.
    """

    ports: tuple[HostPort, ...] = ()
    claims: tuple[ClaimReference, ...] = ()
    disks: tuple[Disk, ...] = ()
    resource_claims: tuple[str, ...] = ()
    #: given with affinity or spread
    namespace: str = ""
    #: the pod's, given where affinity or spread name label keys
    labels: Pairs = ()
    #: spec.affinity and spec.topologySpreadConstraints in JSON; empty without
    affinity: bytes = b""
    spread: bytes = b""


_NO_DEMANDS = Demands()


def pod_of(shape: schema.Pod) -> Pod:
    """Convert a decoded API pod (schema struct) to a `model` pod. Raises FieldError."""
    metadata, spec = shape.metadata, shape.spec
    if not metadata.uid:
        raise FieldError("metadata.uid", "missing")
    namespace = metadata.namespace
    if not namespace:
        raise FieldError("metadata.namespace", "missing")
    labels, status = metadata.labels or {}, shape.status or _NO_STATUS
    owner = controller_of(metadata)
    mark = mark_on(metadata) if MIGRATING_LABEL in labels else None
    given = metadata.annotations
    untouchable = _why_untouchable(given) if given else ""
    local = any(
        v.host_path is not None or v.empty_dir is not None or v.ephemeral is not None
        for v in spec.volumes or ()
    )
    conditions, containers = status.conditions or (), spec.containers or []
    init_containers, gates = spec.init_containers or [], spec.scheduling_gates or ()
    return Pod(
        uid=Uid(metadata.uid),
        namespace=intern(namespace),
        name=metadata.name,
        workload=_workload_of(metadata, namespace, labels, owner, mark),
        pod_class=_pod_class(
            tuple(map(_requests_of, containers)),
            tuple([(_requests_of(c), c.restart_policy == "Always") for c in init_containers]),
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
        ready=bool([c for c in conditions if c.type == "Ready" and c.status == "True"]),
        terminating=metadata.deletion_timestamp is not None,
        detached=mark is not None,
        gated=bool(gates),
        created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
        labels=_intern_labels(tuple(labels.items())) if len(labels) <= _SHARED else labels,
        resource_version=metadata.resource_version or "",
        gates=tuple([gate.name or "" for gate in gates]),
        pinned=untouchable or (_LOCAL if local else ""),
        untouchable=bool(untouchable),
        deletion_cost=given.deletion_cost if given else None,
        wishes=wishes_of(given.qos, given.migration, given.rate, given.demand) if given else None,
        images=_image_names(tuple([c.image or "" for c in init_containers + containers])),
    )


@lru_cache(maxsize=4096)
def _image_names(images: tuple[str, ...]) -> tuple[str, ...]:
    """Return container image names, with the default tag added where absent."""
    return tuple(intern(with_tag(image)) for image in images)


#: most labels of a set that is kept to be shared; tenants may create pods with thousands
_SHARED = 16


@lru_cache(maxsize=4096)
def _intern_labels(labels: Pairs) -> Mapping[str, str]:
    """Return one shared object for equal label sets, to save memory."""
    return dict(labels)


def _why_untouchable(annotations: schema.Annotations) -> str:
    """Return the reason why annotations forbid moving the pod off its node; empty if permitted."""
    if annotations.do_not_disrupt == "true":
        return f"it is annotated {DO_NOT_DISRUPT_ANNOTATION}"
    if annotations.mirror is not None:
        return "it is a static pod of its node"
    return ""


def _requests_of(asking: schema.Container | schema.PodSpec) -> Amounts:
    resources = asking.resources
    return tuple(resources.requests.items()) if resources and resources.requests else ()


def _read_reports(spec: schema.PodSpec, status: schema.PodStatus) -> Reports | None:
    """Return the container resources reported by the kubelet; None if equal to the requests."""
    pairs = (
        (spec.containers, status.container_statuses),
        (spec.init_containers, status.init_container_statuses),
    )
    differs = any(given and found and _may_differ(given, found) for given, found in pairs)
    if not (differs or status.allocated_resources or status.resources):
        return None
    return Reports(
        _all_reported(spec.containers, status.container_statuses),
        _all_reported(spec.init_containers, status.init_container_statuses),
        _report_of(status),
        any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in status.conditions or ()
        ),
    )


def _may_differ(containers: list[schema.Container], statuses: list[schema.ContainerStatus]) -> bool:
    """Return True if the resources in container statuses may differ from the requests."""
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
    rules = _scheduling_rules(node_selector, tolerations, demands or _NO_DEMANDS)
    return PodClass(requests, rules, priority, preempts)


def _read_demands(
    metadata: schema.Metadata, spec: schema.PodSpec, namespace: str, labels: Mapping[str, str]
) -> Demands | None:
    """Return the pod's rarely used scheduling fields (Demands); None if all are empty."""
    ports = _host_ports(spec)
    claimed, mounted = _claims_and_disks(spec.volumes or (), namespace, metadata)
    affinity, spread = bytes(spec.affinity), bytes(spec.topology_spread_constraints)
    affinity = b"" if affinity in (b"{}", b"null") else affinity
    spread = b"" if spread in (b"[]", b"null") else spread
    if not (ports or claimed or mounted or affinity or spread or spec.resource_claims):
        return None
    by_label = _LABEL_KEYS in affinity or _LABEL_KEYS in spread
    return Demands(
        ports,
        claimed,
        mounted,
        tuple(claim.name or "" for claim in spec.resource_claims or ()),
        namespace if affinity or spread else "",
        tuple(labels.items()) if by_label else (),
        affinity,
        spread,
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
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def mark_on(metadata: schema.Metadata) -> MoveMark | None:
    """Return the complete migration annotation of the pod, if any."""
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
    """Return the workload that owns the pod, also for a pod detached by a migration.

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
    if kind == "Job" and (scheduled := _SCHEDULED.fullmatch(name)):
        return Workload(namespace, "CronJob", scheduled[1])
    return Workload(namespace, kind, name)


def _scheduling_rules(
    node_selector: Pairs, tolerations: tuple[schema.Toleration, ...], demands: Demands
) -> SchedulingRules:
    """Return the pod's scheduling rules: selector, tolerations, affinity, spread and volumes.

    Order and repetition are mostly insignificant: equivalent rules must compare equal.

    Raises FieldError.
    """
    namespace, own = demands.namespace, dict(demands.labels)
    asked = _decode_json(_AFFINITY, demands.affinity or b"{}", "spec.affinity")
    spread = _decode_json(_SPREAD, demands.spread or b"[]", "spec.topologySpreadConstraints")
    nodes = asked.node_affinity or schema.NodeAffinity()
    near, far = asked.pod_affinity or _NO_TERMS, asked.pod_anti_affinity or _NO_TERMS
    tolerated = {
        (t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in tolerations
    }
    hard, soft = (
        tuple(
            _read_spread(constraint, namespace, own)
            for constraint in spread
            if (constraint.when_unsatisfiable == "DoNotSchedule") is required
        )
        for required in (True, False)
    )
    return SchedulingRules(
        node_selector=tuple(sorted(node_selector)),
        tolerations=tuple(Toleration(*given) for given in sorted(tolerated)),
        node_affinity=None if nodes.required is None else node_selector_terms(nodes.required),
        ports=tuple(
            sorted(set(demands.ports), key=lambda port: (port.port, port.protocol, port.ip))
        ),
        affinity=tuple(_read_term(term, namespace, own) for term in near.required or ()),
        anti_affinity=tuple(_read_term(term, namespace, own) for term in far.required or ()),
        spread=hard,
        claims=demands.claims,
        disks=demands.disks,
        resource_claims=demands.resource_claims,
        preferences=Preferences(
            tuple((t.weight, _node_selector_term(t.preference)) for t in nodes.preferred or ()),
            tuple(_affinity_preferences(near, namespace, own)),
            tuple(_affinity_preferences(far, namespace, own)),
            soft,
        ),
    )


def _decode_json(decoder: "msgspec.json.Decoder[T]", text: bytes, path: str) -> T:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        reason, inner = split_location(error)
        separator = "." if inner and not inner.startswith("[") else ""
        raise FieldError(f"{path}{separator}{inner}", reason) from None


def node_selector_terms(selector: schema.NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    return tuple(_node_selector_term(term) for term in selector.node_selector_terms or ())


def _node_selector_term(term: schema.NodeSelectorTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(_read_requirements(term.match_expressions or ())),
        tuple(_read_requirements(term.match_fields or ())),
    )


def _read_requirements(given: Iterable[schema.Requirement]) -> Iterator[Requirement]:
    for requirement in given:
        values = tuple(sorted(set(requirement.values or ())))
        yield Requirement(requirement.key, requirement.operator, values)


def selector_of(given: schema.LabelSelector | None, more: Iterable[Requirement] = ()) -> Selector:
    if given is None:
        return None
    pairs = (given.match_labels or {}).items()
    requirements = {Requirement(key, "In", (value,)) for key, value in pairs}
    requirements.update(_read_requirements(given.match_expressions or ()), more)
    return tuple(sorted(requirements))


def _require_same(
    keys: tuple[str, ...] | None, operator: str, own: dict[str, str]
) -> list[Requirement]:
    """Return label requirements with the pod's own values, for matchLabelKeys and
    mismatchLabelKeys.
    """
    return [Requirement(key, operator, (own[key],)) for key in keys or () if key in own]


def _read_term(
    term: schema.PodAffinityTerm, namespace: str, own: dict[str, str]
) -> PodAffinityTerm:
    keys = _require_same(term.match_label_keys, "In", own)
    keys += _require_same(term.mismatch_label_keys, "NotIn", own)
    namespaces = term.namespaces or ()
    if not namespaces and term.namespace_selector is None:
        namespaces = (namespace,)
    return PodAffinityTerm(
        term.topology_key,
        selector_of(term.label_selector, keys),
        tuple(sorted(set(namespaces))),
        selector_of(term.namespace_selector),
    )


def _affinity_preferences(
    affinity: schema.PodAffinity, namespace: str, own: dict[str, str]
) -> Iterator[tuple[int, PodAffinityTerm]]:
    for preferred in affinity.preferred or ():
        yield preferred.weight, _read_term(preferred.pod_affinity_term, namespace, own)


def _read_spread(
    constraint: schema.TopologySpreadConstraint, namespace: str, own: dict[str, str]
) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=selector_of(
            constraint.label_selector, _require_same(constraint.match_label_keys, "In", own)
        ),
        namespace=namespace,
        min_domains=constraint.min_domains or 1,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )


def _claims_and_disks(
    volumes: Iterable[schema.PodVolume], namespace: str, metadata: schema.Metadata
) -> tuple[tuple[ClaimReference, ...], tuple[Disk, ...]]:
    """Return the persistent volume claims and the network disks among a pod's volumes."""
    claims, disks = [], []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimReference(namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            name = f"{metadata.name}-{volume.name}"
            claims.append(ClaimReference(namespace, name, owner=metadata.uid or ""))
        if (gce := volume.gce_persistent_disk) is not None:
            disks.append(_disk_of("gcePersistentDisk", gce, gce.get("pdName")))
        if (ebs := volume.aws_elastic_block_store) is not None:
            disks.append(_disk_of("awsElasticBlockStore", ebs, ebs.get("volumeID")))
        if (iscsi := volume.iscsi) is not None:
            disks.append(_disk_of("iscsi", iscsi, iscsi.get("iqn")))
        if (rbd := volume.rbd) is not None:
            # A common monitor identifies the same image.
            image = rbd.get("pool") or _DEFAULT_RBD_POOL, rbd.get("image")
            disks += [
                _disk_of("rbd", rbd, monitor, *image) for monitor in rbd.get("monitors") or ()
            ]
    return tuple(dict.fromkeys(claims)), tuple(disks)


def _disk_of(kind: str, source: schema.Unread, *identity: Any) -> Disk:
    return Disk(kind, tuple(map(str, identity)), read_only=source.get("readOnly") is True)

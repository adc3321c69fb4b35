"""Validation of objects by kind, after defaulting: metadata, specs, and immutable fields.

Sources: k8s.io/kubernetes/pkg/apis/*/validation, and objectmeta.go of
k8s.io/apimachinery/pkg/api/validation. Pod specs are validated as far as fields matter to
scheduling or are required.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kubedsm_lab.emulator.api.defaulting import (
    PREEMPTION_POLICIES,
    RBAC_GROUP,
)
from kubedsm_lab.emulator.api.errors import (
    FieldError,
    Verbatim,
    invalid,
    invalid_value,
    may_not,
    not_supported,
    required,
    too_long,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import LabelSelector, SelectorError, label_selector_of
from kubedsm_lab.emulator.api.values import thousandths

Errors = Iterator[FieldError]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LONGEST_SUBDOMAIN, _LONGEST_LABEL = 253, 63
_IMMUTABLE = "field is immutable"
_QUALIFIED_NAME = re.compile(
    rf"(?:{_SUBDOMAIN}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?", re.ASCII
)
_LONGEST_KEY = _LONGEST_SUBDOMAIN + len("/") + _LONGEST_LABEL
#: bytes of all annotations together, and of the data of a ConfigMap
_LARGEST_NOTES, _LARGEST_DATA = 256 << 10, 1 << 20
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_BAD_DATA_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
#: longest texts of an Event of events.k8s.io/v1, by field
_EVENT_TEXTS = {"message": 1024, "reason": 128, "action": 128, "reportingInstance": 128}
_SHORTEST_SERIES = 2

_RFC1123_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.{_LABEL})*')"
)
_RFC1035_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
#: schedules of emulated CronJobs
EVERY_MINUTES = re.compile(r"\*(?:/([1-9]|[1-5]\d))?(?: \*){4}")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_BAD_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_BAD_LABEL_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_RFC1123_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NOT_NEGATIVE = "must be greater than or equal to 0"
_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_STATEFUL_SET_MUTABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip
_STATEFUL_SET_CHANGE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_ROLES = {"RoleBinding": ("Role", "ClusterRole"), "ClusterRoleBinding": ("ClusterRole",)}


def validate_new(resource: Resource, obj: Object) -> None:
    """Validate a new object. Raises ApiError (422) with one cause per invalid field."""
    _raise(resource, obj, [*_metadata_errors(resource, obj), *_errors(resource, obj)])


def validate_change(
    resource: Resource, obj: Object, previous: Object, subresource: str = ""
) -> None:
    """Validate an update: changed fields are valid, and immutable ones unchanged.

    Raises ApiError (422).
    """
    errors: list[FieldError] = []
    if obj["metadata"] is not previous["metadata"]:
        errors += _label_errors(obj["metadata"])
        errors += _finalizer_errors(obj["metadata"], previous["metadata"])
        errors += _size_errors(obj["metadata"])
    spec, before = obj.get("spec"), previous.get("spec")
    if spec is not before or "spec" not in obj or resource.kind == "Node":
        if resource.kind == "Event" and resource.group:
            errors += _newer_event_change(obj, previous)
        elif resource.kind in _CHANGES and subresource != "resize":
            errors += _CHANGES[resource.kind](obj, previous)
        errors += _errors(resource, obj)
    _raise(resource, obj, errors)


def _raise(resource: Resource, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), errors)


def _errors(resource: Resource, obj: Object) -> Errors:
    if resource.kind == "Event" and resource.group:
        return _newer_event_errors(obj)
    return _CHECKS[resource.kind](obj) if resource.kind in _CHECKS else iter(())


# Validation of object metadata.


def _metadata_errors(resource: Resource, obj: Object) -> Errors:
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif why := _name_error(resource, name):
        yield invalid_value("metadata.name", name, why)
    yield from _label_errors(metadata)
    yield from _size_errors(metadata)


def _name_error(resource: Resource, name: str) -> str:
    if resource.kind in ("Namespace", "Service"):
        if resource.kind == "Service":
            return "" if _is_label(name) and name[0].isalpha() else _RFC1035_LABEL
        return "" if _is_label(name) else _RFC1123_LABEL
    if resource.group == RBAC_GROUP:
        return next((f"may not contain '{part}'" for part in "/%" if part in name), "")
    if len(name) > _LONGEST_SUBDOMAIN:
        return f"must be no more than {_LONGEST_SUBDOMAIN} characters"
    return "" if re.fullmatch(_SUBDOMAIN, name) else _RFC1123_SUBDOMAIN


def _is_label(name: str) -> bool:
    return len(name) <= _LONGEST_LABEL and re.fullmatch(_LABEL, name) is not None


def _label_errors(metadata: Object, path: str = "metadata") -> Errors:
    for key, value in (metadata.get("labels") or {}).items():
        if not _is_qualified_name(key):
            yield invalid_value(f"{path}.labels", key, _BAD_LABEL_KEY)
        if not _LABEL_VALUE.fullmatch(value):
            yield invalid_value(f"{path}.labels", value, _BAD_LABEL_VALUE)
    for key in metadata.get("annotations") or {}:
        if not _is_qualified_name(key.lower()):
            yield invalid_value(f"{path}.annotations", key, _BAD_LABEL_KEY)


def _finalizer_errors(metadata: Object, previous: Object) -> Errors:
    if not metadata.get("deletionTimestamp"):
        return
    added = set(metadata.get("finalizers") or ()) - set(previous.get("finalizers") or ())
    if added:
        found = ", ".join(f'"{name}"' for name in sorted(added))
        yield may_not(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{found}}}",
        )


def _is_qualified_name(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _QUALIFIED_NAME.fullmatch(key) is not None


def _size_errors(metadata: Object) -> Errors:
    """Yield errors of the size of annotations, the names of finalizers, and owner references."""
    annotations = metadata.get("annotations") or {}
    if sum(len(text.encode()) for each in annotations.items() for text in each) > _LARGEST_NOTES:
        yield too_long("metadata.annotations", _LARGEST_NOTES)
    for index, name in enumerate(metadata.get("finalizers") or ()):
        if name not in _STANDARD_FINALIZERS and not ("/" in name and _is_qualified_name(name)):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", name, why)
    owners = metadata.get("ownerReferences") or ()
    controllers = [f"{each['kind']}/{each['name']}" for each in owners if each.get("controller")]
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield invalid_value("metadata.ownerReferences", owners, why)


# Validation of pods.


def negative_fields(holder: Object, path: str, *fields: str) -> Errors:
    for field in fields:
        value = holder.get(field)
        if isinstance(value, int) and value < 0:
            yield invalid_value(f"{path}.{field}", value, _NOT_NEGATIVE)


def missing_fields(holder: Object, path: str, *fields: str) -> Errors:
    return (required(f"{path}.{field}") for field in fields if not holder.get(field))


def check_choice(holder: Object, path: str, field: str, choices: Sequence[str]) -> Errors:
    """Yield an error unless the field has one of the allowed values; `path` may be empty."""
    value = holder.get(field) or ""
    if value not in choices:
        yield not_supported(f"{path}.{field}".removeprefix("."), value, choices)


def port_errors(port: Object, path: str, field: str) -> Errors:
    number = port.get(field) or 0
    if not 0 < number < 2**16:
        why = "must be between 1 and 65535, inclusive"
        yield invalid_value(f"{path}.{field}", number, why)


def pod_spec_errors(spec: Object, path: str) -> Errors:
    yield from missing_fields(spec, path, "containers")
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _container_errors(container, f"{path}.{field}[{index}]")
    yield from check_choice(spec, path, "restartPolicy", _RESTART_POLICIES)
    yield from negative_fields(spec, path, "terminationGracePeriodSeconds")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_errors(toleration, f"{path}.tolerations[{index}]")
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread_errors(spread, f"{path}.topologySpreadConstraints[{index}]")


def pod_change_errors(spec: Object, before: Object) -> Errors:
    """Yield errors for pod changes other than images, deadline, gates and added tolerations."""
    if _immutable_part(spec, before) != _immutable_part(before, before):
        yield may_not("spec", _CHANGE)
        return
    gates = _items(before, "schedulingGates")
    added = [gate for gate in _items(spec, "schedulingGates") if gate not in gates]
    if added:
        yield may_not("spec.schedulingGates", "only deletion is allowed, but found new gates")
    kept = _items(spec, "tolerations")
    if any(toleration not in kept for toleration in _items(before, "tolerations")):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield may_not("spec.tolerations", why)


def _items(spec: Object, field: str) -> list[Object]:
    return spec.get(field) or []


def _immutable_part(spec: Object, before: Object) -> Object:
    """Return the immutable fields of a pod spec; a gated pod may still restrict its nodes."""
    free = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if _items(before, "schedulingGates"):
        free |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in free and value is not None}
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {key: value for key, value in container.items() if key != "image"}
            for container in _items(spec, field)
        ]
    return fixed


def _container_errors(container: Object, path: str) -> Errors:
    name = container.get("name") or ""
    yield from missing_fields(container, path, "name", "image")
    if name and not _is_label(name):
        yield invalid_value(f"{path}.name", name, _RFC1123_LABEL)
    yield from check_choice(container, path, "imagePullPolicy", _PULL_POLICIES)
    for index, port in enumerate(container.get("ports") or ()):
        yield from port_errors(port, f"{path}.ports[{index}]", "containerPort")
    yield from _resource_errors(container["resources"], f"{path}.resources")


def _resource_errors(resources: Mapping[str, Any], path: str) -> Errors:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for field, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            if thousandths(quantity) < 0:
                yield invalid_value(f"{path}.{field}.{name}", str(quantity), _NOT_NEGATIVE)
                return
    for name, quantity in requests.items():
        if name in limits and thousandths(quantity) > thousandths(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", str(quantity), why)


def _toleration_errors(toleration: Object, path: str) -> Errors:
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key") and operator != "Exists":
        why = (
            'operator must be Exists when `key` is empty, which means "match all values and '
            'all keys"'
        )
        yield invalid_value(f"{path}.operator", operator, why)


def _spread_errors(spread: Object, path: str) -> Errors:
    skew = spread.get("maxSkew") or 0
    if skew <= 0:
        yield invalid_value(f"{path}.maxSkew", skew, "must be greater than zero")
    if not spread.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    choices = ("DoNotSchedule", "ScheduleAnyway")
    yield from check_choice(spread, path, "whenUnsatisfiable", choices)


# Kind-specific validation.


def _int_or_percent_errors(holder: Object, path: str, *fields: str) -> Errors:
    for field in fields:
        value = holder.get(field)
        if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            yield invalid_value(f"{path}.{field}", value, why)
    yield from negative_fields(holder, path, *fields)


def _selector_of(given: Object) -> LabelSelector | FieldError:
    try:
        return label_selector_of(given)
    except SelectorError as error:
        return invalid_value("spec.selector", given, str(error))


def _workload_errors(workload: Object) -> Errors:
    spec = workload["spec"]
    yield from negative_fields(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    for strategy in ("strategy", "updateStrategy"):
        rolling = (spec.get(strategy) or {}).get("rollingUpdate") or {}
        path = f"spec.{strategy}.rollingUpdate"
        yield from _int_or_percent_errors(rolling, path, "maxSurge", "maxUnavailable", "partition")
        if all(rolling.get(field) in (0, "0%") for field in ("maxSurge", "maxUnavailable")):
            yield invalid_value(f"{path}.maxUnavailable", 0, "may not be 0 when `maxSurge` is 0")
    template = spec["template"]
    metadata = template.get("metadata") or {}
    if spec.get("selector") is None:
        yield required("spec.selector")
    elif isinstance(selector := _selector_of(spec["selector"]), FieldError):
        yield selector
    elif not selector.requirements:
        why = "empty selector is invalid for this kind"
        yield invalid_value("spec.selector", spec["selector"], why)
    elif not selector.matches(metadata.get("labels")):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", metadata.get("labels") or {}, why)
    yield from _label_errors(metadata, "spec.template.metadata")
    yield from pod_spec_errors(template["spec"], "spec.template.spec")


def _job_errors(job: Object) -> Errors:
    spec, template = job["spec"], job["spec"]["template"]["spec"]
    counts = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")
    yield from negative_fields(spec, "spec", *counts)
    yield from check_choice(spec, "spec", "completionMode", ["NonIndexed"])
    yield from pod_spec_errors(template, "spec.template.spec")


def _cron_job_errors(cron: Object) -> Errors:
    spec = cron["spec"]
    if not EVERY_MINUTES.fullmatch(spec.get("schedule") or ""):
        why = "an emulated CronJob runs every N minutes: * * * * * or */N * * * *"
        yield invalid_value("spec.schedule", spec.get("schedule"), why)
    if spec.get("timeZone"):
        yield may_not("spec.timeZone", "not emulated")
    yield from check_choice(spec, "spec", "concurrencyPolicy", ["Allow", "Forbid", "Replace"])
    yield from negative_fields(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    template = spec["jobTemplate"]["spec"]["template"]["spec"]
    yield from pod_spec_errors(template, "spec.jobTemplate.spec.template.spec")


def _autoscaler_errors(autoscaler: Object) -> Errors:
    spec = autoscaler["spec"]
    yield from missing_fields(
        spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", "kind", "name"
    )
    yield from missing_fields(spec, "spec", "maxReplicas")


def _budget_errors(budget: Object) -> Errors:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = Verbatim(f"minAvailable={spec['minAvailable']}")
        yield invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    yield from _int_or_percent_errors(spec, "spec", "minAvailable", "maxUnavailable")
    selector = spec.get("selector")
    if selector is not None and isinstance(error := _selector_of(selector), FieldError):
        yield error


def _service_errors(service: Object) -> Errors:
    spec = service["spec"]
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    yield from check_choice(spec, "spec", "type", kinds)
    ports = spec.get("ports") or ()
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        yield from port_errors(port, f"spec.ports[{index}]", "port")


def _node_errors(node: Object) -> Errors:
    status = node.get("status") or {}
    for field in ("capacity", "allocatable"):
        yield from _amount_errors(status.get(field), f"status.{field}")


def _amount_errors(amounts: Object | None, path: str) -> Errors:
    for name, quantity in (amounts or {}).items():
        if thousandths(quantity) < 0:
            yield invalid_value(f"{path}[{name}]", str(quantity), _NOT_NEGATIVE)


def _lease_errors(lease: Object) -> Errors:
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from negative_fields(spec, "spec", "leaseTransitions")


def _binding_errors(binding: Object) -> Errors:
    reference = binding["roleRef"]
    yield from check_choice(reference, "roleRef", "apiGroup", [RBAC_GROUP])
    yield from check_choice(reference, "roleRef", "kind", _ROLES[binding["kind"]])
    yield from missing_fields(reference, "roleRef", "name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        path = f"subjects[{index}]"
        kinds = ("ServiceAccount", "User", "Group")
        clusterwide = (subject["kind"], binding["kind"]) == ("ServiceAccount", "ClusterRoleBinding")
        fields = ("name", "namespace") if clusterwide else ("name",)
        errors = [
            *check_choice(subject, path, "kind", kinds),
            *missing_fields(subject, path, *fields),
        ]
        yield from errors[:1]


def _event_errors(event: Object) -> Errors:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if about != namespace and not (not about and namespace in ("default", "kube-system")):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if event.get("eventTime") is None:
        return
    # an event of the newer form
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field.replace("Controller", "Component")):
            yield required(field)
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", event.get("type") or "", "has invalid value")


def _newer_event_errors(event: Object) -> Errors:
    """Yield errors of an Event of events.k8s.io/v1, by the names of core/v1 as kube-apiserver."""
    if event.get("eventTime") is None:
        yield required("eventTime")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    # The older form, in which the namespaces agree, is checked for both.
    yield from _event_errors(
        {**event, "involvedObject": {"namespace": about and event["metadata"]["namespace"]}}
    )
    for field, most in _EVENT_TEXTS.items():
        if len(event.get(field) or "") > most:
            yield invalid_value(field, "", f"can have at most {most} characters")
    series = event.get("series")
    if series and (series.get("count") or 0) < _SHORTEST_SERIES:
        yield invalid_value("series.count", "", f"should be at least {_SHORTEST_SERIES}")


def _newer_event_change(event: Object, before: Object) -> Errors:
    for field in sorted(event.keys() | before.keys()):
        if field not in ("metadata", "series") and event.get(field) != before.get(field):
            yield invalid_value(field, event.get(field), _IMMUTABLE)


def _config_map_errors(config_map: Object) -> Errors:
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (config_map.get(field) or {}).items():
            size += len(value.encode())
            if not _DATA_KEY.fullmatch(key):
                yield invalid_value(f"{field}[{key}]", key, _BAD_DATA_KEY)
    if size > _LARGEST_DATA:
        yield too_long("[]", _LARGEST_DATA)


def _config_map_change(config_map: Object, before: Object) -> Errors:
    if not before.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if config_map.get(field) != before.get(field):
            yield may_not(field, "field is immutable when `immutable` is set")


# Validation of updates: immutable fields.


def _selector_change(workload: Object, before: Object) -> Errors:
    selector = workload["spec"].get("selector")
    if selector != (before.get("spec") or {}).get("selector"):
        yield invalid_value("spec.selector", selector, _IMMUTABLE)


def _stateful_set_change(stateful_set: Object, before: Object) -> Errors:
    spec, old = stateful_set["spec"], before["spec"]
    changed = {key for key in spec.keys() | old.keys() if spec.get(key) != old.get(key)}
    if not changed <= _STATEFUL_SET_MUTABLE:
        yield may_not("spec", _STATEFUL_SET_CHANGE)


_CHECKS: Mapping[str, Callable[[Object], Errors]] = {
    "Pod": lambda pod: pod_spec_errors(pod["spec"], "spec"),
    "ConfigMap": _config_map_errors,
    "Deployment": _workload_errors,
    "ReplicaSet": _workload_errors,
    "StatefulSet": _workload_errors,
    "Job": _job_errors,
    "CronJob": _cron_job_errors,
    "HorizontalPodAutoscaler": _autoscaler_errors,
    "PodDisruptionBudget": _budget_errors,
    "Service": _service_errors,
    "ResourceQuota": lambda quota: _amount_errors(quota["spec"].get("hard"), "spec.hard"),
    "Node": _node_errors,
    "Lease": _lease_errors,
    "Event": _event_errors,
    "RoleBinding": _binding_errors,
    "ClusterRoleBinding": _binding_errors,
    "PriorityClass": lambda each: check_choice(each, "", "preemptionPolicy", PREEMPTION_POLICIES),
}
_CHANGES: Mapping[str, Callable[[Object, Object], Errors]] = {
    "Pod": lambda pod, before: pod_change_errors(pod["spec"], before["spec"]),
    "ConfigMap": _config_map_change,
    "Deployment": _selector_change,
    "ReplicaSet": _selector_change,
    "StatefulSet": _stateful_set_change,
}

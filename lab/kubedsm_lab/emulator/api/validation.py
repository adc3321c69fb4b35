"""Validation by kind, after defaulting: metadata, specs, and fields that may not change.

Source: k8s.io/kubernetes/pkg/apis/*/validation. Pod specs are in `pod_validation`.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from kubedsm_lab.emulator.api.defaulting import PREEMPTION_POLICIES, RBAC_GROUP, SYSTEM_PRIORITIES
from kubedsm_lab.emulator.api.errors import (
    FieldError,
    Verbatim,
    invalid,
    invalid_value,
    may_not,
    not_supported,
    required,
)
from kubedsm_lab.emulator.api.pod_validation import (
    NOT_NEGATIVE,
    RFC1123_LABEL,
    not_negative,
    pod_change_errors,
    pod_resize_errors,
    pod_spec_errors,
)
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import LabelSelector, SelectorError, label_selector_of
from kubedsm_lab.emulator.api.values import thousandths

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
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
_QUALIFIED_NAME = re.compile(
    rf"(?:{_SUBDOMAIN}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?", re.ASCII
)
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
_LONGEST_SUBDOMAIN = 253
_LONGEST_LABEL = 63
_IMMUTABLE = "field is immutable"
_STATEFUL_SET_MUTABLE = frozenset({
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
})  # fmt: skip
_STATEFUL_SET_CHANGE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def validate_new(resource: Resource, obj: Object) -> None:
    """Raises ApiError (422) with a cause for each field that is wrong."""
    _raise(resource, obj, [*_metadata_errors(resource, obj), *_spec_errors(resource, obj)])


def validate_change(
    resource: Resource, obj: Object, previous: Object, subresource: str = ""
) -> None:
    """As `validate_new`, and what may not change any more. Unchanged parts are not looked at."""
    errors: list[FieldError] = []
    if obj["metadata"] is not previous["metadata"]:
        errors += _label_errors(obj["metadata"])
        errors += _finalizer_errors(obj["metadata"], previous["metadata"])
    spec, before = obj.get("spec"), previous.get("spec")
    if spec is not before or "spec" not in obj or resource.kind == "Node":
        if subresource == "resize":
            errors += pod_resize_errors(spec or {}, before or {})
        else:
            errors += _change_errors(resource, spec or {}, before or {})
            if resource.kind in _FIXED:
                errors += _FIXED[resource.kind](obj, previous)
        errors += _spec_errors(resource, obj)
    _raise(resource, obj, errors)


def _raise(resource: Resource, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), errors)


def _metadata_errors(resource: Resource, obj: Object) -> Iterator[FieldError]:
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif why := _wrong_with_name(resource, name):
        yield invalid_value("metadata.name", name, why)
    if metadata.get("namespace") and not resource.namespaced:
        yield may_not("metadata.namespace", "not allowed on this type")
    yield from _label_errors(metadata)


def _wrong_with_name(resource: Resource, name: str) -> str:
    if resource.kind == "Namespace":
        right = len(name) <= _LONGEST_LABEL and re.fullmatch(_LABEL, name)
        return "" if right else RFC1123_LABEL
    if resource.kind == "Service":
        right = len(name) <= _LONGEST_LABEL and re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name)
        return "" if right else _RFC1035_LABEL
    if resource.group == RBAC_GROUP:
        return wrong_with_path_segment(name)
    if len(name) > _LONGEST_SUBDOMAIN:
        return f"must be no more than {_LONGEST_SUBDOMAIN} characters"
    return "" if re.fullmatch(_SUBDOMAIN, name) else _RFC1123_SUBDOMAIN


def _label_errors(metadata: Object, path: str = "metadata") -> Iterator[FieldError]:
    for key, value in (metadata.get("labels") or {}).items():
        if not _is_qualified_name(key):
            yield invalid_value(f"{path}.labels", key, _BAD_LABEL_KEY)
        if not _LABEL_VALUE.fullmatch(value):
            yield invalid_value(f"{path}.labels", value, _BAD_LABEL_VALUE)
    for key in metadata.get("annotations") or {}:
        if not _is_qualified_name(key.lower()):
            yield invalid_value(f"{path}.annotations", key, _BAD_LABEL_KEY)


def _is_qualified_name(key: str) -> bool:
    longest = _LONGEST_SUBDOMAIN + len("/") + _LONGEST_LABEL
    return len(key) <= longest and _QUALIFIED_NAME.fullmatch(key) is not None


def _finalizer_errors(metadata: Object, previous: Object) -> Iterator[FieldError]:
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


def _spec_errors(resource: Resource, obj: Object) -> Iterator[FieldError]:
    if resource.kind in BINDINGS:
        return binding_errors(resource, obj)
    check = _CHECKS.get(resource.kind)
    return check(obj) if check is not None else iter(())


def _change_errors(resource: Resource, spec: Object, before: Object) -> Iterator[FieldError]:
    kind = resource.kind
    if kind == "Pod":
        yield from pod_change_errors(spec, before)
    elif kind in ("Deployment", "ReplicaSet") and spec.get("selector") != before.get("selector"):
        yield invalid_value("spec.selector", spec.get("selector"), _IMMUTABLE)
    elif kind == "StatefulSet":
        changed = {key for key in spec.keys() | before.keys() if spec.get(key) != before.get(key)}
        if not changed <= _STATEFUL_SET_MUTABLE:
            yield may_not("spec", _STATEFUL_SET_CHANGE)
    elif (
        kind == "Service"
        and before.get("clusterIP")
        and spec.get("type") != "ExternalName"
        and spec.get("clusterIP") != before["clusterIP"]
    ):
        shown = Verbatim(f'["{spec.get("clusterIP")}"]')
        yield invalid_value("spec.clusterIPs[0]", shown, "may not change once set")


def _pod(pod: Object) -> Iterator[FieldError]:
    return pod_spec_errors(pod["spec"], "spec")


def _numbers_or_percents(holder: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        value = holder.get(field)
        if isinstance(value, str) and not re.fullmatch("[0-9]+%", value):
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            yield invalid_value(f"{path}.{field}", value, why)
        elif isinstance(value, int) and value < 0:
            yield invalid_value(f"{path}.{field}", value, NOT_NEGATIVE)


def _selector(spec: Object, *, empty: bool = False) -> LabelSelector | FieldError:
    given = spec.get("selector")
    if given is None:
        return required("spec.selector")
    try:
        selector = label_selector_of(given)
    except SelectorError as error:
        return invalid_value("spec.selector", given, str(error))
    if not empty and not selector.requirements:
        return invalid_value("spec.selector", given, "empty selector is invalid for this kind")
    return selector


def _workload(workload: Object) -> Iterator[FieldError]:
    spec = workload["spec"]
    yield from not_negative(spec, "replicas", "minReadySeconds", "revisionHistoryLimit")
    for strategy in ("strategy", "updateStrategy"):
        rolling = (spec.get(strategy) or {}).get("rollingUpdate") or {}
        path = f"spec.{strategy}.rollingUpdate"
        yield from _numbers_or_percents(rolling, path, "maxSurge", "maxUnavailable", "partition")
    template = spec["template"]
    metadata = template.get("metadata") or {}
    selector = _selector(spec)
    if isinstance(selector, FieldError):
        yield selector
    elif not selector.matches(metadata.get("labels")):
        yield invalid_value(
            "spec.template.metadata.labels",
            metadata.get("labels") or {},
            "`selector` does not match template `labels`",
        )
    yield from _label_errors(metadata, "spec.template.metadata")
    yield from pod_spec_errors(template["spec"], "spec.template.spec")
    policy = template["spec"]["restartPolicy"]
    if policy in ("OnFailure", "Never"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ["Always"])


def _autoscaler(autoscaler: Object) -> Iterator[FieldError]:
    spec = autoscaler["spec"]
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            yield required(f"spec.scaleTargetRef.{field}")
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    if least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid_value("spec.maxReplicas", most, "must be greater than 0")
    elif most < least:
        yield invalid_value(
            "spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"
        )


def _budget(budget: Object) -> Iterator[FieldError]:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        shown = Verbatim(f"minAvailable={spec['minAvailable']}")
        why = "minAvailable and maxUnavailable cannot be both set"
        yield invalid_value("spec", shown, why)
    yield from _numbers_or_percents(spec, "spec", "minAvailable", "maxUnavailable")
    if spec.get("selector") is not None:
        selector = _selector(spec, empty=True)
        if isinstance(selector, FieldError):
            yield selector


def _service(service: Object) -> Iterator[FieldError]:
    spec = service["spec"]
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    if spec["type"] not in kinds:
        yield not_supported("spec.type", spec["type"], kinds)
    ports = spec.get("ports") or ()
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        number = port.get("port") or 0
        if not 0 < number < 2**16:
            yield invalid_value(f"{path}.port", number, "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            yield required(f"{path}.name")


def _quota(quota: Object) -> Iterator[FieldError]:
    return _amount_errors((quota.get("spec") or {}).get("hard"), "spec.hard")


def _node(node: Object) -> Iterator[FieldError]:
    status = node.get("status") or {}
    for field in ("capacity", "allocatable"):
        yield from _amount_errors(status.get(field), f"status.{field}")


def _amount_errors(amounts: Object | None, path: str) -> Iterator[FieldError]:
    for name, quantity in (amounts or {}).items():
        if thousandths(quantity) < 0:
            yield invalid_value(f"{path}[{name}]", str(quantity), NOT_NEGATIVE)


def _lease(lease: Object) -> Iterator[FieldError]:
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from not_negative(spec, "leaseTransitions")


def _event(event: Object) -> Iterator[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if about != namespace and not (not about and namespace in ("default", "kube-system")):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if event.get("eventTime") is None:
        return
    # one that was made in the newer form
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field.replace("Controller", "Component")):
            yield required(field)
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", event.get("type") or "", "has invalid value")


_COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")


_IMMUTABLE_OF_JOB = ("completions", "selector", "template")


def job_errors(job: Object) -> Iterator[FieldError]:
    spec = job["spec"]
    yield from not_negative(spec, *_COUNTS)
    if spec["completionMode"] != "NonIndexed":
        yield not_supported("spec.completionMode", spec["completionMode"], ["NonIndexed"])
    template = spec["template"]["spec"]
    yield from pod_spec_errors(template, "spec.template.spec")
    if template["restartPolicy"] not in ("OnFailure", "Never"):
        why = 'valid values: "OnFailure", "Never"'
        yield required("spec.template.spec.restartPolicy", why)


def job_change_errors(job: Object, before: Object) -> Iterator[FieldError]:
    for field in _IMMUTABLE_OF_JOB:
        if job["spec"].get(field) != before["spec"].get(field):
            yield invalid_value(f"spec.{field}", Verbatim("<...>"), "field is immutable")


_ROLES = {"RoleBinding": ("Role", "ClusterRole"), "ClusterRoleBinding": ("ClusterRole",)}


BINDINGS = frozenset(_ROLES)


_SUBJECTS = ("ServiceAccount", "User", "Group")


def wrong_with_path_segment(name: str) -> str:
    """What is wrong with the name, which may hold anything else; empty if nothing."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{part}'" for part in "/%" if part in name), "")


def role_errors(role: Object) -> Iterator[FieldError]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    for index, given in enumerate(selectors):
        try:
            label_selector_of(given)
        except SelectorError as error:
            path = f"aggregationRule.clusterRoleSelectors[{index}]"
            yield invalid_value(path, given, str(error))
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            mixed = any(rule.get(f) for f in ("apiGroups", "resources", "resourceNames"))
            why = (
                "namespaced rules cannot apply to non-resource URLs"
                if role["metadata"].get("namespace")
                else "rules cannot apply to both regular resources and non-resource URLs"
            )
            if mixed or role["metadata"].get("namespace"):
                yield invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why)
            continue
        if not rule.get("apiGroups"):
            why = "resource rules must supply at least one api group"
            yield required(f"{path}.apiGroups", why)
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def binding_errors(resource: Resource, binding: Object) -> Iterator[FieldError]:
    reference = binding["roleRef"]
    if reference["apiGroup"] != RBAC_GROUP:
        yield not_supported("roleRef.apiGroup", reference["apiGroup"], [RBAC_GROUP])
    kinds = _ROLES[resource.kind]
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind") or "", kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        path = f"subjects[{index}]"
        if subject["kind"] not in _SUBJECTS:
            yield not_supported(f"{path}.kind", subject["kind"], _SUBJECTS)
        elif not subject["name"]:
            yield required(f"{path}.name")
        elif (
            subject["kind"] == "ServiceAccount"
            and resource.kind == "ClusterRoleBinding"
            and not subject.get("namespace")
        ):
            yield required(f"{path}.namespace")


def binding_change_errors(binding: Object, before: Object) -> Iterator[FieldError]:
    if binding["roleRef"] != before["roleRef"]:
        yield invalid_value("roleRef", binding["roleRef"], "cannot change roleRef")


_SYSTEM_PREFIX = "system-"


_HIGHEST_OF_USERS = 1_000_000_000


def class_errors(priority_class: Object) -> Iterator[FieldError]:
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith(_SYSTEM_PREFIX):
        if why := _wrong_with_system_class(priority_class, name):
            reserved = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for "
            yield may_not("metadata.name", f"{reserved}system use only. error: {why}")
    elif value > _HIGHEST_OF_USERS:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        yield may_not("value", why)
    if priority_class["preemptionPolicy"] not in PREEMPTION_POLICIES:
        policy = priority_class["preemptionPolicy"]
        yield not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES)


def class_change_errors(priority_class: Object, before: Object) -> Iterator[FieldError]:
    if priority_class["value"] != before["value"]:
        yield may_not("value", "may not be changed in an update.")
    policy = priority_class["preemptionPolicy"]
    if policy != before["preemptionPolicy"]:
        yield invalid_value("preemptionPolicy", policy, "field is immutable")


def _wrong_with_system_class(priority_class: Object, name: str) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if priority_class["value"] != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    if priority_class.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


_CHECKS: Mapping[str, Callable[[Object], Iterator[FieldError]]] = {
    "Pod": _pod,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "StatefulSet": _workload,
    "Job": job_errors,
    "HorizontalPodAutoscaler": _autoscaler,
    "PodDisruptionBudget": _budget,
    "Service": _service,
    "ResourceQuota": _quota,
    "Node": _node,
    "Lease": _lease,
    "Event": _event,
    "Role": role_errors,
    "ClusterRole": role_errors,
    "PriorityClass": class_errors,
}
#: what may not change, by the whole objects
_FIXED: Mapping[str, Callable[[Object, Object], Iterator[FieldError]]] = {
    "RoleBinding": binding_change_errors,
    "ClusterRoleBinding": binding_change_errors,
    "PriorityClass": class_change_errors,
    "Job": job_change_errors,
}

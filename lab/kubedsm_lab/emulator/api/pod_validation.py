"""Validation of pod specs and of their changes, and checks of single fields.

Source: k8s.io/kubernetes/pkg/apis/core/validation/validation.go, for fields that matter to
scheduling and for required ones.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubedsm_lab.emulator.api.defaulting import qos_class
from kubedsm_lab.emulator.api.errors import (
    FieldError,
    Verbatim,
    duplicate,
    invalid_value,
    may_not,
    not_supported,
    required,
)
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.values import thousandths

RFC1123_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_NEGATIVE = "must be greater than or equal to 0"
_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def negative_fields(holder: Object, path: str, *fields: str) -> Iterator[FieldError]:
    for field in fields:
        value = holder.get(field)
        if isinstance(value, int) and value < 0:
            yield invalid_value(f"{path}.{field}", value, NOT_NEGATIVE)


def missing_fields(holder: Object, path: str, *fields: str) -> Iterator[FieldError]:
    return (required(f"{path}.{field}") for field in fields if not holder.get(field))


def check_choice(
    holder: Object, path: str, field: str, choices: Sequence[str]
) -> Iterator[FieldError]:
    """Yield an error unless the field has one of the values; `path` may be empty."""
    value = holder.get(field) or ""
    if value not in choices:
        yield not_supported(f"{path}.{field}".removeprefix("."), value, choices)


def port_errors(port: Object, path: str, field: str) -> Iterator[FieldError]:
    number = port.get(field) or 0
    if not 0 < number < 2**16:
        why = "must be between 1 and 65535, inclusive"
        yield invalid_value(f"{path}.{field}", number, why)


def pod_spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    yield from missing_fields(spec, path, "containers")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _container_errors(container, f"{path}.{field}[{index}]", names)
    yield from check_choice(spec, path, "restartPolicy", _RESTART_POLICIES)
    yield from negative_fields(spec, path, "terminationGracePeriodSeconds")
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_errors(toleration, f"{path}.tolerations[{index}]")
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread_errors(spread, f"{path}.topologySpreadConstraints[{index}]")


def pod_change_errors(spec: Object, before: Object) -> Iterator[FieldError]:
    """Allow changes of images, the deadline, scheduling gates, and additional tolerations."""
    if _immutable_part(spec, before) != _immutable_part(before, before):
        changed = _differences(spec, before)
        yield FieldError("FieldValueForbidden", "spec", f"Forbidden: {_CHANGE}\n{changed}")
        return
    gates = _items(before, "schedulingGates")
    added = [gate for gate in _items(spec, "schedulingGates") if gate not in gates]
    if added:
        yield may_not("spec.schedulingGates", "only deletion is allowed, but found new gates")
    kept = _items(spec, "tolerations")
    if any(toleration not in kept for toleration in _items(before, "tolerations")):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield may_not("spec.tolerations", why)


def pod_resize_errors(spec: Object, before: Object) -> Iterator[FieldError]:
    if qos_class(spec) != qos_class(before):
        why = "Pod QOS Class may not change as a result of resizing"
        yield invalid_value("spec", qos_class(spec), why)


def _items(spec: Object, field: str) -> list[Object]:
    return spec.get(field) or []


def _immutable_part(spec: Object, before: Object) -> Object:
    """Return the immutable part; a gated pod may still restrict its nodes."""
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


def _differences(spec: Object, before: Object) -> str:
    """Return an old and a new line for each immutable field that differs."""
    fixed, was = _immutable_part(spec, before), _immutable_part(before, before)
    lines = []
    for key in sorted(fixed.keys() | was.keys()):
        if fixed.get(key) != was.get(key):
            lines += [f"- {key}: {was.get(key)}", f"+ {key}: {fixed.get(key)}"]
    return "\n".join(lines)


def _container_errors(container: Object, path: str, names: set[str]) -> Iterator[FieldError]:
    name = container.get("name") or ""
    yield from missing_fields(container, path, "name", "image")
    if name and not _LABEL.fullmatch(name):
        yield invalid_value(f"{path}.name", name, RFC1123_LABEL)
    elif name and name in names:
        yield duplicate(f"{path}.name", name)
    names.add(name)
    yield from check_choice(container, path, "imagePullPolicy", _PULL_POLICIES)
    for index, port in enumerate(container.get("ports") or ()):
        yield from port_errors(port, f"{path}.ports[{index}]", "containerPort")
    yield from _resource_errors(container["resources"], f"{path}.resources")


def _resource_errors(resources: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for field, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            if thousandths(quantity) < 0:
                yield invalid_value(f"{path}.{field}.{name}", str(quantity), NOT_NEGATIVE)
                return
    for name, quantity in requests.items():
        if name in limits and thousandths(quantity) > thousandths(limits[name]):
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid_value(f"{path}.requests", str(quantity), why)


def _toleration_errors(toleration: Object, path: str) -> Iterator[FieldError]:
    operator = toleration.get("operator") or "Equal"
    effect = toleration.get("effect") or ""
    if not toleration.get("key") and operator != "Exists":
        why = (
            'operator must be Exists when `key` is empty, which means "match all values and '
            'all keys"'
        )
        yield invalid_value(f"{path}.operator", operator, why)
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if operator == "Exists" and toleration.get("value"):
        shown = Verbatim(toleration["value"])
        why = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{path}.operator", shown, why)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect not in ("", "NoExecute"):
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect, why)


def _spread_errors(spread: Object, path: str) -> Iterator[FieldError]:
    skew = spread.get("maxSkew") or 0
    if skew <= 0:
        yield invalid_value(f"{path}.maxSkew", skew, "must be greater than zero")
    if not spread.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    choices = ("DoNotSchedule", "ScheduleAnyway")
    yield from check_choice(spread, path, "whenUnsatisfiable", choices)

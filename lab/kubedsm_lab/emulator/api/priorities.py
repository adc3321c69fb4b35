"""PriorityClasses: those of every cluster, what a pod gets of its class, what is refused of them.

Source: the admission plugin Priority, and k8s.io/kubernetes/pkg/apis/scheduling.
"""

from collections.abc import Iterator, Sequence

from kubedsm_lab.emulator.api.errors import (
    ApiError,
    FieldError,
    forbidden,
    invalid_value,
    may_not,
    not_supported,
)
from kubedsm_lab.emulator.api.resources import PODS, PRIORITY_CLASSES, Object

#: they exist from the start, and may not be deleted
SYSTEM_CLASSES: tuple[Object, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be"
        " moved to another node if necessary.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current"
        " node.",
    },
)
_SYSTEM_VALUES = {given["metadata"]["name"]: given["value"] for given in SYSTEM_CLASSES}
_SYSTEM_PREFIX = "system-"
_HIGHEST_OF_USERS = 1_000_000_000
_POLICIES = ("PreemptLowerPriority", "Never")
#: of a pod where no class is the default
_NO_CLASS: Object = {"value": 0, "preemptionPolicy": _POLICIES[0]}


def with_class_defaults(priority_class: Object) -> Object:
    policy = priority_class.get("preemptionPolicy") or _POLICIES[0]
    value = priority_class.get("value") or 0
    return {**priority_class, "value": value, "preemptionPolicy": policy}


def with_priority(spec: Object, classes: Sequence[Object]) -> Object:
    """A new pod's spec with what its class, or the default one, says.

    Raises ApiError (403) where there is no such class, or the spec says otherwise itself.
    """
    name = spec.get("priorityClassName") or ""
    if name:
        found = next((c for c in classes if c["metadata"]["name"] == name), None)
        if found is None:
            raise _refused(f"no PriorityClass with name {name} was found")
    else:
        found = next((c for c in classes if c.get("globalDefault")), _NO_CLASS)
    given, priority = spec.get("priority"), found["value"]
    if given not in (None, priority):
        raise _refused(_computed(f"integer value of priority ({given})", priority))
    given, policy = spec.get("preemptionPolicy"), found["preemptionPolicy"]
    if given not in (None, policy):
        raise _refused(_computed(f"string value of PreemptionPolicy ({given})", policy))
    named = {"priorityClassName": found["metadata"]["name"]} if "metadata" in found else {}
    return {**spec, **named, "priority": priority, "preemptionPolicy": policy}


def check_only_default(priority_class: Object, others: Sequence[Object]) -> None:
    """Raises ApiError (403) if another class is the default already."""
    if not priority_class.get("globalDefault"):
        return
    name = priority_class["metadata"]["name"]
    for other in others:
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise forbidden(
                PRIORITY_CLASSES,
                name,
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist",
            )


def check_class_deletable(name: str) -> None:
    """Raises ApiError (403) for those of every cluster."""
    if name in _SYSTEM_VALUES:
        why = "this is a system priority class and cannot be deleted"
        raise forbidden(PRIORITY_CLASSES, name, why)


def class_errors(priority_class: Object) -> Iterator[FieldError]:
    name, value = priority_class["metadata"].get("name", ""), priority_class["value"]
    if name.startswith(_SYSTEM_PREFIX):
        if why := _wrong_with_system_class(priority_class, name):
            reserved = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for "
            yield may_not("metadata.name", f"{reserved}system use only. error: {why}")
    elif value > _HIGHEST_OF_USERS:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        yield may_not("value", why)
    if priority_class["preemptionPolicy"] not in _POLICIES:
        policy = priority_class["preemptionPolicy"]
        yield not_supported("preemptionPolicy", policy, _POLICIES)


def class_change_errors(priority_class: Object, before: Object) -> Iterator[FieldError]:
    if priority_class["value"] != before["value"]:
        yield may_not("value", "may not be changed in an update.")
    policy = priority_class["preemptionPolicy"]
    if policy != before["preemptionPolicy"]:
        yield invalid_value("preemptionPolicy", policy, "field is immutable")


def _wrong_with_system_class(priority_class: Object, name: str) -> str:
    if name not in _SYSTEM_VALUES:
        return f"{name} is not a known system priority class"
    if priority_class["value"] != _SYSTEM_VALUES[name]:
        return f"value of {name} PriorityClass must be {_SYSTEM_VALUES[name]}"
    if priority_class.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def _computed(what: str, computed: object) -> str:
    return (
        f"the {what} must not be provided in pod spec; priority admission controller computed "
        f"{computed} from the given PriorityClass name"
    )


def _refused(why: str) -> ApiError:
    return forbidden(PODS, "", why)

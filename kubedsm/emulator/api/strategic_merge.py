"""Strategic merge patch: a merge patch that knows which lists are really maps.

Source: k8s.io/apimachinery/pkg/util/strategicpatch, and the patchStrategy and patchMergeKey tags
of k8s.io/api. A list that is not named here is atomic, tolerations and taints among them.
`$setElementOrder` is ignored: new items come last.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from kubedsm.emulator.api.resources import Object, Resource

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class StrategicMergeError(ValueError):
    """The patch is malformed."""


@attrs.frozen
class Fields:
    """How the fields of an object merge; those not named merge as JSON merge patch does."""

    named: "Mapping[str, Fields | Keyed | Unordered]" = attrs.field(factory=dict)


@attrs.frozen
class Keyed:
    """A list of objects, of which those with an equal key are the same one."""

    key: str
    item: Fields = attrs.field(factory=Fields)


@attrs.frozen
class Unordered:
    """A list of plain values without duplicates."""


_ANY = Fields()
_KEYED_BY_NAME = Keyed("name")
_CONDITIONS = Keyed("type")
_METADATA = Fields({"finalizers": Unordered(), "ownerReferences": Keyed("uid")})
_CONTAINER = Fields(
    {
        "env": _KEYED_BY_NAME,
        "ports": Keyed("containerPort"),
        "volumeMounts": Keyed("mountPath"),
        "volumeDevices": Keyed("devicePath"),
    }
)
_CONTAINERS = Keyed("name", _CONTAINER)
_POD_SPEC = Fields(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "volumes": _KEYED_BY_NAME,
        "imagePullSecrets": _KEYED_BY_NAME,
        "hostAliases": Keyed("ip"),
        "topologySpreadConstraints": Keyed("topologyKey"),
        "schedulingGates": _KEYED_BY_NAME,
        "resourceClaims": _KEYED_BY_NAME,
    }
)
_WORKLOAD = Fields(
    {
        "metadata": _METADATA,
        "spec": Fields({"template": Fields({"metadata": _METADATA, "spec": _POD_SPEC})}),
        "status": Fields({"conditions": _CONDITIONS}),
    }
)
_OTHER = Fields({"metadata": _METADATA, "status": Fields({"conditions": _CONDITIONS})})
_OF_KIND: Mapping[str, Fields] = {
    "Pod": Fields(
        {
            "metadata": _METADATA,
            "spec": _POD_SPEC,
            "status": Fields(
                {"conditions": _CONDITIONS, "podIPs": Keyed("ip"), "hostIPs": Keyed("ip")}
            ),
        }
    ),
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "Job": _WORKLOAD,
    "Node": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields({"podCIDRs": Unordered()}),
            "status": Fields({"conditions": _CONDITIONS, "addresses": Keyed("type")}),
        }
    ),
    "Service": Fields(
        {
            "metadata": _METADATA,
            "spec": Fields({"ports": Keyed("port")}),
            "status": Fields({"conditions": _CONDITIONS}),
        }
    ),
    "ServiceAccount": Fields(
        {"metadata": _METADATA, "secrets": _KEYED_BY_NAME, "imagePullSecrets": _KEYED_BY_NAME}
    ),
}


def fields_of(resource: Resource) -> Fields:
    return _OF_KIND.get(resource.kind, _OTHER)


def strategic_merge(current: Object, patch: Object, fields: Fields) -> Object:
    """The object with the patch merged in. Raises StrategicMergeError."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise StrategicMergeError(f"Unknown patch directive: {directive}")
    merged = _retained(current, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(merged, key.removeprefix(_DELETE_FROM), value)
        elif key not in (_DIRECTIVE, _RETAIN) and not key.startswith(_ORDER):
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = _merged(merged.get(key), value, fields.named.get(key, _ANY), key)
    return merged


def _retained(current: Object, patch: Object) -> Object:
    """A copy to change; `$retainKeys` drops what the patch does not name there."""
    if _RETAIN not in patch:
        return dict(current)
    keep = patch[_RETAIN]
    if not isinstance(keep, list):
        raise StrategicMergeError(f"invalid patch format of {_RETAIN}")
    return {key: value for key, value in current.items() if key in keep}


def _delete_from(merged: Object, key: str, doomed: Any) -> None:
    if not isinstance(doomed, list):
        raise StrategicMergeError(f"invalid patch format of {_DELETE_FROM}{key}")
    if isinstance(merged.get(key), list):
        merged[key] = [value for value in merged[key] if value not in doomed]


def _merged(current: Any, patch: Any, how: Fields | Keyed | Unordered, name: str) -> Any:
    if isinstance(patch, dict):
        if not isinstance(how, Fields):
            raise StrategicMergeError(f"{name} is a list, and the patch has an object there")
        return strategic_merge(current if isinstance(current, dict) else {}, patch, how)
    if isinstance(patch, list):
        items = current if isinstance(current, list) else []
        if isinstance(how, Keyed):
            return _merged_items(items, patch, how, name)
        if isinstance(how, Unordered):
            return [*items, *(value for value in patch if value not in items)]
    return patch


def _merged_items(current: list[Any], patch: list[Any], how: Keyed, name: str) -> list[Any]:
    if not all(isinstance(item, dict) for item in patch):
        raise StrategicMergeError(f"{name} is a list of objects, and the patch has something else")
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    items = list(current)
    for change in patch:
        if how.key not in change:
            raise StrategicMergeError(
                f"map: {change} does not contain declared merge key: {how.key}"
            )
        key = change[how.key]
        at = next((i for i, item in enumerate(items) if item.get(how.key) == key), None)
        if change.get(_DIRECTIVE) == "delete":
            items = [item for item in items if item.get(how.key) != key]
        elif at is None:
            items.append(strategic_merge({}, change, how.item))
        else:
            items[at] = strategic_merge(items[at], change, how.item)
    return items

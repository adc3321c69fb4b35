"""JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.

A patch never changes the object that it is applied to; unchanged parts are shared. Source of
strategic merge patch: k8s.io/apimachinery/pkg/util/strategicpatch; `$setElementOrder` is ignored:
new items come last.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from kubedsm_lab.emulator.api.errors import ApiError, bad_request, unsupported_media_type
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.values import check_depth

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)

#: limit of kube-apiserver, which bounds the cost of a request
_MOST_OPERATIONS = 10_000


class PatchError(ValueError):
    """A JSON patch cannot be applied: a test fails, or a path has no target."""


def patched(resource: Resource, current: Object, patch: Any, content_type: str) -> Object:
    """Apply a patch of any supported content type; return the patched object.

    Raises ApiError: 400, 415, 422.
    """
    if content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        if len(patch) > _MOST_OPERATIONS:
            allowed = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}"
            message = f"Request entity too large: {allowed}, got {len(patch)}"
            raise ApiError(413, "RequestEntityTooLarge", message)
        try:
            result = json_patch(current, patch)
        except PatchError:
            message = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", message, {}) from None
        check_depth(result)
        if not isinstance(result, dict):
            raise bad_request("the patch leaves something that is not an object")
        return result
    if content_type not in PATCH_TYPES:
        raise unsupported_media_type(PATCH_TYPES)
    patch = check_object(patch)
    if content_type == MERGE_PATCH:
        merged: Object = merge_patch(current, patch)
        return merged
    return strategic_merge(current, patch, fields_of(resource))


def check_object(patch: Any) -> Object:
    """Raise ApiError (400) unless the patch is a JSON object."""
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a patch of this type is an object")
    return patch


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): null removes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(document: Any, operations: list[Any]) -> Any:
    """Apply a JSON patch (RFC 6902), all operations or none. Raises PatchError."""
    for operation in operations:
        document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise PatchError("an operation is an object")
    kind, path = operation.get("op"), _split_pointer(operation.get("path"))
    if kind == "remove":
        return _edit_parent(document, path, _remove)
    if kind in ("move", "copy"):
        source = _split_pointer(operation.get("from"))
        value = _find_value(document, source)
        if kind == "move":
            if path[: len(source)] == source and path != source:
                raise PatchError("nothing can be moved into itself")
            document = _edit_parent(document, source, _remove)
        return _edit_parent(document, path, partial(_add, value=value)) if path else value
    if kind not in ("add", "replace", "test") or "value" not in operation:
        raise PatchError(f"{kind!r} is no operation, or has no value")
    value = operation["value"]
    if kind == "test":
        if not _are_same(_find_value(document, path), value):
            raise PatchError(f"the test of {operation['path']} fails")
        return document
    if not path:
        return value
    return _edit_parent(document, path, partial(_add if kind == "add" else _replace, value=value))


def _split_pointer(text: Any) -> list[str]:
    """Split a JSON pointer (RFC 6901) into unescaped reference tokens."""
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{text!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _find_value(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[_key(document, step)]
    return document


def _edit_parent(document: Any, path: list[str], change: Callable[[Any, str], None]) -> Any:
    """Apply `change` to the container at the path's parent; containers on the way are copied."""
    if not path:
        raise PatchError("the whole document cannot be removed")
    if not isinstance(document, dict | list):
        raise PatchError(f"nothing at {path[0]!r}")
    copy, (step, *rest) = document.copy(), path
    if rest:
        key = _key(copy, step)
        copy[key] = _edit_parent(copy[key], rest, change)
    else:
        change(copy, step)
    return copy


def _add(parent: Any, step: str, *, value: Any) -> None:
    if isinstance(parent, dict):
        parent[step] = value
    else:
        parent.insert(len(parent) if step == "-" else _index(parent, step, len(parent) + 1), value)


def _remove(parent: Any, step: str) -> None:
    del parent[_key(parent, step)]


def _replace(parent: Any, step: str, *, value: Any) -> None:
    """Replace a value; a missing key is added, as by the library of kube-apiserver."""
    parent[step if isinstance(parent, dict) else _key(parent, step)] = value


def _key(container: Any, step: str) -> Any:
    """Convert one step of a JSON pointer to an existing key or list index of the container. Raises
    PatchError.
    """
    if isinstance(container, list):
        return _index(container, step, len(container))
    if isinstance(container, dict) and step in container:
        return step
    raise PatchError(f"nothing at {step!r}")


def _index(items: list[Any], step: str, limit: int) -> int:
    if not (step.isascii() and step.isdigit()) or (len(step) > 1 and step[0] == "0"):
        raise PatchError(f"{step!r} is not an index")
    # an index has at most as many digits as the length
    index = int(step) if len(step) <= len(str(len(items))) else limit
    if index >= limit:
        raise PatchError(f"index {step} is out of range")
    return index


def _are_same(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal by Python's comparison, except that
    true is not 1.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _are_same(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_are_same, left, right))
    return bool(left == right)


# Strategic merge patch: rules of lists, after patchStrategy and patchMergeKey of k8s.io/api.
# A patch replaces any other list, such as tolerations and taints.

#: rules by field name; a field without rule merges as in a JSON merge patch
Fields = Mapping[str, "Fields | ListType"]


@attrs.frozen
class ListType:
    """Strategic-merge rule of a list, whose items are identified by a key field, such as `name`;
    without key the list is merged as a set of plain values.
    """

    key: str = ""
    item: Fields = attrs.field(factory=dict)


_SET, _BY_NAME = ListType(), ListType("name")
_METADATA: Fields = {"finalizers": _SET, "ownerReferences": ListType("uid")}
_CONTAINERS = ListType(
    "name",
    {
        "env": _BY_NAME,
        "ports": ListType("containerPort"),
        "volumeMounts": ListType("mountPath"),
        "volumeDevices": ListType("devicePath"),
    },
)
_POD_SPEC: Fields = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), _CONTAINERS),
    **dict.fromkeys(("volumes", "imagePullSecrets", "schedulingGates", "resourceClaims"), _BY_NAME),
    "hostAliases": ListType("ip"),
    "topologySpreadConstraints": ListType("topologyKey"),
}
_STATUS: Fields = {"conditions": ListType("type")}
_WORKLOAD: Fields = {"spec": {"template": {"metadata": _METADATA, "spec": _POD_SPEC}}}
#: merge rules by kind, in addition to those of metadata and conditions
_OF_KIND: Mapping[str, Fields] = {
    "Pod": {
        "spec": _POD_SPEC,
        "status": {**_STATUS, "podIPs": ListType("ip"), "hostIPs": ListType("ip")},
    },
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "Job"), _WORKLOAD),
    "Node": {
        "spec": {"podCIDRs": _SET},
        "status": {**_STATUS, "addresses": ListType("type")},
    },
    "Service": {"spec": {"ports": ListType("port")}},
    "ServiceAccount": {"secrets": _BY_NAME},
    "CSINode": {"spec": {"drivers": _BY_NAME}},
}


def fields_of(resource: Resource) -> Fields:
    """Return the strategic-merge rules for the fields of the resource's kind."""
    return {"metadata": _METADATA, "status": _STATUS, **_OF_KIND.get(resource.kind, {})}


_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(current: Object, patch: Object, fields: Fields) -> Object:
    """Apply a strategic merge patch to the object. Raises ApiError (400)."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch directive: {directive}")
    merged = _retain_items(current, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_from(merged, key.removeprefix(_DELETE_FROM), value)
        elif key not in (_DIRECTIVE, _RETAIN) and not key.startswith(_ORDER):
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = _strategic_value(merged.get(key), value, fields.get(key, {}), key)
    return merged


def _retain_items(current: Object, patch: Object) -> Object:
    """Copy the object without the fields that the patch's `$retainKeys` omits."""
    if _RETAIN not in patch:
        return dict(current)
    keep = patch[_RETAIN]
    if not isinstance(keep, list):
        raise bad_request(f"invalid patch format of {_RETAIN}")
    return {key: value for key, value in current.items() if key in keep}


def _delete_from(merged: Object, key: str, doomed: Any) -> None:
    if not isinstance(doomed, list):
        raise bad_request(f"invalid patch format of {_DELETE_FROM}{key}")
    if isinstance(merged.get(key), list):
        merged[key] = [value for value in merged[key] if value not in doomed]


def _strategic_value(current: Any, patch: Any, how: Fields | ListType, name: str) -> Any:
    if isinstance(patch, dict):
        if isinstance(how, ListType):
            raise bad_request(f"{name} is a list, and the patch has an object there")
        return strategic_merge(current if isinstance(current, dict) else {}, patch, how)
    if isinstance(patch, list) and isinstance(how, ListType):
        items = current if isinstance(current, list) else []
        if how.key:
            return _merge_items(items, patch, how, name)
        return [*items, *(value for value in patch if value not in items)]
    return patch


def _merge_items(current: list[Any], patch: list[Any], how: ListType, name: str) -> list[Any]:
    if not all(isinstance(item, dict) for item in patch):
        raise bad_request(f"{name} is a list of objects, and the patch has something else")
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    items = list(current)
    for change in patch:
        if how.key not in change:
            raise bad_request(f"map: {change} does not contain declared merge key: {how.key}")
        key = change[how.key]
        at = next((i for i, item in enumerate(items) if item.get(how.key) == key), None)
        if change.get(_DIRECTIVE) == "delete":
            items = [item for item in items if item.get(how.key) != key]
        elif at is None:
            items.append(strategic_merge({}, change, how.item))
        else:
            items[at] = strategic_merge(items[at], change, how.item)
    return items

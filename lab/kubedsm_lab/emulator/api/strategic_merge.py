"""Strategic merge patch: a merge patch that knows which lists are really maps.

Source: k8s.io/apimachinery/pkg/util/strategicpatch; which lists they are is in `list_types`.
`$setElementOrder` is ignored: new items come last.
"""

from typing import Any

from kubedsm_lab.emulator.api.list_types import ANY, Fields, Keyed, Unordered
from kubedsm_lab.emulator.api.resources import Object

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class StrategicMergeError(ValueError):
    """The patch is malformed."""


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
                merged[key] = _merged(merged.get(key), value, fields.named.get(key, ANY), key)
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

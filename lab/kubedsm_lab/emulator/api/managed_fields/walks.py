"""From objects to sets of fields and back: what is in one, how two differ, one laid over another.

How far a walk goes into a value is a matter of `list_types`: a list that is neither a map nor a
set, and an object that is atomic, is one value.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import orjson

from kubedsm_lab.emulator.api.list_types import ANY, Fields, Keyed, Unordered
from kubedsm_lab.emulator.api.managed_fields.field_sets import SELF, FieldSet, is_member, shown

How = Fields | Keyed | Unordered
#: what is not there; null is a value
_ABSENT: Any = object()
_LEAF: FieldSet = {}


class KeyOfItemError(ValueError):
    """An item of a list has no key, or that of another item."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


@attrs.frozen
class Comparison:
    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def __bool__(self) -> bool:
        return bool(self.removed or self.modified or self.added)


def field_set(obj: Any, how: How = ANY) -> FieldSet:
    """The fields that somebody sets who sends this."""
    fields: FieldSet = {}
    kind, is_list = _kind(how), not isinstance(how, Fields)
    for name, value in _parts(obj, how).items():
        below = _below(how, name)
        node = field_set(value, below)
        if node and is_list:
            node = {SELF: _LEAF, **node}
        elif value == [] and not is_list and _is_associative(below):
            # An empty list that is a map says nothing of any item.
            continue
        fields[kind + name] = node
    return fields


def comparison(before: Any, after: Any, how: How) -> Comparison:
    """What is different; a field that is there on one side only counts with all that is in it."""
    found = Comparison({}, {}, {})
    _compare(before, after, how, found)
    return found


def without(obj: Any, doomed: FieldSet, how: How) -> Any:
    """The value without those fields and what is in them; None if nothing is left of it."""
    if not isinstance(obj, dict | list):
        return obj
    kind = _kind(how)
    rest = {}
    for name, value in _parts(obj, how).items():
        node = doomed.get(kind + name)
        if not is_member(node):
            rest[name] = without(value, node, _below(how, name)) if node else value
    if not rest:
        return None
    return rest if isinstance(how, Fields) else list(rest.values())


def merged(live: Any, applied: Any, how: How) -> Any:
    """The live value with the applied one laid over it."""
    if isinstance(how, Fields) and isinstance(live, dict) and isinstance(applied, dict):
        if how.atomic:
            return applied
        result = dict(live)
        for name, value in applied.items():
            result[name] = merged(live[name], value, _below(how, name)) if name in live else value
        return result
    if isinstance(live, list) and isinstance(applied, list) and _is_associative(how):
        return _merged_items(live, applied, how)
    if applied is None and isinstance(live, dict | list) and live:
        return live
    return applied


def check_keys(obj: Any, how: How, path: str = "") -> None:
    """Raises KeyOfItemError unless every item of every list that is a map is one of its own."""
    if isinstance(how, Fields):
        for name, below in how.named.items():
            if isinstance(obj, dict) and name in obj:
                check_keys(obj[name], below, f"{path}.{name}")
    elif isinstance(obj, list) and _is_associative(how):
        seen = set()
        for index, item in enumerate(obj):
            if isinstance(how, Keyed) and not _has_key(item, how):
                named = " ".join(f'"{key}"' for key in how.keys)
                raise KeyOfItemError(
                    path,
                    f"element {index}: associative list with keys has an element that omits "
                    f"all key fields [{named}] (and doesn't have default values for any key "
                    "fields)",
                )
            step = _step(item, how)
            if step in seen:
                raise KeyOfItemError(path, f"duplicate entries for key {shown((step,))}")
            seen.add(step)
            if isinstance(how, Keyed):
                check_keys(item, how.item, path + shown((step,)))


def _compare(before: Any, after: Any, how: How, found: Comparison) -> None:
    old, new, kind = _parts(before, how), _parts(after, how), _kind(how)
    for name, value in new.items():
        was = old.get(name, _ABSENT)
        if was is _ABSENT:
            found.added[kind + name] = _whole(value, _below(how, name))
        elif was is not value:
            _compare_one(kind + name, was, value, _below(how, name), found)
    for name, was in old.items():
        if name not in new:
            found.removed[kind + name] = _whole(was, _below(how, name))


def _compare_one(step: str, was: Any, value: Any, how: How, found: Comparison) -> None:
    if _is_branch(was, how) or _is_branch(value, how):
        below = Comparison({}, {}, {})
        _compare(was, value, how, below)
        for total, part in (
            (found.removed, below.removed),
            (found.modified, below.modified),
            (found.added, below.added),
        ):
            if part:
                total[step] = part
        if not isinstance(value, type(was)) and None not in (was, value):
            found.modified[step] = _LEAF
    elif was != value or isinstance(was, bool) != isinstance(value, bool):
        found.modified[step] = _LEAF


def _whole(value: Any, how: How) -> FieldSet:
    """Itself and all that is in it."""
    if not isinstance(value, dict | list) or not (parts := _parts(value, how)):
        return _LEAF
    kind = _kind(how)
    node = {kind + name: _whole(part, _below(how, name)) for name, part in parts.items()}
    node[SELF] = _LEAF
    return node


def _is_branch(value: Any, how: How) -> bool:
    if isinstance(value, dict):
        return bool(value) and isinstance(how, Fields) and not how.atomic
    return isinstance(value, list) and bool(value) and _is_associative(how)


def _is_associative(how: How) -> bool:
    return bool(how.keys) if isinstance(how, Keyed) else isinstance(how, Unordered)


def _parts(value: Any, how: How) -> Mapping[str, Any]:
    """What is in a value, each by its name: of duplicates in a list only the last one."""
    if isinstance(how, Fields):
        return value if isinstance(value, dict) and not how.atomic else {}
    if not isinstance(value, list) or not _is_associative(how):
        return {}
    return {_step(item, how): item for item in value}


def _kind(how: How) -> str:
    """What is before a name in a step."""
    return "f:" if isinstance(how, Fields) else ""


def _below(how: How, name: str) -> How:
    if isinstance(how, Fields):
        return how.named.get(name, ANY)
    return how.item if isinstance(how, Keyed) else ANY


def _has_key(item: Any, how: Keyed) -> bool:
    keys = how.keys.items()
    return isinstance(item, dict) and any(default or key in item for key, default in keys)


def _step(item: Any, how: How) -> str:
    if not isinstance(how, Keyed) or not isinstance(item, dict):
        return "v:" + orjson.dumps(item).decode()
    keys = {}
    for key, default in how.keys.items():
        value = item.get(key, default)
        if value is not None:
            keys[key] = value
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def _merged_items(live: list[Any], applied: list[Any], how: How) -> list[Any]:
    """In the applied order; what is only in the live list keeps its place before what follows."""
    old, new = _parts(live, how), _parts(applied, how)
    if len(old) < len(live):
        return applied
    order = list(old)
    place = {step: index for index, step in enumerate(order)}
    result: list[Any] = []
    waiting: list[Any] = []
    at = 0
    for step, item in new.items():
        if step not in old:
            waiting.append(item)
            continue
        until = place[step] + 1 if place[step] >= at else len(order)
        result += [old[other] for other in order[at:until] if other not in new]
        result += [*waiting, merged(old[step], item, _below(how, step))]
        waiting, at = [], until
    result += [old[other] for other in order[at:] if other not in new]
    return result + waiting

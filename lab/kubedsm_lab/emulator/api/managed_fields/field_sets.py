"""Field sets in the form of managedFields (FieldsV1), and walks over objects by them.

A set is a tree of steps: `f:NAME` into an object, `k:{...}` to the item with that key of a list,
`v:VALUE` to a value of a set. A step without children is a member; a step with children is one too
if there is a `.` below. The empty tree is the empty set. No set is ever changed in place.
`list_types` decide how far a walk descends: a list that is neither map nor set, and an atomic
object, is one value.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import attrs
import orjson

from kubedsm_lab.emulator.api.list_types import ANY, Fields, Keyed, Unordered

FieldSet = dict[str, Any]
Path = tuple[str, ...]

SELF = "."
_LEAF: FieldSet = {}


def is_member(node: FieldSet | None) -> bool:
    """Return whether the field of the node is in the set itself."""
    return node is not None and (not node or SELF in node)


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left or not right or left is right:
        return left or right
    both = dict(left)
    for step, node in right.items():
        mine = both.get(step)
        both[step] = node if mine is None else _union_of_nodes(mine, node)
    return both


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of `left` that are not in `right`, regardless of their children."""
    if not left or not right:
        return left
    rest = {}
    for step, node in left.items():
        if (other := right.get(step)) is None:
            rest[step] = node
        elif step == SELF:
            continue
        elif not node:
            if not is_member(other):
                rest[step] = node
        elif below := difference(node, other or {SELF: _LEAF}):
            rest[step] = _LEAF if below.keys() == {SELF} else below
    return rest


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    common: FieldSet = {}
    for step, node in left.items():
        if (other := right.get(step)) is None:
            continue
        if not node or not other:
            if is_member(node) and is_member(other):
                common[step] = _LEAF
        elif below := intersection(node, other):
            common[step] = _LEAF if below.keys() == {SELF} else below
    return common


def with_parents(fields: FieldSet) -> FieldSet:
    """Add the fields of all objects above a member."""
    return {
        step: {SELF: _LEAF, **with_parents(node)} if node and step[0] == "f" else with_parents(node)
        for step, node in fields.items()
    }


def ordered(fields: FieldSet) -> FieldSet:
    """Return the set in the order of managedFields; other operations keep that of their left set.

    Equal sets are identical then, as those of all pods of a ReplicaSet.
    """
    return _parse_in_order(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))


def paths(fields: FieldSet, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of the members; direct children precede deeper ones."""
    below = {step: node for step, node in fields.items() if step != SELF}
    yield from ((*above, step) for step, node in below.items() if is_member(node))
    for step, node in below.items():
        yield from paths(node, (*above, step))


def has(fields: FieldSet, path: Path) -> bool:
    node: FieldSet | None = fields
    for step in path:
        node = None if node is None else node.get(step)
    return is_member(node)


def shown(path: Path) -> str:
    """Return the name in messages: .spec.containers[name="web"].image."""
    return "".join(map(_format_step, path))


def is_field_set(value: Any) -> bool:
    """Return whether a client sent a valid set."""
    if not isinstance(value, dict):
        return False
    return all(_is_step(step) and is_field_set(node) for step, node in value.items())


def _is_step(step: str) -> bool:
    kind, colon, text = step.partition(":")
    if step == SELF or (kind == "f" and colon):
        return True
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    if kind == "k":
        return isinstance(value, dict) and bool(value)
    return kind in ("v", "i") and not isinstance(value, dict | list)


@lru_cache(maxsize=1024)
def _parse_in_order(text: bytes) -> FieldSet:
    return _with_items_in_order(orjson.loads(text))


def _with_items_in_order(fields: FieldSet) -> FieldSet:
    steps = list(fields)
    if len(steps) > 1 and steps[-1][0] == "k":
        steps.sort(key=_rank)
    return {step: _with_items_in_order(fields[step]) if fields[step] else _LEAF for step in steps}


def _union_of_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if left and right:
        return union(left, right)
    below = left or right
    return {SELF: _LEAF, **below} if below else below


def _format_step(step: str) -> str:
    kind, _, text = step.partition(":")
    if kind == "k":
        parts = (f"{key}={_json(value)}" for key, value in orjson.loads(text).items())
        return f"[{','.join(parts)}]"
    return {"f": f".{text}", "v": f"[={text}]"}.get(kind, f"[{text}]")


@lru_cache(maxsize=4096)
def _rank(step: str) -> tuple[Any, ...]:
    """Order by name, then items by their keys (numbers as numbers), then values."""
    kind, _, text = step.partition(":")
    if kind != "k":
        return ("fkvi".find(kind) if kind else -1, text)
    keys = orjson.loads(text)
    values = ((isinstance(value, str), value) for value in keys.values())
    return (1, "", *(part for pair in zip(keys, values, strict=True) for part in pair))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


How = Fields | Keyed | Unordered
#: missing value; null is a value
_ABSENT: Any = object()


class KeyOfItemError(ValueError):
    """An item of a list has no key, or the key of another item."""

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
    """Return the fields that the object sets."""
    fields: FieldSet = {}
    kind, is_list = _kind(how), not isinstance(how, Fields)
    for name, value in _parts(obj, how).items():
        below = _below(how, name)
        node = field_set(value, below)
        if node and is_list:
            node = {SELF: _LEAF, **node}
        elif value == [] and not is_list and _is_associative(below):
            # An empty associative list sets no items.
            continue
        fields[kind + name] = node
    return fields


def comparison(before: Any, after: Any, how: How) -> Comparison:
    """Compare two values; a field on one side only counts with all of its content."""
    found = Comparison({}, {}, {})
    _compare(before, after, how, found)
    return found


def without(obj: Any, doomed: FieldSet, how: How) -> Any:
    """Remove the fields with their content; return None if nothing is left."""
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
    """Overlay the live value with the applied one."""
    if isinstance(how, Fields) and isinstance(live, dict) and isinstance(applied, dict):
        if how.atomic:
            return applied
        result = dict(live)
        for name, value in applied.items():
            result[name] = merged(live[name], value, _below(how, name)) if name in live else value
        return result
    if isinstance(live, list) and isinstance(applied, list) and _is_associative(how):
        return _merge_items(live, applied, how)
    if applied is None and isinstance(live, dict | list) and live:
        return live
    return applied


def check_keys(obj: Any, how: How, path: str = "") -> None:
    """Raises KeyOfItemError unless items of associative lists have unique keys."""
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
    """Return the field with all of its content."""
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
    """Return the parts of a value by name; of duplicates in a list the last one."""
    if isinstance(how, Fields):
        return value if isinstance(value, dict) and not how.atomic else {}
    if not isinstance(value, list) or not _is_associative(how):
        return {}
    return {_step(item, how): item for item in value}


def _kind(how: How) -> str:
    """Return the prefix of steps into the value."""
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


def _merge_items(live: list[Any], applied: list[Any], how: How) -> list[Any]:
    """Merge in the applied order; other live items keep their place before the next item."""
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

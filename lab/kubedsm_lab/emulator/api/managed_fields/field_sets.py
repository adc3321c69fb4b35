"""Sets of fields, and walks over objects by them.

A field is a path of steps: `f:NAME` into an object, `k:{...}` to the item with that key of a list,
`v:VALUE` to a value of a set. FieldsV1, the form of managedFields, is the tree of these steps, in
which `.` marks a field of the set that has others below it. `list_types` decide how far a walk
descends: a list that is neither map nor set, and an atomic object, is one value.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import attrs
import orjson

from kubedsm_lab.emulator.api.list_types import ANY, Fields, Keyed, Unordered

Path = tuple[str, ...]
FieldSet = frozenset[Path]
Tree = dict[str, Any]

SELF = "."


def with_parents(fields: FieldSet) -> FieldSet:
    """Add the fields of all objects above a member."""
    return fields | {above for above in _prefixes(fields) if above[-1][0] == "f"}


def _prefixes(fields: FieldSet) -> set[Path]:
    return {path[:depth] for path in fields for depth in range(1, len(path))}


def parse_tree(tree: Tree) -> FieldSet:
    """Read FieldsV1."""
    return share_set(frozenset(_tree_paths(tree, ())))


def _tree_paths(tree: Tree, above: Path) -> Iterator[Path]:
    for step, node in tree.items():
        if step != SELF:
            path = (*above, step)
            if not node or SELF in node:
                yield path
            yield from _tree_paths(node, path)


@lru_cache(maxsize=1024)
def share_set(fields: FieldSet) -> FieldSet:
    """Return one object for equal sets, such as those of all pods of a ReplicaSet."""
    return fields


@lru_cache(maxsize=1024)
def format_tree(fields: FieldSet) -> Tree:
    """Return the set as FieldsV1."""
    tree: Tree = {}
    for path in sorted(fields, key=_rank_path):
        node = tree
        for depth, step in enumerate(path, 1):
            node = node.setdefault(step, {})
            if depth < len(path) and path[:depth] in fields:
                node.setdefault(SELF, {})
    return tree


def in_order(fields: FieldSet) -> list[Path]:
    """Return the fields as messages list them: direct children precede deeper ones."""
    return sorted(fields, key=lambda path: (_rank_path(path[:-1]), _rank_step(path[-1])))


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


def _format_step(step: str) -> str:
    kind, _, text = step.partition(":")
    if kind == "k":
        keys = orjson.loads(text)
        parts = (f"{key}={orjson.dumps(value).decode()}" for key, value in keys.items())
        return f"[{','.join(parts)}]"
    return {"f": f".{text}", "v": f"[={text}]"}.get(kind, f"[{text}]")


@lru_cache(maxsize=4096)
def _rank_step(step: str) -> tuple[Any, ...]:
    """Order by name, then items by their keys (numbers as numbers), then values."""
    kind, _, text = step.partition(":")
    if kind != "k":
        return ("fkvi".find(kind) if kind else -1, text)
    keys = orjson.loads(text)
    values = ((isinstance(value, str), value) for value in keys.values())
    return (1, "", *(part for pair in zip(keys, values, strict=True) for part in pair))


def _rank_path(path: Path) -> tuple[Any, ...]:
    return tuple(map(_rank_step, path))


How = Fields | Keyed | Unordered
#: removed, modified and added fields
Changes = tuple[set[Path], set[Path], set[Path]]
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
    return frozenset(_set_fields(obj, how, ()))


def _set_fields(obj: Any, how: How, above: Path) -> Iterator[Path]:
    kind, is_list = _kind(how), not isinstance(how, Fields)
    for name, value in _parts(obj, how).items():
        path, below = (*above, kind + name), _below(how, name)
        # An empty associative list sets no items.
        if is_list or value != [] or not _is_associative(below):
            inner = list(_set_fields(value, below, path))
            if is_list or not inner:
                yield path
            yield from inner


def comparison(before: Any, after: Any, how: How) -> Comparison:
    """Compare two values; a field on one side only counts with all of its content."""
    found: Changes = (set(), set(), set())
    _compare_parts(before, after, how, (), found)
    return Comparison(*map(frozenset, found))


def without(obj: Any, doomed: FieldSet, how: How) -> Any:
    """Remove the fields with their content; return None if nothing is left."""
    return _prune(obj, doomed, _prefixes(doomed), how, ())


def _prune(obj: Any, doomed: FieldSet, parents: set[Path], how: How, above: Path) -> Any:
    if not isinstance(obj, dict | list):
        return obj
    kind = _kind(how)
    rest = {}
    for name, value in _parts(obj, how).items():
        path = (*above, kind + name)
        if path in parents and path not in doomed:
            rest[name] = _prune(value, doomed, parents, _below(how, name), path)
        elif path not in doomed:
            rest[name] = value
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


def _compare_parts(before: Any, after: Any, how: How, above: Path, found: Changes) -> None:
    removed, modified, added = found
    old, new, kind = _parts(before, how), _parts(after, how), _kind(how)
    for name, value in new.items():
        path, below, was = (*above, kind + name), _below(how, name), old.get(name, _ABSENT)
        if was is _ABSENT:
            added.update(_walk_content(value, below, path))
        elif was is value:
            continue
        elif _is_branch(was, below) or _is_branch(value, below):
            _compare_parts(was, value, below, path, found)
            if not isinstance(value, type(was)) and None not in (was, value):
                modified.add(path)
        elif was != value or isinstance(was, bool) != isinstance(value, bool):
            modified.add(path)
    for name, was in old.items():
        if name not in new:
            removed.update(_walk_content(was, _below(how, name), (*above, kind + name)))


def _walk_content(value: Any, how: How, path: Path) -> Iterator[Path]:
    """Yield the field with all of its content."""
    yield path
    kind = _kind(how)
    for name, part in _parts(value, how).items():
        yield from _walk_content(part, _below(how, name), (*path, kind + name))


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

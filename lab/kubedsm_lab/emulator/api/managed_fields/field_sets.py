"""Sets of fields, in the very form in which managedFields show them (FieldsV1).

A set is a tree of steps: `f:NAME` into an object, `k:{...}` to the item with that key of a list,
`v:VALUE` to a value of a set. A step that leads nowhere further is in the set; one that does is in
it too if there is a `.` below. The empty tree is the empty set. No set is ever changed in place.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import orjson

FieldSet = dict[str, Any]
Path = tuple[str, ...]

SELF = "."
_LEAF: FieldSet = {}


def is_member(node: FieldSet | None) -> bool:
    """Whether the field at which that node is, is in the set itself."""
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
    """The fields of one set that are not in the other, which says nothing of what is below them."""
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
    """The set with every object's field above one that is in it."""
    return {
        step: {SELF: _LEAF, **with_parents(node)} if node and step[0] == "f" else with_parents(node)
        for step, node in fields.items()
    }


def ordered(fields: FieldSet) -> FieldSet:
    """In the order in which it is shown; the other operations keep the order of the left one.

    Equal sets are one and the same then: those of all pods of a ReplicaSet are.
    """
    return _ordered(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))


def paths(fields: FieldSet, above: Path = ()) -> Iterator[Path]:
    """The fields in the set; those right below one before what is further below."""
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
    """As messages name a field: .spec.containers[name="web"].image."""
    return "".join(map(_shown_step, path))


def is_field_set(value: Any) -> bool:
    """Whether what a client sent is one."""
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
def _ordered(text: bytes) -> FieldSet:
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


def _shown_step(step: str) -> str:
    kind, _, text = step.partition(":")
    if kind == "k":
        parts = (f"{key}={_json(value)}" for key, value in orjson.loads(text).items())
        return f"[{','.join(parts)}]"
    return {"f": f".{text}", "v": f"[={text}]"}.get(kind, f"[{text}]")


@lru_cache(maxsize=4096)
def _rank(step: str) -> tuple[Any, ...]:
    """Fields by name, then items by their keys, numbers as numbers, then values."""
    kind, _, text = step.partition(":")
    if kind != "k":
        return ("fkvi".find(kind) if kind else -1, text)
    keys = orjson.loads(text)
    values = ((isinstance(value, str), value) for value in keys.values())
    return (1, "", *(part for pair in zip(keys, values, strict=True) for part in pair))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

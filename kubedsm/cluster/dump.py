"""What `kubectl get nodes,pods -A -o json` printed, as the events that build a mirror.

One malformed object spoils only itself: it is named, with the reason, and the rest is read.
"""

import reprlib
from collections.abc import Iterator
from typing import Any

import attrs
import orjson
import yaml

from kubedsm.cluster import wire
from kubedsm.cluster.wire_errors import WireError
from kubedsm.core.events import ClusterEvent, NodeApplied, PodApplied

#: what a decision is based on; other kinds in a dump are left aside
KINDS = ("Node", "Pod")
#: lists within lists deeper than this are nobody's dump
DEEPEST = 8


class DumpError(ValueError):
    """The text is no dump at all."""


@attrs.frozen(slots=True)
class Malformed:
    """An object that could not be read."""

    kind: str
    #: as kubectl names it: shop/cart-1 for a pod, n2 for a node
    name: str
    reason: str
    scheduler_name: str = ""
    bound: bool = False

    def __str__(self) -> str:
        return self.reason


@attrs.frozen(slots=True)
class Dump:
    events: tuple[ClusterEvent, ...]
    malformed: tuple[Malformed, ...]
    #: remarks for the reader: what is missing, and what was assumed
    remarks: tuple[str, ...]


def read(text: bytes, source: str) -> Dump:
    """Read a dump: JSON, or YAML if it is not JSON.

    Raises DumpError with one line that names `source`.
    """
    events: dict[tuple[str, str], ClusterEvent] = {}
    malformed: list[Malformed] = []
    remarks: list[str] = []
    seen: set[str] = set()
    for item in _items(_parsed(text, source), source):
        kind = item.get("kind") if isinstance(item, dict) else None
        if not isinstance(kind, str):
            malformed.append(
                Malformed("", "", f"an item is no Kubernetes object: {reprlib.repr(item)}")
            )
            continue
        seen.add(kind)
        if kind not in KINDS:
            continue
        read_item = _read_node if kind == "Node" else _read_pod
        try:
            event = read_item(item)
        except WireError as error:
            malformed.append(_malformed(kind, item, str(error)))
            continue
        name = _name(item)
        if (kind, name) in events:
            remarks.append(f"{kind} {name} is there twice: the last one counts")
        events[kind, name] = event
    remarks += [
        f"no {kind} in {source}: assumed that there is none" for kind in KINDS if kind not in seen
    ]
    return Dump(tuple(events.values()), tuple(malformed), tuple(remarks))


def _parsed(text: bytes, source: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = _parsed_yaml(text)
        if isinstance(value, dict | list):
            return value
        raise DumpError(f"{source}: neither JSON nor YAML of Kubernetes objects: {error}") from None


def _parsed_yaml(text: bytes) -> Any:
    """What JSON could say as well; None for anything else."""
    try:
        # Not the C loader: deep nesting is its, and the process's, end.
        value = yaml.load(text, Loader=yaml.SafeLoader)
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
    # KeyError and AttributeError come from PyYAML's constructors, for scalars unlike their tag;
    # TypeError from orjson, for what JSON cannot say.
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _items(value: Any, source: str, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, list):
        value = {"items": value}
    if not isinstance(value, dict):
        raise DumpError(
            f"{source}: {reprlib.repr(value)} is no Kubernetes object, nor a list of them"
        )
    if "items" not in value:
        if "kind" not in value:
            raise DumpError(f"{source}: no Kubernetes object, for it has neither kind nor items")
        yield value
        return
    items = value["items"]
    if items is None:
        return
    if not isinstance(items, list):
        raise DumpError(f"{source}: items is {reprlib.repr(items)} where a list should be")
    # A PodList's items need not say that they are Pods.
    kind = value.get("kind")
    kind = kind.removesuffix("List") if isinstance(kind, str) else ""
    for item in items:
        if isinstance(item, dict) and isinstance(item.get("items"), list) and depth < DEEPEST:
            yield from _items(item, source, depth + 1)
        elif isinstance(item, dict) and "kind" not in item and kind:
            yield {**item, "kind": kind}
        else:
            yield item


def _read_node(item: dict[str, Any]) -> NodeApplied:
    return NodeApplied(wire.node(item))


def _read_pod(item: dict[str, Any]) -> PodApplied:
    # A manifest has neither; whoever writes one by hand means what kubectl would make of it.
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        given = {key: value for key, value in metadata.items() if value is not None}
        namespace = given.setdefault("namespace", "default")
        given.setdefault("uid", f"{namespace}/{given.get('name')}")
        item = {**item, "metadata": given}
    return PodApplied(wire.pod(item))


def _malformed(kind: str, item: dict[str, Any], reason: str) -> Malformed:
    spec = item.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    return Malformed(
        kind, _name(item), reason, str(spec.get("schedulerName", "")), bool(spec.get("nodeName"))
    )


def _name(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name", "?"))
    return (
        name if item.get("kind") == "Node" else f"{metadata.get('namespace') or 'default'}/{name}"
    )

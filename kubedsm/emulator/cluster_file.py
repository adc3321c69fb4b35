"""Which nodes an emulated cluster has: read from a file, YAML or JSON.

Either Node objects, as `kubectl get nodes -o yaml` prints them (one, a List, or several
documents), or the short form

    nodes:
    - {name: e1, tier: edge, cpu: 4, memory: 4Gi}

with `pods` (110), `labels` and `taints` where wanted.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from kubedsm.clock import SystemClock
from kubedsm.core.world.quantities import QuantityError, millis
from kubedsm.emulator.api.api_server import ApiServer
from kubedsm.emulator.api.errors import ApiError
from kubedsm.emulator.api.resources import NODES, Object
from kubedsm.emulator.emulated_cluster import ClusterSpec
from kubedsm.emulator.paper import node, paper_cluster

__all__ = ["ClusterFileError", "load", "paper_cluster"]

_TIERS = ("edge", "cloud")
_TIER_LABELS = ("kubedsm.io/tier", "nodetype")
#: what a server sets, and another server must set anew
_SERVER_SET = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
)


class ClusterFileError(ValueError):
    """The file does not describe a cluster: one line with the file, the place and the reason."""


class _Taint(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""
    time_added: str = ""


class _ShortNode(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cpu: str | int | float
    memory: str | int | float
    tier: Literal["edge", "cloud"] | None = None
    pods: int = 110
    labels: dict[str, str] = {}
    taints: list[_Taint] = []


class _ShortForm(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_ShortNode]


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    taints: list[_Taint] | None = None
    unschedulable: bool = False


class _Status(msgspec.Struct):
    capacity: dict[str, str | int | float] | None = None
    allocatable: dict[str, str | int | float] | None = None


class _NodeObject(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What of a Node object is looked at; the rest of it is passed on as it is."""

    kind: str
    metadata: _Metadata
    status: _Status
    api_version: Literal["v1"] = "v1"
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Mistake(Exception):
    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)


def load(path: str | Path) -> ClusterSpec:
    """The cluster that the file describes. Raises ClusterFileError."""
    try:
        placed = list(_nodes(Path(path)))
        _check_names([one["metadata"]["name"] for _, one in placed])
        _check_with_api_server(placed)
    except _Mistake as mistake:
        raise ClusterFileError(f"{path}: {mistake}") from None
    return ClusterSpec(tuple(one for _, one in placed))


def _check_names(names: list[str]) -> None:
    if not names:
        raise _Mistake("", "no node in it")
    for name in names:
        if names.count(name) > 1:
            raise _Mistake("", f"two nodes are called {name!r}")


def _check_with_api_server(placed: list[tuple[str, Object]]) -> None:
    """What the emulated API server would refuse is refused now: names, labels, taints."""
    api = ApiServer(SystemClock(), random.Random(0))
    for place, one in placed:
        try:
            api.create(NODES, one, dry_run=True)
        except ApiError as error:
            causes = (error.details or {}).get("causes") or ()
            reasons = [f"{cause['field']}: {cause['message']}" for cause in causes]
            raise _Mistake(place, "; ".join(reasons) or error.message) from None


def _nodes(path: Path) -> Iterator[tuple[str, Object]]:
    """Each node with its place in the file."""
    documents = _documents(path)
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _of_document(document, f"document {number}" if len(documents) > 1 else "")


def _documents(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _Mistake("", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _Mistake("", "not UTF-8 text") from None
    try:
        # YAML takes nearly all of JSON, but not its tabs.
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    try:
        return list(yaml.safe_load_all(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _Mistake(place, f"not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise _Mistake("", f"not YAML: {' '.join(str(error).split())}") from None


def _of_document(document: Any, place: str) -> Iterator[tuple[str, Object]]:
    if not isinstance(document, dict):
        raise _Mistake(place, "neither Node objects nor `nodes:`")
    if "kind" not in document:
        short = _converted(document, _ShortForm, place)
        for index, entry in enumerate(short.nodes):
            step = _join(place, f"nodes[{index}]")
            yield step, _long(entry, step)
    elif document["kind"] in ("List", "NodeList"):
        items = document.get("items")
        if not isinstance(items, list):
            raise _Mistake(_join(place, "items"), "not a list")
        for index, item in enumerate(items):
            step = _join(place, f"items[{index}]")
            yield step, _checked(item, step)
    else:
        yield place, _checked(document, place)


def _join(place: str, step: str) -> str:
    return f"{place}, {step}" if place.startswith("document") else f"{place}.{step}".lstrip(".")


def _converted(value: Any, shape: Any, place: str) -> Any:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at ")
        step = path.strip("`").removeprefix("$").lstrip(".")
        raise _Mistake(_join(place, step) if step else place, _lower_first(reason)) from None


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _long(entry: _ShortNode, place: str) -> Object:
    _check_amount("cpu", entry.cpu, place)
    _check_amount("memory", entry.memory, place)
    _check_amount("pods", entry.pods, place)
    made = node(entry.name, entry.tier or "", str(entry.cpu), str(entry.memory), entry.pods)
    made["metadata"]["labels"] |= entry.labels
    _check_tier(made["metadata"]["labels"], place)
    if entry.taints:
        made["spec"]["taints"] = [msgspec.to_builtins(taint) for taint in entry.taints]
    return made


def _checked(item: Any, place: str) -> Object:
    """A Node object as it may be created: without what a server sets, with what it must have."""
    if isinstance(item, dict) and item.get("kind", "Node") != "Node":
        raise _Mistake(place, f"kind {item['kind']!r} is not a Node")
    # The items of a NodeList leave out their kind.
    entry = _converted(
        {"kind": "Node", **item} if isinstance(item, dict) else item, _NodeObject, place
    )
    _check_tier(entry.metadata.labels or {}, place)
    amounts = entry.status.allocatable or entry.status.capacity or {}
    for field in ("capacity", "allocatable"):
        for name, amount in (getattr(entry.status, field) or {}).items():
            _check_amount(f"status.{field}.{name}", amount, place)
    for name in ("cpu", "memory"):
        if name not in amounts:
            raise _Mistake(place, f"status.allocatable has no {name}")
    metadata = {name: v for name, v in item["metadata"].items() if name not in _SERVER_SET}
    texts = {name: str(amount) for name, amount in amounts.items()}
    return {
        **item,
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": item.get("spec") or {},
        "status": {
            "capacity": texts,
            **item["status"],
            "allocatable": {"pods": "110", **texts},
        },
    }


def _check_tier(labels: dict[str, str], place: str) -> None:
    for label in _TIER_LABELS:
        tier = labels.get(label)
        if tier is not None and tier not in _TIERS:
            raise _Mistake(place, f"unknown tier {tier!r} in label {label}: edge or cloud")


def _check_amount(field: str, amount: str | float, place: str) -> None:
    try:
        millis(amount)
    except QuantityError as error:
        raise _Mistake(_join(place, field), str(error)) from None

"""Nodes of an emulated cluster, read from a YAML or JSON file.

The file has Node objects, as `kubectl get nodes -o yaml` prints them (one, a List, or several
documents), or the short form

    nodes:
    - {name: e1, tier: edge, cpu: 4, memory: 4Gi}

with optional `pods` (110), `labels` and `taints`.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from kubedsm.config.documents import (
    CLUSTER,
    DUMP,
    DocumentError,
    at,
    content,
    reading,
    refuse_others,
)
from kubedsm.config.fields import choice
from kubedsm.config.yaml_text import parse_all_yaml
from kubedsm.model.quantities import QuantityError, parse_millis
from kubedsm.process.clock import SystemClock
from kubedsm_lab.documents import convert_to
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import NODES, Object, Resource
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node

Place = tuple[str, ...]

_TIERS = ("edge", "cloud")
_TIER_LABELS = ("kubedsm.io/tier", "nodetype")
#: metadata of a server, which another server sets again
_SERVER_SET = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
)


class _Taint(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""
    time_added: str = ""


class _ShortNode(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cpu: str | int | float
    memory: str | int | float
    tier: str | None = None
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
    """Fields of a Node object that are checked; other fields are passed on."""

    kind: str
    metadata: _Metadata
    status: _Status
    api_version: Literal["v1"] = "v1"
    spec: _Spec = msgspec.field(default_factory=_Spec)


def load(path: str | Path) -> ClusterSpec:
    """Read the nodes of an emulated cluster from a YAML or JSON file. Raises DocumentError."""
    with reading(path):
        placed = list(_list_nodes(content(path)))
        if not placed:
            raise DocumentError("no node in it")
        names = Counter(one["metadata"]["name"] for _, one in placed)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise DocumentError(f"two nodes are called {name!r}")
        check_creatable((place, NODES, one, "") for place, one in placed)
    return ClusterSpec(tuple(one for _, one in placed))


def check_creatable(objects: Iterable[tuple[Place, Resource, Object, str]]) -> None:
    """Check that the emulated API server accepts the objects (dry run). Raises DocumentError."""
    api = ApiServer(SystemClock(), random.Random(0))
    for place, resource, one, namespace in objects:
        try:
            api.create(resource, one, namespace=namespace, dry_run=True)
        except ApiError as error:
            causes = (error.details or {}).get("causes") or ()
            reasons = [f"{cause['field']}: {cause['message']}" for cause in causes]
            raise DocumentError("; ".join(reasons) or error.message, place) from None


def _list_nodes(text: bytes) -> Iterator[tuple[Place, Object]]:
    """Yield each node of the document with its location in the file."""
    documents = _parse_documents(text)
    for number, document in enumerate(documents, start=1):
        if document is not None:
            place = (f"document {number}",) if len(documents) > 1 else ()
            with at(*place):
                for step, one in _of_document(document):
                    yield (*place, *step), one


def _parse_documents(text: bytes) -> list[Any]:
    try:
        # YAML accepts nearly all JSON, but not its tabs.
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, UnicodeError):
        return parse_all_yaml(text)


def _of_document(document: Any) -> Iterator[tuple[Place, Object]]:
    if not isinstance(document, dict):
        raise DocumentError("neither Node objects nor `nodes:`")
    refuse_others(document, CLUSTER, also=(DUMP, "a Node"))
    if "kind" not in document:
        for index, entry in enumerate(convert_to(document, _ShortForm).nodes):
            with at(f"nodes[{index}]"):
                yield (f"nodes[{index}]",), _expand_node(entry)
    elif document["kind"] in ("List", "NodeList"):
        items = document.get("items")
        if not isinstance(items, list):
            raise DocumentError("not a list", ("items",))
        for index, item in enumerate(items):
            with at(f"items[{index}]"):
                yield (f"items[{index}]",), _check_node(item)
    else:
        yield (), _check_node(document)


def _expand_node(entry: _ShortNode) -> Object:
    for field, amount in (("cpu", entry.cpu), ("memory", entry.memory), ("pods", entry.pods)):
        _check_amount(field, amount)
    if entry.tier is not None:
        with at("tier"):
            choice(*_TIERS).check(entry.tier)
    made = node(entry.name, entry.tier or "", str(entry.cpu), str(entry.memory), entry.pods)
    made["metadata"]["labels"] |= entry.labels
    _check_tier(made["metadata"]["labels"])
    if entry.taints:
        made["spec"]["taints"] = [msgspec.to_builtins(taint) for taint in entry.taints]
    return made


def _check_node(item: Any) -> Object:
    """Return a Node ready for creation: without server-side metadata, with mandatory fields."""
    if isinstance(item, dict) and item.get("kind", "Node") != "Node":
        raise DocumentError(f"kind {item['kind']!r} is not a Node")
    # Items of a NodeList have no kind.
    entry = convert_to({"kind": "Node", **item} if isinstance(item, dict) else item, _NodeObject)
    _check_tier(entry.metadata.labels or {})
    amounts = entry.status.allocatable or entry.status.capacity or {}
    for field in ("capacity", "allocatable"):
        for name, amount in (getattr(entry.status, field) or {}).items():
            _check_amount(f"status.{field}.{name}", amount)
    for name in ("cpu", "memory"):
        if name not in amounts:
            raise DocumentError(f"status.allocatable has no {name}")
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


def _check_tier(labels: dict[str, str]) -> None:
    for label in _TIER_LABELS:
        tier = labels.get(label)
        if tier is not None and tier not in _TIERS:
            raise DocumentError(f"unknown tier {tier!r} in label {label}: edge or cloud")


def _check_amount(field: str, amount: str | float) -> None:
    try:
        parse_millis(amount)
    except QuantityError as error:
        raise DocumentError(str(error), (field,)) from None

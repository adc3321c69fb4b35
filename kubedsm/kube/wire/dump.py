"""Cluster dump from `kubectl get nodes,pods,... -A -o json`, as events for a mirror.

Malformed objects are reported with name and reason, and skipped.
"""

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import orjson

from kubedsm.config.documents import DUMP, DocumentError, reading, refuse_others
from kubedsm.config.yaml_text import parse_all_yaml
from kubedsm.kube.wire.decoding import NODES, PODS, SURROUNDINGS, Watched
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.events import (
    ClusterEvent,
    KindKnown,
    NodeApplied,
    PodApplied,
    SurroundingApplied,
)
from kubedsm.model.model import SchedulingRules
from kubedsm.model.surroundings import NAMESPACE_NAME_LABEL, Claim

AS_IT_SHOULD_BE = "make it with `kubectl get nodes,pods -A -o json > dump.json`"
#: kinds present in practically every cluster
EXPECTED = ("Node", "Pod")
_WATCHED: tuple[Watched[Any, ClusterEvent], ...] = (NODES, PODS, *SURROUNDINGS.values())
_KINDS = {watched.kind: watched for watched in _WATCHED}
#: possible leading bytes of JSON, including a byte order mark
_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf"
#: maximum depth of nested lists
DEEPEST = 8


@attrs.frozen(slots=True)
class Malformed:
    """Object of a dump that cannot be decoded, with name and reason."""

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
    #: remarks about missing kinds and assumptions
    remarks: tuple[str, ...]

    @property
    def lacking(self) -> str:
        """Describe why the dump is insufficient for any decision: no readable nodes or pods; else
        empty.
        """
        for kind, applied in (("Node", NodeApplied), ("Pod", PodApplied)):
            if any(isinstance(event, applied) for event in self.events):
                continue
            broken = [each for each in self.malformed if each.kind == kind]
            if broken:
                first = f"the first of {len(broken)}: {broken[0]}" if broken[1:] else str(broken[0])
                return f"no {kind} in it can be read ({first}); {AS_IT_SHOULD_BE}"
            if kind == "Node":
                return f"no Node in it; {AS_IT_SHOULD_BE}"
        return ""


def read(text: bytes, source: str) -> Dump:
    """Parse a cluster dump in JSON or YAML to mirror events.

    Raises DocumentError with one line, including `source`.
    """
    with reading(source):
        said = _parse_text(text)
        refuse_others(said, DUMP, also=(f"a {kind}" for kind in _KINDS))
    return of_objects(said, source)


def of_objects(said: Any, source: str) -> Dump:
    """Convert already parsed API objects of a cluster dump to events for a cluster mirror.

    Raises DocumentError.
    """
    events: dict[tuple[str, str], ClusterEvent] = {}
    malformed: list[Malformed] = []
    remarks: list[str] = []
    seen: set[str] = set()
    with reading(source):
        items = list(_list_items(said))
    for item in items:
        kind = item.get("kind") if isinstance(item, dict) else None
        if not isinstance(kind, str):
            malformed.append(
                Malformed("", "", f"an item is not a Kubernetes object: {reprlib.repr(item)}")
            )
            continue
        seen.add(kind)
        watched = _KINDS.get(kind)
        if watched is None:
            continue
        try:
            given = _with_namespace(item) if watched.namespaced else item
            event = watched.applied(watched.reader.value(given))
        except WireError as error:
            malformed.append(_report_malformed(kind, item, str(error)))
            continue
        name = _name_of(item)
        if (kind, name) in events:
            remarks.append(f"{kind} {name} is there twice: the last one counts")
        events[kind, name] = event
    remarks += [
        f"no {kind} in {source}: assumed that there is none"
        for kind in EXPECTED
        if kind not in seen
    ]
    things = [e.thing for e in events.values() if isinstance(e, SurroundingApplied)]
    if "StorageClass" in seen and not any(isinstance(t, Claim) and t.volume for t in things):
        seen.add("PersistentVolume")  # none exists: kubectl prints nothing of an empty list
    rules = {e.pod.pod_class.rules for e in events.values() if isinstance(e, PodApplied)}
    remarks += [f"no {kind} in {source}: {what}" for kind, what in _list_assumptions(rules, seen)]
    if "PersistentVolumeClaim" not in seen:
        mounted = {key for each in rules for key in each.claim_keys}
        bound = (Claim(namespace, name, bound=True) for namespace, name in sorted(mounted))
        events |= {("PersistentVolumeClaim", str(of)): SurroundingApplied(of) for of in bound}
    known = (KindKnown(of) for of, watched in SURROUNDINGS.items() if watched.kind in seen)
    return Dump((*known, *events.values()), tuple(malformed), tuple(remarks))


def _list_assumptions(
    rules: Iterable[SchedulingRules], seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield kinds absent from the dump that pods' scheduling rules reference, with the assumption
    made.
    """
    mounts = looks_at_namespaces = False
    for each in rules:
        mounts = mounts or bool(each.claims)
        looks_at_namespaces = looks_at_namespaces or any(
            requirement.key != NAMESPACE_NAME_LABEL
            for term in (*each.affinity, *each.anti_affinity)
            for requirement in term.namespace_selector or ()
        )
    if looks_at_namespaces and "Namespace" not in seen:
        yield "Namespace", "assumed that none has a label but its name"
    if not mounts:
        return
    if "PersistentVolumeClaim" not in seen:
        yield "PersistentVolumeClaim", "assumed that all are bound, to volumes every node reaches"
    elif "PersistentVolume" not in seen:
        yield "PersistentVolume", "assumed that every node reaches every volume"
    else:
        if "StorageClass" not in seen:
            yield "StorageClass", "pods with unbound claims fit nowhere"
        if "CSINode" not in seen:
            yield "CSINode", "assumed that every node takes any number of volumes"


def _parse_text(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not text.strip():
            raise DocumentError("empty") from None
        return _parse_yaml(text, error)


def _begins_as_json(text: bytes) -> bool:
    return text.lstrip(_BEFORE_JSON)[:1] in (b"{", b"[")


def _parse_yaml(text: bytes, no_json: orjson.JSONDecodeError) -> Any:
    """Parse YAML into JSON values."""
    try:
        said = [each for each in parse_all_yaml(text) if each is not None]
    except DocumentError:
        if not _begins_as_json(text):
            raise
        where = f"line {no_json.lineno}, column {no_json.colno}"
        raise DocumentError(f"not JSON: {no_json.msg}, {where}") from None
    try:
        read: list[Any] = orjson.loads(orjson.dumps(said))
    except TypeError as error:
        raise DocumentError(f"not JSON in YAML: {error}") from None
    return read[0] if len(read) == 1 else read


def _list_items(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, list):
        value = {"items": value}
    if not isinstance(value, dict):
        raise DocumentError(
            f"neither a Kubernetes object nor a list of them: {reprlib.repr(value)}"
        )
    if "items" not in value:
        if "kind" not in value:
            raise DocumentError("not a Kubernetes object: it has neither kind nor items")
        yield value
        return
    items = value["items"]
    if items is None:
        return
    if not isinstance(items, list):
        raise DocumentError(f"items is {reprlib.repr(items)} where a list should be")
    # Items of a PodList may omit the kind.
    kind = value.get("kind")
    kind = kind.removesuffix("List") if isinstance(kind, str) else ""
    for item in items:
        if isinstance(item, dict) and isinstance(item.get("items"), list) and depth < DEEPEST:
            yield from _list_items(item, depth + 1)
        elif isinstance(item, dict) and "kind" not in item and kind:
            yield {**item, "kind": kind}
        else:
            yield item


def _with_namespace(item: dict[str, Any]) -> dict[str, Any]:
    # Manifests have neither namespace nor uid: defaults as in kubectl.
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        given = {key: value for key, value in metadata.items() if value is not None}
        namespace = given.setdefault("namespace", "default")
        given.setdefault("uid", f"{namespace}/{given.get('name')}")
        item = {**item, "metadata": given}
    return item


def _report_malformed(kind: str, item: dict[str, Any], reason: str) -> Malformed:
    spec = item.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    return Malformed(
        kind, _name_of(item), reason, str(spec.get("schedulerName", "")), bool(spec.get("nodeName"))
    )


def _name_of(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name", "?"))
    if not _KINDS[item["kind"]].namespaced:
        return name
    return f"{metadata.get('namespace') or 'default'}/{name}"

"""Comparison of API responses with recorded ones, restricted to stable fields."""

import re
from typing import Any

from support.correspondence import GENERATED, Correspondence, pair
from support.transcripts import is_list, objects_of

Object = dict[str, Any]

_MISSING = "(absent)"
#: a server sets these, whatever a request says
_SERVER_SET = {"uid", "resourceVersion", "creationTimestamp"}

#: their words name what is missing, and users read them
_REFUSALS = (401, 403)
#: of an answer that is no stored object, what differs from run to run
_MOMENTS = {"creationTimestamp", "expirationTimestamp"}


def object_view(obj: Object) -> Object:
    """Return the compared fields of an object: identity, owners, node, counts and state."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    counts = {
        key: value
        for key, value in status.items()
        if isinstance(value, int) and key != "observedGeneration"
    }
    conditions = sorted(
        (c["type"], c["status"], c.get("reason", "")) for c in status.get("conditions") or ()
    )
    return {
        "kind": (obj.get("apiVersion"), obj.get("kind")),
        "name": metadata.get("name"),
        "generateName": metadata.get("generateName"),
        "namespace": metadata.get("namespace"),
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "ownerReferences": metadata.get("ownerReferences") or [],
        "deleting": "deletionTimestamp" in metadata,
        "spec.nodeName": spec.get("nodeName"),
        "spec.replicas": spec.get("replicas"),
        "status.phase": status.get("phase"),
        "status.conditions": conditions,
        "status.counts": counts,
        "status.selector": status.get("selector"),
        "status.hard": status.get("hard"),
        "status.used": status.get("used"),
    }


def status_view(status: Object) -> Object:
    """Return the compared fields of a Status."""
    details = status.get("details") or {}
    refused = status.get("code") in _REFUSALS
    return {
        "message": status.get("message") if refused else "",
        "status": status.get("status"),
        "reason": status.get("reason"),
        "code": status.get("code"),
        "details": {key: details.get(key) for key in ("name", "group", "kind")},
        "causes": [(c.get("reason"), c.get("field")) for c in details.get("causes") or ()],
    }


def differing(label: str, expected: Object, got: Object) -> list[str]:
    return [
        f"{label} {key}: recorded {expected[key]!r}, got {got.get(key)!r}"
        for key in expected
        if expected[key] != got.get(key)
    ]


def compare(recorded: Any, ours: Any, body: Any, known: Correspondence) -> list[str]:
    """Return the differences of our response from the recorded one; update `known`.

    `body` is the recorded request's: every field that it set is compared too.
    """
    if isinstance(recorded, str) or isinstance(ours, str):
        return [] if recorded == ours else [f"text: recorded {recorded!r}, got {ours!r}"]
    if recorded.get("kind") != ours.get("kind"):
        return [f"kind: recorded {recorded.get('kind')}, got {ours.get('kind')}: {ours}"]
    if recorded.get("kind") == "Status":
        return differing("Status", status_view(known.translate(recorded)), status_view(ours))
    if is_list(recorded):
        return _compare_lists(recorded, ours, known)
    if "major" in recorded or recorded["kind"].startswith("API"):
        return compare_discovery(recorded, ours)
    if "resourceVersion" not in recorded["metadata"]:
        return _compare_answers(recorded, ours, known)
    known.learn(recorded, ours)
    differences = compare_objects(recorded, ours, known)
    if body is not None:
        differences += _fields_set(body, known.translate(recorded), ours, ())
    return differences


def _compare_answers(recorded: Object, ours: Object, known: Correspondence) -> list[str]:
    """Return the differences of objects that are not stored: access reviews, tokens."""
    token, own_token = ((of.get("status") or {}).get("token") for of in (recorded, ours))
    if token and own_token:
        known.learn_word(token, own_token)
    expected, got = _lasting(known.translate(recorded)), _lasting(ours)
    return differing(recorded["kind"], expected | dict.fromkeys(got.keys() - expected), got)


def _lasting(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: key if key in _MOMENTS else _lasting(of) for key, of in value.items()}


def compare_objects(recorded: Object, ours: Object, known: Correspondence) -> list[str]:
    """Return the differences between a recorded object and its counterpart of this run."""
    metadata = ours["metadata"]
    name = metadata.get("name", "")
    differences = differing(name, object_view(known.translate(recorded)), object_view(ours))
    if "generateName" in metadata and "generateName" in recorded["metadata"]:
        suffix = name.removeprefix(metadata["generateName"])
        theirs = recorded["metadata"]["name"].removeprefix(recorded["metadata"]["generateName"])
        # the pods of a StatefulSet have ordinals, others a generated suffix
        pattern = theirs if theirs.isdigit() else f"[{GENERATED}]{{5}}"
        if not re.fullmatch(pattern, suffix):
            differences.append(f"{name}: the name's generated part should match {pattern}")
    return differences


def _compare_lists(recorded: Object, ours: Object, known: Correspondence) -> list[str]:
    theirs, own = objects_of(recorded), objects_of(ours)
    known.versions.setdefault(
        recorded["metadata"]["resourceVersion"], ours["metadata"]["resourceVersion"]
    )
    token, own_token = (document["metadata"].get("continue") for document in (recorded, ours))
    if token and own_token:
        known.learn_word(token, own_token)
    differences = []
    if bool(token) != bool(own_token):
        differences.append(f"continue: recorded {token!r}, got {own_token!r}")
    remaining = [d["metadata"].get("remainingItemCount") for d in (recorded, ours)]
    if remaining[0] != remaining[1]:
        differences.append(f"remainingItemCount: recorded {remaining[0]}, got {remaining[1]}")
    if len(theirs) != len(own):
        names = [obj["metadata"]["name"] for obj in own]
        differences.append(f"items: recorded {len(theirs)}, got {len(own)}: {names}")
    pairs = pair(theirs, own, known)
    for obj, partner in pairs:
        known.learn(obj, partner)
    if len(pairs) < len(theirs):
        differences.append(f"items: only {len(pairs)} of {len(theirs)} were recognised")
    for obj, partner in pairs:
        differences += compare_objects(obj, partner, known)
    return differences


def compare_discovery(recorded: Object, ours: Object) -> list[str]:
    """Return the differences of discovery documents: listed entries must equal recorded ones.

    Fewer entries are allowed, but not an empty list.
    """
    if "major" in recorded:
        return differing("version", recorded, ours)
    if recorded["kind"] == "APIVersions":
        return differing("versions", {"versions": recorded["versions"]}, ours)
    key = "groups" if recorded["kind"] == "APIGroupList" else "resources"
    expected = {entry["name"]: entry for entry in recorded[key]}
    differences = [] if ours.get(key) else [f"{key}: nothing is listed"]
    for entry in ours.get(key, ()):
        name = entry["name"]
        like = dict(expected.get(name, {}))
        if "versions" in like:
            # of a group's versions, too, fewer may be listed
            like["versions"] = [v for v in like["versions"] if v in entry["versions"]]
        if entry != like:
            differences.append(f"{name}: recorded {like}, got {entry}")
    rest = {k: recorded.get(k) for k in ("kind", "apiVersion", "groupVersion")}
    return differences + differing("document", rest, ours)


def _fields_set(body: Any, recorded: Any, ours: Any, path: tuple[Any, ...]) -> list[str]:
    """Return the differences in fields that the request set."""
    if isinstance(body, dict) and isinstance(recorded, dict) and isinstance(ours, dict):
        return [
            difference
            for key in body
            if key not in _SERVER_SET
            for difference in _fields_set(
                body[key], recorded.get(key, _MISSING), ours.get(key, _MISSING), (*path, key)
            )
        ]
    if isinstance(body, list) and isinstance(recorded, list) and isinstance(ours, list):
        if len(recorded) != len(ours):
            return [f"{_dotted(path)}: recorded {recorded!r}, got {ours!r}"]
        return [
            difference
            for index, item in enumerate(body[: len(recorded)])
            for difference in _fields_set(item, recorded[index], ours[index], (*path, index))
        ]
    if recorded != ours:
        return [f"{_dotted(path)}: recorded {recorded!r}, got {ours!r}"]
    return []


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(step) for step in path)

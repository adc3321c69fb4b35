"""Comparison of API responses and watches with recorded ones, restricted to stable fields."""

import re

from support.transcripts import GENERATED, is_list, objects_of, pair

_MISSING = "(absent)"
#: a server sets these, whatever a request says
_SERVER_SET = {"uid", "resourceVersion", "creationTimestamp"}
#: their words name what is missing, and users read them
_REFUSALS = (401, 403)
#: of an answer that is no stored object, what differs from run to run
_MOMENTS = {"creationTimestamp", "expirationTimestamp"}
#: compared as they are: identity, owners, node, counts and state
_COMPARED = {
    "metadata": ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences"),
    "spec": ("nodeName", "replicas"),
    "status": ("phase", "selector", "hard", "used"),
}


def object_view(obj):
    """Return the compared fields of an object; empty lists and maps count as absent."""
    view = {"kind": (obj.get("apiVersion"), obj.get("kind"))}
    view["deleting"] = "deletionTimestamp" in obj["metadata"]
    for part, keys in _COMPARED.items():
        fields = {f"{part}.{key}": (obj.get(part) or {}).get(key) for key in keys}
        view |= {key: None if value in ({}, []) else value for key, value in fields.items()}
    status = obj.get("status") or {}
    counts = {key: value for key, value in status.items() if isinstance(value, int)}
    view["counts"] = {key: counts[key] for key in counts if key != "observedGeneration"}
    conditions = status.get("conditions") or ()
    view["conditions"] = sorted((c["type"], c["status"], c.get("reason", "")) for c in conditions)
    return view


def status_view(status):
    """Return the compared fields of a Status."""
    details = status.get("details") or {}
    return {
        "message": status.get("message") if status.get("code") in _REFUSALS else "",
        **{key: status.get(key) for key in ("status", "reason", "code")},
        "details": {key: details.get(key) for key in ("name", "group", "kind")},
        "causes": [(c.get("reason"), c.get("field")) for c in details.get("causes") or ()],
    }


def differing(label, expected, got):
    return [
        f"{label} {key}: recorded {expected[key]!r}, got {got.get(key)!r}"
        for key in expected
        if expected[key] != got.get(key)
    ]


def compare(recorded, ours, body, known):
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
        differences += _fields_set(body, known.translate(recorded), ours)
    return differences


def _compare_answers(recorded, ours, known):
    """Return the differences of objects that are not stored: access reviews, tokens."""
    known.learn_word(*((of.get("status") or {}).get("token") for of in (recorded, ours)))
    expected, got = _lasting(known.translate(recorded)), _lasting(ours)
    return differing(recorded["kind"], expected | dict.fromkeys(got.keys() - expected), got)


def _lasting(value):
    if not isinstance(value, dict):
        return value
    return {key: key if key in _MOMENTS else _lasting(of) for key, of in value.items()}


def compare_objects(recorded, ours, known):
    """Return the differences between a recorded object and its counterpart of this run."""
    metadata, theirs = ours["metadata"], recorded["metadata"]
    name = metadata.get("name", "")
    differences = differing(name, object_view(known.translate(recorded)), object_view(ours))
    if "generateName" in metadata and "generateName" in theirs:
        suffix = theirs["name"].removeprefix(theirs["generateName"])
        # the pods of a StatefulSet have ordinals, others a generated suffix
        pattern = suffix if suffix.isdigit() else f"[{GENERATED}]{{5}}"
        if not re.fullmatch(pattern, name.removeprefix(metadata["generateName"])):
            differences.append(f"{name}: the name's generated part should match {pattern}")
    return differences


def _compare_lists(recorded, ours, known):
    (theirs, head), (own, our_head) = ((objects_of(d), d["metadata"]) for d in (recorded, ours))
    known.versions.setdefault(head["resourceVersion"], our_head["resourceVersion"])
    known.learn_word(head.get("continue"), our_head.get("continue"))
    counts = (
        {
            "items": len(of),
            "continued": bool(at.get("continue")),
            "left": at.get("remainingItemCount"),
        }
        for of, at in ((theirs, head), (own, our_head))
    )
    differences = differing(str([obj["metadata"]["name"] for obj in own]), *counts)
    pairs = pair(theirs, own, known)
    for obj, partner in pairs:
        known.learn(obj, partner)
    if len(pairs) < len(theirs):
        differences.append(f"items: only {len(pairs)} of {len(theirs)} were recognised")
    for obj, partner in pairs:
        differences += compare_objects(obj, partner, known)
    return differences


def compare_discovery(recorded, ours):
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
        like = dict(expected.get(entry["name"], {}))
        if "versions" in like:
            # of a group's versions, too, fewer may be listed
            like["versions"] = [v for v in like["versions"] if v in entry["versions"]]
        if entry != like:
            differences.append(f"{entry['name']}: recorded {like}, got {entry}")
    rest = {k: recorded.get(k) for k in ("kind", "apiVersion", "groupVersion")}
    return differences + differing("document", rest, ours)


def _fields_set(body, recorded, ours, path=""):
    """Return the differences in fields that the request set."""
    of = body, recorded, ours
    if all(isinstance(each, list) for each in of) and len(recorded) == len(ours):
        of = [dict(enumerate(each)) for each in (body[: len(recorded)], recorded, ours)]
    if all(isinstance(each, dict) for each in of):
        return [
            difference
            for key in of[0]
            if key not in _SERVER_SET
            for difference in _fields_set(
                *(each.get(key, _MISSING) for each in of), f"{path}.{key}"
            )
        ]
    return [] if recorded == ours else [f"{path}: recorded {recorded!r}, got {ours!r}"]


def compare_watches(recorded, ours, known):
    """Return the differences of two watch streams; update `known` with learnt identifiers."""
    differences = []
    for kind, view in (("ERROR", status_view), ("BOOKMARK", _marks)):
        said, got = (
            [view(e["object"]) for e in es if e["type"] == kind] for es in (recorded, ours)
        )
        # a server may send bookmarks whenever it likes; the one that ends the initial events counts
        if said != got and (said or kind == "ERROR"):
            differences.append(f"{kind}: recorded {said}, got {got}")
    theirs, own = _steps_by_object(recorded), _steps_by_object(ours)
    firsts = pair(*([steps[0][1] for steps in of.values()] for of in (theirs, own)), known)
    for obj, partner in firsts:
        known.learn(obj, partner)
    partners = {obj["metadata"]["name"]: other["metadata"]["name"] for obj, other in firsts}
    extra = own.keys() - partners.values()
    differences += [f"{name}: not in the recording: {_types(own[name])}" for name in extra]
    for name, steps in theirs.items():
        our_steps = own.get(partners.get(name), [])
        if _types(steps) != _types(our_steps):
            differences.append(f"{name}: recorded {_types(steps)}, got {_types(our_steps)}")
            continue
        for (kind, obj), (_, our) in zip(steps, our_steps, strict=True):
            # an object made anew under its old name has a uid of its own
            known.learn(obj, our)
            differences += [f"{kind}: {each}" for each in compare_objects(obj, our, known)]
    return differences


def _steps_by_object(events):
    """Return type and object of each change by the object's name, in order of the first events.

    Consecutive events that change only the status are one.
    """
    steps = {}
    for event in events:
        kind, obj = event["type"], event["object"]
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            mine = steps.setdefault(obj["metadata"].get("name", ""), [])
            if kind == "MODIFIED" and mine and _without_status(mine[-1][1]) == _without_status(obj):
                kind = "MODIFIED (status)"
                if mine[-1][0] == kind:
                    mine.pop()
            mine.append((kind, obj))
    return steps


def _types(steps):
    return [kind for kind, _ in steps]


def _without_status(obj):
    moving = ("resourceVersion", "managedFields", "generation")
    metadata = {k: v for k, v in obj["metadata"].items() if k not in moving}
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata}


def _marks(bookmark):
    kind = {"kind": bookmark.get("kind"), "apiVersion": bookmark.get("apiVersion")}
    return kind | {"annotations": bookmark["metadata"].get("annotations")}

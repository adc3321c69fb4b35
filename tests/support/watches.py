"""Comparison of watch events by object, with consecutive status updates merged."""

from typing import Any

import attrs

from support.comparison import compare_objects, differing, status_view
from support.correspondence import Correspondence, pair

Object = dict[str, Any]


@attrs.frozen
class Step:
    """Change of an object: one event, or consecutive status-only events."""

    type: str
    status_only: bool
    #: as after the last of them
    object: Object

    def __str__(self) -> str:
        return f"{self.type} (status)" if self.status_only else self.type


def steps_by_object(events: list[Object]) -> dict[str, list[Step]]:
    """Return the steps of each object by name, objects in order of their first event."""
    steps: dict[str, list[Step]] = {}
    last: dict[str, Object] = {}
    for event in events:
        obj = event["object"]
        name = obj["metadata"].get("name", "")
        mine = steps.setdefault(name, [])
        status_only = event["type"] == "MODIFIED" and _same_but_status(last.get(name), obj)
        if status_only and mine[-1].status_only:
            mine.pop()
        mine.append(Step(event["type"], status_only, obj))
        last[name] = obj
    return steps


def _same_but_status(before: Object | None, after: Object) -> bool:
    return before is not None and _without_status(before) == _without_status(after)


def _without_status(obj: Object) -> Object:
    moving = ("resourceVersion", "managedFields", "generation")
    metadata = {k: v for k, v in obj["metadata"].items() if k not in moving}
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata}


def compare_watches(recorded: list[Object], ours: list[Object], known: Correspondence) -> list[str]:
    """Return the differences of two watch streams; update `known` with learnt identifiers."""
    differences = _compare_errors(recorded, ours)
    marked = [e for e in recorded if e["type"] == "BOOKMARK"]
    own_marked = [e for e in ours if e["type"] == "BOOKMARK"]
    # a server may send bookmarks whenever it likes; the one that ends the initial events counts
    if marked and [_marks(e) for e in marked] != [_marks(e) for e in own_marked]:
        differences.append(f"bookmarks: recorded {marked}, got {own_marked}")
    theirs, own = (
        steps_by_object([e for e in events if e["type"] in ("ADDED", "MODIFIED", "DELETED")])
        for events in (recorded, ours)
    )
    firsts = pair(
        [steps[0].object for steps in theirs.values()],
        [steps[0].object for steps in own.values()],
        known,
    )
    for obj, partner in firsts:
        known.learn(obj, partner)
    partners = {obj["metadata"]["name"]: other["metadata"]["name"] for obj, other in firsts}
    for extra in own.keys() - partners.values():
        differences.append(f"{extra}: not in the recording: {[str(s) for s in own[extra]]}")
    for name, steps in theirs.items():
        if name not in partners:
            differences.append(f"{name}: recorded {[str(s) for s in steps]}, got nothing")
        else:
            differences += _compare_steps(steps, own[partners[name]], known)
    return differences


def _compare_steps(recorded: list[Step], ours: list[Step], known: Correspondence) -> list[str]:
    types, own_types = [str(s) for s in recorded], [str(s) for s in ours]
    if types != own_types:
        name = ours[0].object["metadata"]["name"]
        return [f"{name}: recorded {types}, got {own_types}"]
    differences = []
    for step, own in zip(recorded, ours, strict=True):
        # an object made anew under its old name has a uid of its own
        known.learn(step.object, own.object)
        found = compare_objects(step.object, own.object, known)
        differences += [f"{step}: {difference}" for difference in found]
    return differences


def _compare_errors(recorded: list[Object], ours: list[Object]) -> list[str]:
    theirs, own = (
        [status_view(e["object"]) for e in events if e["type"] == "ERROR"]
        for events in (recorded, ours)
    )
    if len(theirs) != len(own):
        return [f"ERROR events: recorded {theirs}, got {own}"]
    return [
        difference
        for expected, got in zip(theirs, own, strict=True)
        for difference in differing("ERROR", expected, got)
    ]


def _marks(bookmark: Object) -> Object:
    obj = bookmark["object"]
    return {
        "kind": obj.get("kind"),
        "apiVersion": obj.get("apiVersion"),
        "annotations": obj["metadata"].get("annotations"),
    }

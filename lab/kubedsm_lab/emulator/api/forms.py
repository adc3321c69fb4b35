"""Conversion of Events between core/v1, the stored version, and events.k8s.io/v1.

The names of the fields are those of k8s.io/kubernetes/pkg/apis/events/v1.
"""

from kubedsm_lab.emulator.api.resources import (
    EVENTS,
    NEW_EVENTS,
    Object,
    Resource,
)

#: events.k8s.io/v1 name → core/v1 name, in the order of the newer form
_NAMES = {
    "eventTime": "eventTime",
    "series": "series",
    "reportingController": "reportingComponent",
    "reportingInstance": "reportingInstance",
    "action": "action",
    "reason": "reason",
    "regarding": "involvedObject",
    "related": "related",
    "note": "message",
    "type": "type",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
#: defaults of the stored form
_EMPTY: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
#: fields that the newer form omits when empty
_OMITTED_WHEN_EMPTY = frozenset({"reportingController", "reportingInstance"})


def to_stored_form(resource: Resource, obj: Object) -> Object:
    """Convert an object from the API version of the requested resource to the stored version, with
    all mandatory fields; only Events differ.
    """
    if resource.kind != "Event":
        return obj
    if resource.alias_of:
        renamed = {core: obj[new] for new, core in _NAMES.items() if new in obj}
        obj = {"metadata": obj.get("metadata", {}), **renamed}
    return {
        **obj,
        **{key: value for key, value in _EMPTY.items() if obj.get(key) is None},
        "kind": EVENTS.kind,
        "apiVersion": EVENTS.api_version,
    }


def to_requested_form(resource: Resource, obj: Object) -> Object:
    """Convert a stored object to the API version of the requested resource; only Events differ."""
    if not resource.alias_of:
        return obj
    renamed = {
        new: obj[core]
        for new, core in _NAMES.items()
        if core in obj and (obj[core] or new not in _OMITTED_WHEN_EMPTY)
    }
    return {
        "kind": NEW_EVENTS.kind,
        "apiVersion": NEW_EVENTS.api_version,
        "metadata": obj["metadata"],
        **renamed,
    }

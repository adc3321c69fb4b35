"""Events have two forms, core/v1 and events.k8s.io/v1, of one and the same stored object.

They are stored as core/v1. The pairs of names are those of k8s.io/kubernetes/pkg/apis/events/v1.
"""

from kubedsm_lab.emulator.api.resources import EVENTS, NEW_EVENTS, Object, Resource

#: events.k8s.io/v1 name → core/v1 name, in the order in which the newer form is written
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
#: what the stored form has where nothing was given
_EMPTY: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
#: of the newer form, only written if there is something in them
_OMITTED_WHEN_EMPTY = frozenset({"reportingController", "reportingInstance"})


def stored_form(resource: Resource, event: Object) -> Object:
    """From the form of the request's resource to core/v1, with everything core/v1 always has."""
    if resource.alias_of:
        renamed = {core: event[new] for new, core in _NAMES.items() if new in event}
        event = {"metadata": event.get("metadata", {}), **renamed}
    return {
        **event,
        **{key: value for key, value in _EMPTY.items() if event.get(key) is None},
        "kind": EVENTS.kind,
        "apiVersion": EVENTS.api_version,
    }


def requested_form(obj: Object) -> Object:
    """From the stored form to that of events.k8s.io/v1."""
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

"""Limits on metadata, ConfigMaps and Events: sizes, names and immutable fields.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go, and
k8s.io/kubernetes/pkg/apis/core/validation (ConfigMap, Event).
"""

import re
from collections.abc import Iterator

from kubedsm_lab.emulator.api.errors import (
    FieldError,
    invalid_value,
    may_not,
    required,
    too_long,
)
from kubedsm_lab.emulator.api.resources import Object

Errors = Iterator[FieldError]

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
LONGEST_SUBDOMAIN, LONGEST_LABEL = 253, 63
IMMUTABLE = "field is immutable"
_QUALIFIED_NAME = re.compile(
    rf"(?:{SUBDOMAIN}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?", re.ASCII
)
_LONGEST_KEY = LONGEST_SUBDOMAIN + len("/") + LONGEST_LABEL
#: bytes of all annotations together, and of the data of a ConfigMap
_LARGEST_NOTES, _LARGEST_DATA = 256 << 10, 1 << 20
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_BAD_DATA_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
#: longest texts of an Event of events.k8s.io/v1, by field
_EVENT_TEXTS = {"message": 1024, "reason": 128, "action": 128, "reportingInstance": 128}
_SHORTEST_SERIES = 2


def is_qualified_name(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and _QUALIFIED_NAME.fullmatch(key) is not None


def metadata_errors(metadata: Object) -> Errors:
    """Yield errors of the size of annotations, the names of finalizers, and owner references."""
    annotations = metadata.get("annotations") or {}
    if sum(len(text.encode()) for each in annotations.items() for text in each) > _LARGEST_NOTES:
        yield too_long("metadata.annotations", _LARGEST_NOTES)
    for index, name in enumerate(metadata.get("finalizers") or ()):
        if name not in _STANDARD_FINALIZERS and not ("/" in name and is_qualified_name(name)):
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", name, why)
    owners = metadata.get("ownerReferences") or ()
    controllers = [f"{each['kind']}/{each['name']}" for each in owners if each.get("controller")]
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        yield invalid_value("metadata.ownerReferences", owners, why)


def event_errors(event: Object) -> Errors:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    if about != namespace and not (not about and namespace in ("default", "kube-system")):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if event.get("eventTime") is None:
        return
    # an event of the newer form
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field.replace("Controller", "Component")):
            yield required(field)
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", event.get("type") or "", "has invalid value")


def newer_event_errors(event: Object) -> Errors:
    """Yield errors of an Event of events.k8s.io/v1, by the names of core/v1 as kube-apiserver."""
    if event.get("eventTime") is None:
        yield required("eventTime")
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    # The older form, in which the namespaces agree, is checked for both.
    yield from event_errors(
        {**event, "involvedObject": {"namespace": about and event["metadata"]["namespace"]}}
    )
    for field, most in _EVENT_TEXTS.items():
        if len(event.get(field) or "") > most:
            yield invalid_value(field, "", f"can have at most {most} characters")
    series = event.get("series")
    if series and (series.get("count") or 0) < _SHORTEST_SERIES:
        yield invalid_value("series.count", "", f"should be at least {_SHORTEST_SERIES}")


def newer_event_change(event: Object, before: Object) -> Errors:
    for field in sorted(event.keys() | before.keys()):
        if field not in ("metadata", "series") and event.get(field) != before.get(field):
            yield invalid_value(field, event.get(field), IMMUTABLE)


def config_map_errors(config_map: Object) -> Errors:
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (config_map.get(field) or {}).items():
            size += len(value.encode())
            if not _DATA_KEY.fullmatch(key):
                yield invalid_value(f"{field}[{key}]", key, _BAD_DATA_KEY)
    if size > _LARGEST_DATA:
        yield too_long("[]", _LARGEST_DATA)


def config_map_change(config_map: Object, before: Object) -> Errors:
    if not before.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if config_map.get(field) != before.get(field):
            yield may_not(field, "field is immutable when `immutable` is set")

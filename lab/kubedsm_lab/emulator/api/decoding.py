"""JSON types of fields, checked before any other code reads an object.

The Go API server derives them from its types. Here they are those of kubernetes_asyncio's models,
in `field_types.json`. `drop_unknown_fields` removes fields that no model has. Null means absent.
"""

import datetime as dt
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson

from kubedsm_lab.emulator.api.errors import bad_request, cannot_be_handled
from kubedsm_lab.emulator.api.resources import Object, Resource

#: written by `python docs/generate.py`
FIELD_TYPES = Path(__file__).with_name("field_types.json")
_QUANTITY = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?", re.ASCII
)
_NO_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
BINDING = Resource("", "v1", "bindings", "Binding")
EVICTION = Resource("policy", "v1", "evictions", "Eviction")
SCALE = Resource("autoscaling", "v1", "scales", "Scale")
TOKEN_REQUEST = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
#: resources of request bodies that are not served by themselves
BODIES = (BINDING, EVICTION, SCALE, TOKEN_REQUEST)
#: model prefixes where two groups have one kind
_MODEL_PREFIXES = {
    ("", "Event"): "Core",
    ("events.k8s.io", "Event"): "Events",
    ("authentication.k8s.io", "TokenRequest"): "Authentication",
}


class _QuantitySyntaxError(Exception):
    """Malformed quantity; not a ValueError, as msgspec would add the path to its message."""


class _Quantity:
    """Resource quantity in JSON: text such as 500m, or a number."""


_A_QUANTITY = _Quantity()
_INT32: Any = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_TYPES: Mapping[str, Any] = {
    "str": str,
    "int": _INT32,
    "bool": bool,
    "float": float,
    "datetime": Annotated[dt.datetime, msgspec.Meta(tz=True)],
    # the models' word for a number or a text
    "object": _INT32 | str,
}
#: fields that Go declares as int64
_INT64 = frozenset({
    "activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "fsGroup",
    "generation", "gracePeriodSeconds", "observedGeneration", "runAsGroup", "runAsUser",
    "supplementalGroups", "terminationGracePeriodSeconds", "tolerationSeconds",
})  # fmt: skip
#: fields that the models have as text, or as maps to text
QUANTITIES = frozenset({
    "allocatable", "allocatedResources", "averageValue", "capacity", "divisor", "hard", "limits",
    "overhead", "requests", "sizeLimit", "used",
})  # fmt: skip
#: times with exactly six digits of a second, in Go MicroTime
_MICRO_TIMES = frozenset({"acquireTime", "eventTime", "lastObservedTime", "renewTime"})
_MICRO_TIME: Any = Annotated[
    str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
]
#: by model: fields that the emulator reads without a default
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "V1OwnerReference": ("apiVersion", "kind", "name", "uid"),
    "V1LabelSelectorRequirement": ("key", "operator"),
    "V1PodSchedulingGate": ("name",),
    "V1Taint": ("key", "effect"),
    "RbacV1Subject": ("kind", "name"),
}
#: by model: fields that are checked elsewhere
_UNCHECKED = {"V1ObjectMeta": ("managedFields",)}


#: models whose fields are not those of the API
_OPAQUE = frozenset({"V1ManagedFieldsEntry"})


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """meta/v1 DeleteOptions, the body of a DELETE."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None


@cache
def field_types() -> dict[str, dict[str, str]]:
    """Return the JSON type of every field by model and field name, in kubernetes_asyncio's
    notation.
    """
    types: dict[str, dict[str, str]] = orjson.loads(FIELD_TYPES.read_bytes())
    return types


def model_of(resource: Resource) -> str:
    """Return the name of kubernetes_asyncio's model for the resource."""
    prefix = _MODEL_PREFIXES.get((resource.group, resource.kind), "")
    return f"{prefix}{resource.version.upper()}{resource.kind}"


def check_types(resource: Resource, obj: Any) -> Object:
    """Return the object if its fields have the types of the resource's kind.

    Raises ApiError (400).
    """
    if not isinstance(obj, dict):
        raise cannot_be_handled(resource, "the body is not an object")
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if kind and kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: '
            f"no kind is registered for the type {kind} here"
        )
    if version and version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.api_version})"
        )
    try:
        msgspec.convert(obj, _struct(model_of(resource)), dec_hook=_decode_quantity)
    except (msgspec.ValidationError, _QuantitySyntaxError) as error:
        raise cannot_be_handled(resource, str(error)) from None
    return obj


def drop_unknown_fields(resource: Resource, obj: Any) -> tuple[Any, list[str]]:
    """Return an object or a patch without the fields that its kind does not have, and their paths.

    Directives of patches, which begin with $, are kept.
    """
    unknown: list[str] = []
    return _known_part(obj, model_of(resource), "", unknown), unknown


def _known_part(value: Any, kind: str, path: str, unknown: list[str]) -> Any:
    if kind.startswith("list[") and isinstance(value, list):
        inner = kind[len("list[") : -1]
        return [_known_part(v, inner, f"{path}[{i}]", unknown) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if kind.startswith("dict("):
        inner = kind[len("dict(str, ") : -1]
        return {k: _known_part(v, inner, f"{path}.{k}", unknown) for k, v in value.items()}
    fields, known = field_types().get(kind), {}
    if fields is None or kind in _OPAQUE:
        return value
    for name, inside in value.items():
        where = f"{path}.{name}".lstrip(".")
        if name in fields or name.startswith("$"):
            known[name] = _known_part(inside, fields.get(name, ""), where, unknown)
        else:
            unknown.append(where)
    return known


def delete_options(obj: Any) -> DeleteOptions:
    """Decode the DeleteOptions in a request's body. Raises ApiError (400)."""
    try:
        return msgspec.convert(obj or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be decoded: {error}") from None


def preconditions(options: DeleteOptions) -> tuple[str, str]:
    """Return the required uid and resourceVersion of a deletion, "" for any."""
    given = options.preconditions or _Preconditions()
    return given.uid or "", given.resource_version or ""


@cache
def _struct(model: str) -> type[msgspec.Struct]:
    fields = {
        name: _type_of(name, kind)
        for name, kind in field_types()[model].items()
        if name not in _UNCHECKED.get(model, ())
    }
    required = _REQUIRED.get(model, ())
    optional = [(name, kind | None, None) for name, kind in fields.items() if name not in required]
    return msgspec.defstruct(model, [*((name, fields[name]) for name in required), *optional])


def _type_of(name: str, kind: str) -> Any:
    if kind.startswith("list["):
        return list[_type_of(name, kind[len("list[") : -1])]  # type: ignore[misc]
    if kind.startswith("dict("):
        return dict[str, _type_of(name, kind[len("dict(str, ") : -1])]  # type: ignore[misc]
    if kind == "str" and name in QUANTITIES:
        return _Quantity
    if kind == "int" and name in _INT64:
        return int
    if kind == "datetime" and name in _MICRO_TIMES:
        return _MICRO_TIME
    return _TYPES.get(kind) or _struct(kind)


def _decode_quantity(kind: type, value: object) -> object:
    if kind is not _Quantity:
        raise NotImplementedError(f"no rule for {kind}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and _QUANTITY.fullmatch(value)):
        raise _QuantitySyntaxError(_NO_QUANTITY)
    return _A_QUANTITY

"""An OpenAPI v3 that announces what the server can do, generated from the table of resources.

kubectl asks it two things before it sends a manifest: does the kind exist, and may it pass the
query parameter `fieldValidation` so that the server validates. (Ours checks types and values; a
field that it has never heard of is kept.) `kubectl explain` reads names and types of fields from
it; what they mean is not told here. Of OpenAPI v2 there is only an empty document: kubectl looks
there for a kind that it does not find in v3, and then says that there is no such kind.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson

from kubedsm_lab.emulator.api.resources import SERVED, Object, Resource

#: made by `python docs/field_types.py`
FIELD_TYPES = Path(__file__).with_name("field_types.json")
#: the document of OpenAPI v2; as protobuf, which kubectl asks for, nothing is left of it
V2, V2_PROTOBUF = "/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_INDEX = "/openapi/v3"
_MODEL = re.compile(r"\w+")
_VERSIONED = re.compile(r"^([A-Z][a-z]+)?(V\d+)([A-Z])")
_INFO: Object = {"title": "Kubernetes", "version": "v1.36.2"}
_ABOUT = (
    "Names and types of the fields only: this cluster is emulated. What they mean is told at "
    "https://kubernetes.io/docs/reference/kubernetes-api/"
)
_TYPES: Mapping[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {"type": "object"},
}
_JSON = "application/json"
#: not strategic merge, although it is served: kubectl would then compute its patches from our open
#: schemas, which know no merge keys, in place of its own built-in types
_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_FIELD_VALIDATION: Object = {
    "name": "fieldValidation",
    "in": "query",
    "description": "How unknown or duplicate fields are met: Ignore, Warn or Strict.",
    "schema": {"type": "string", "uniqueItems": True},
}
_DRY_RUN: Object = {
    "name": "dryRun",
    "in": "query",
    "description": "All: process the request and persist nothing.",
    "schema": {"type": "string", "uniqueItems": True},
}


def answer(path: str) -> Object | None:
    """The index, or the document of one group and version; None for any other path."""
    path = path.rstrip("/")
    if path == V2:
        return {"swagger": "2.0", "info": dict(_INFO), "paths": {}}
    prefixes = {_prefix(resource): resource for resource in SERVED}
    if path == _INDEX:
        return {
            "paths": {prefix: {"serverRelativeURL": f"{_INDEX}/{prefix}"} for prefix in prefixes}
        }
    prefix = path.removeprefix(f"{_INDEX}/")
    if prefix not in prefixes:
        return None
    served = [resource for resource in SERVED if _prefix(resource) == prefix]
    paths: Object = {}
    for resource in served:
        paths |= _paths(resource)
    return {
        "openapi": "3.0.0",
        "info": dict(_INFO),
        "paths": paths,
        "components": {"schemas": _schemas(served)},
    }


def _prefix(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def model_of(resource: Resource) -> str:
    """Under which name its fields are told."""
    prefix = {"": "Core", "events.k8s.io": "Events"}.get(resource.group, "")
    prefix = prefix if resource.kind == "Event" else ""
    return f"{prefix}{resource.version.upper()}{resource.kind}"


@cache
def _field_types() -> dict[str, dict[str, str]]:
    """By model, the type of each field in the words of kubernetes_asyncio."""
    read: dict[str, dict[str, str]] = orjson.loads(FIELD_TYPES.read_bytes())
    return read


def _schemas(served: list[Resource]) -> Object:
    """Of these kinds, and of all that they are made of."""
    known = _field_types()
    found: dict[str, Object] = {}
    names = [model_of(resource) for resource in served]
    while names:
        name = names.pop()
        if name not in found:
            fields = known[name]
            properties = {field: _type(kind) for field, kind in fields.items()}
            found[name] = {"type": "object", "description": _ABOUT, "properties": properties}
            names += [w for kind in fields.values() for w in _MODEL.findall(kind) if w in known]
    for resource in served:
        found[model_of(resource)]["x-kubernetes-group-version-kind"] = [_kind(resource)]
    return {_schema_name(model): schema for model, schema in found.items()}


def _schema_name(model: str) -> str:
    """kubectl shows what comes after the last dot."""
    return _VERSIONED.sub(r"io.k8s.\1\2.\3", model, count=1)


def _type(kind: str) -> Object:
    if kind.startswith("list["):
        return {"type": "array", "items": _type(kind[len("list[") : -1])}
    if kind.startswith("dict("):
        of_values = kind[len("dict(") : -1].partition(", ")[2]
        return {"type": "object", "additionalProperties": _type(of_values)}
    return dict(_TYPES.get(kind) or {"$ref": f"#/components/schemas/{_schema_name(kind)}"})


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _paths(resource: Resource) -> Object:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{_prefix(resource)}{scope}/{resource.plural}"
    item: Object = {
        "get": _operation(resource, "get"),
        "put": _operation(resource, "put", (_JSON,)),
        "patch": _operation(resource, "patch", _PATCHES),
        "delete": _operation(resource, "delete"),
    }
    return {
        collection: {
            "get": _operation(resource, "list"),
            "post": _operation(resource, "post", (_JSON,)),
        },
        f"{collection}/{{name}}": item,
    }


def _operation(resource: Resource, action: str, consumes: tuple[str, ...] = ()) -> Object:
    operation: Object = {
        "operationId": f"{action}{resource.kind}",
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    if consumes:
        # a patch is not an object of the kind, so its schema says nothing
        schema: Object = {}
        if action != "patch":
            schema = {"$ref": f"#/components/schemas/{_schema_name(model_of(resource))}"}
        operation["parameters"] = [_DRY_RUN, _FIELD_VALIDATION]
        operation["requestBody"] = {
            "content": {media_type: {"schema": schema} for media_type in consumes}
        }
    return operation

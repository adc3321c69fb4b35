"""Discovery and OpenAPI documents, generated from the table of resources.

Only served resources are listed: kubectl reports groups that are announced and then missing.
Aggregated discovery is not offered; clients fall back to one document per group and version.
"""

import re
from collections.abc import Mapping
from itertools import groupby

from kubedsm_lab.emulator.api.decoding import field_types, model_of
from kubedsm_lab.emulator.api.resources import SERVED, Object, Resource

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "$Format:%H$",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.27.3",
    "compiler": "gc",
    "platform": "linux/amd64",
}

_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_GROUP_VERSION = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)")
_GROUP = re.compile(r"/apis/(?P<group>[^/]+)")

_READ_WRITE_ONE = ("get", "patch", "update")
#: subresource → group, version, kind of what is sent to it; others take their resource's own kind
_SUBRESOURCE_KIND = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_SUBRESOURCE_VERBS = {
    "binding": ("create",),
    "eviction": ("create",),
    "finalize": ("update",),
    "log": ("get",),
    "token": ("create",),
}


def discovery_document(path: str) -> Object | str | None:
    """The document at a discovery path, the text of a health check, or None for any other path."""
    if path in _HEALTH:
        return "ok"
    path = path.rstrip("/")
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group_entry(group) for group in _groups()],
        }
    if (match := _GROUP.fullmatch(path)) and match["group"] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(match["group"])}
    if match := _GROUP_VERSION.fullmatch(path):
        return _resource_list(match["group"] or "", match["version"])
    return None


def _groups() -> list[str]:
    return [group for group, _ in groupby(r.group for r in SERVED) if group]


def _group_entry(group: str) -> Object:
    versions = sorted({r.version for r in SERVED if r.group == group}, reverse=True)
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group: str, version: str) -> Object | None:
    served = [r for r in SERVED if (r.group, r.version) == (group, version)]
    if not served:
        return None
    entries = [entry for resource in served for entry in _entries(resource)]
    return {
        "kind": "APIResourceList",
        # the core group's list has no apiVersion, all others have one
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": served[0].api_version,
        "resources": entries,
    }


def _entries(resource: Resource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.storage_version_hash:
        entry["storageVersionHash"] = resource.storage_version_hash
    return [entry, *(_subresource_entry(resource, name) for name in resource.subresources)]


def _subresource_entry(resource: Resource, subresource: str) -> Object:
    group, version, kind = _SUBRESOURCE_KIND.get(subresource, ("", "", resource.kind))
    entry: Object = {
        "name": f"{resource.plural}/{subresource}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if group:
        entry |= {"group": group, "version": version}
    return entry | {
        "kind": kind,
        "verbs": list(_SUBRESOURCE_VERBS.get(subresource, _READ_WRITE_ONE)),
    }


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


def openapi_document(path: str) -> Object | None:
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


def _schemas(served: list[Resource]) -> Object:
    """Of these kinds, and of all that they are made of."""
    known = field_types()
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

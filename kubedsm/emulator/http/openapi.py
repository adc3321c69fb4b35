"""An OpenAPI v3 that announces what the server can do, generated from the table of resources.

kubectl asks it two things before it sends a manifest: does the kind exist, and may it pass the
query parameter `fieldValidation` so that the server validates. (Ours checks types and values; a
field that it has never heard of is kept.) The schemas are open, any field is allowed, so `kubectl
explain` finds nothing to explain. OpenAPI v2 is not served: current clients ask for it as protobuf
only, and cope without.
"""

from kubedsm.emulator.api.resources import SERVED, Object, Resource

_INDEX = "/openapi/v3"
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
        "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths,
        "components": {"schemas": {_schema_name(r): _schema(r) for r in served}},
    }


def _prefix(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _schema_name(resource: Resource) -> str:
    group = resource.group.removesuffix(".k8s.io") or "core"
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"


def _schema(resource: Resource) -> Object:
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        },
        "x-kubernetes-group-version-kind": [_kind(resource)],
    }


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
            schema = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
        operation["parameters"] = [_DRY_RUN, _FIELD_VALIDATION]
        operation["requestBody"] = {
            "content": {media_type: {"schema": schema} for media_type in consumes}
        }
    return operation

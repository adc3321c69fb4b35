"""Discovery and OpenAPI documents, generated from the table of resources.

Only served resources are listed: kubectl complains about announced but missing groups.
Aggregated discovery is not offered; clients fall back to one document per group and version.

kubectl reads OpenAPI v3 before it sends a manifest: whether the kind exists, and whether the server
accepts the parameter `fieldValidation`. (The server checks types and values, and keeps unknown
fields.) The document describes operations without schemas. OpenAPI v2 is an empty document: kubectl
searches v2 for a kind that v3 lacks, and reports that there is none.
"""

import re
from collections.abc import Mapping
from itertools import groupby

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
#: path of OpenAPI v2, and its media type for kubectl: an empty document has no bytes as protobuf
V2, V2_PROTOBUF = "/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V3 = "/openapi/v3"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_GROUP_VERSION = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)")
_GROUP = re.compile(r"/apis/(?P<group>[^/]+)")
#: subresource → kind of its bodies with group and version; the others have their resource's kind
_SUBRESOURCE_KINDS: Mapping[str, Object] = {
    "binding": {"kind": "Binding"},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}
_SUBRESOURCE_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "finalize": ["update"],
    "log": ["get"],
    "token": ["create"],
}
_INFO: Object = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
#: media types by method. Strategic merge is served, but not listed: kubectl would compute patches
#: from schemas, which are not served, in place of its own types.
_CONSUMED = {
    "post": ("application/json",),
    "put": ("application/json",),
    "patch": ("application/json-patch+json", "application/merge-patch+json"),
}
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldValidation")
]


def discovery_document(path: str) -> Object | str | None:
    """Return the discovery document of a path, or the text of a health check; otherwise None."""
    if path in _HEALTH:
        return "ok"
    path = path.rstrip("/")
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = [group for group, _ in groupby(r.group for r in SERVED) if group]
    if path == "/apis":
        entries = [_group_entry(group) for group in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}
    if (match := _GROUP.fullmatch(path)) and match["group"] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group_entry(match["group"])}
    if match := _GROUP_VERSION.fullmatch(path):
        return _resource_list(match["group"] or "", match["version"])
    return None


def _group_entry(group: str) -> Object:
    versions = sorted({r.version for r in SERVED if r.group == group}, reverse=True)
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _resource_list(group: str, version: str) -> Object | None:
    served = [r for r in SERVED if (r.group, r.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        # only the list of the core group lacks apiVersion
        **({"apiVersion": "v1"} if group else {}),
        "groupVersion": served[0].api_version,
        "resources": [entry for resource in served for entry in _list_entries(resource)],
    }


def _list_entries(resource: Resource) -> list[Object]:
    optional = {
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
        "storageVersionHash": resource.storage_version_hash,
    }
    entry = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **{field: value for field, value in optional.items() if value},
    }
    parts = [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **_SUBRESOURCE_KINDS.get(name, {"kind": resource.kind}),
            "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
        }
        for name in resource.subresources
    ]
    return [entry, *parts]


def openapi_document(path: str) -> Object | None:
    """Return the OpenAPI index, or the document of a group and version; otherwise None."""
    path = path.rstrip("/")
    if path == V2:
        return {"swagger": "2.0", "info": dict(_INFO), "paths": {}}
    if path == _V3:
        urls = {_prefix(r): {"serverRelativeURL": f"{_V3}/{_prefix(r)}"} for r in SERVED}
        return {"paths": urls}
    served = [r for r in SERVED if path == f"{_V3}/{_prefix(r)}"]
    if not served:
        return None
    paths: Object = {}
    for resource in served:
        paths |= _list_paths(resource)
    return {"openapi": "3.0.0", "info": dict(_INFO), "paths": paths}


def _prefix(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _list_paths(resource: Resource) -> Object:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{_prefix(resource)}{scope}/{resource.plural}"
    one = {
        method: _describe_operation(resource, method)
        for method in ("get", "put", "patch", "delete")
    }
    all_of_them = {
        "get": _describe_operation(resource, "list"),
        "post": _describe_operation(resource, "post"),
    }
    return {collection: all_of_them, f"{collection}/{{name}}": one}


def _describe_operation(resource: Resource, action: str) -> Object:
    operation: Object = {
        "operationId": f"{action}{resource.kind}",
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
    }
    if action in _CONSUMED:
        operation["parameters"] = _PARAMETERS
        operation["requestBody"] = {
            "content": {media_type: {"schema": {}} for media_type in _CONSUMED[action]}
        }
    return operation

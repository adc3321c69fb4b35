"""What the emulated API server says it is and serves, generated from the table of resources.

Only what is served is listed: kubectl complains about groups that are announced and then missing.
Aggregated discovery is not offered; clients fall back to one document per group and version.
"""

import re
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


def answer(path: str) -> Object | str | None:
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

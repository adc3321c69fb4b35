"""Parsing of request paths: resource and subresource, RBAC attributes, unsupported paths.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

import re
from collections.abc import Mapping

import attrs

from kubedsm_lab.emulator.access.rbac import Attributes
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import NAMESPACES, SERVED, Resource
from kubedsm_lab.emulator.http.listing import is_watch

_BY_PATH = {(r.group, r.version, r.plural): r for r in SERVED}


@attrs.frozen
class Target:
    resource: Resource
    namespace: str = ""
    #: empty for a collection
    name: str = ""
    subresource: str = ""


def target_of(path: str) -> Target | None:
    """Return resource, namespace, name and subresource of a path; None for other paths."""
    prefix, _, rest = path.removeprefix("/").partition("/")
    parts = rest.removesuffix("/").split("/")
    if prefix == "api":
        return _find_target("", parts[0], parts[1:])
    if prefix == "apis" and len(parts) > 1:
        return _find_target(parts[0], parts[1], parts[2:])
    return None


def _find_target(group: str, version: str, parts: list[str]) -> Target | None:
    if not parts or not all(parts):
        return None
    namespace = ""
    # /namespaces/shop/status is a part of a namespace, /namespaces/shop/pods is in it
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in NAMESPACES.subresources:  # noqa: PLR2004 - namespaces, its name, and one more
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource, *more = [*parts, "", ""]
    resource = _BY_PATH.get((group, version, plural))
    if resource is None or any(more) or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        return None
    return Target(resource, namespace, name, subresource)


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
_RESOURCE_PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/(?P<rest>.+)")
_ONE_OBJECT = re.compile(r"metadata\.name==?([^,=!]+)")


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """Return the authorization attributes of a request, from its method and path alone."""
    asked = _RESOURCE_PATH.fullmatch(path)
    if asked is None:
        return Attributes(method.lower(), path=path)
    parts: list[str] = asked["rest"].strip("/").split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if parts[2:] and parts[2] not in NAMESPACES.subresources:
            parts = parts[2:]
    plural, name, subresource, *_ = [*parts, "", ""]
    verb = _VERBS.get(method, "delete")
    if not name and verb in ("get", "delete"):
        verb = "deletecollection" if verb == "delete" else "watch" if is_watch(query) else "list"
        # a rule with resourceNames can allow to list or watch one object
        one = _ONE_OBJECT.search(query.get("fieldSelector", ""))
        name = one[1] if one else ""
    return Attributes(verb, asked["group"] or "", plural, subresource, namespace, name)


_SUBRESOURCE = re.compile(
    r"/api/v1/(?:namespaces/[^/]+/(?P<plural>pods|services)|(?P<nodes>nodes))/(?P<name>[^/]+)"
    r"/(?P<subresource>[a-z]+)(?:/.*)?"
)
_NO_CONTAINERS = "an emulated cluster runs no containers"
_WHY = {
    "pods/exec": f"{_NO_CONTAINERS}: there is none to run a command or copy files in",
    "pods/attach": f"{_NO_CONTAINERS}: there is none to attach to",
    "pods/portforward": f"{_NO_CONTAINERS}: there is no port to forward",
    "pods/ephemeralcontainers": f"{_NO_CONTAINERS}: there is nothing to debug in one",
    "pods/proxy": f"{_NO_CONTAINERS}: there is none to pass a request on to",
    "services/proxy": f"{_NO_CONTAINERS}: there is none to pass a request on to",
    "nodes/proxy": "an emulated cluster has one kubelet for all nodes, and it takes no requests",
}


def check_emulated(path: str) -> None:
    """Raise ApiError (501) for paths that need running containers, such as pods/exec."""
    found = _SUBRESOURCE.fullmatch(path)
    if found is None:
        return
    what = f"{found['plural'] or found['nodes']}/{found['subresource']}"
    why = _WHY.get(what)
    if why is not None:
        details = {"name": found["name"], "kind": what}
        raise ApiError(501, "NotImplemented", f"{why} ({what} {found['name']})", details)

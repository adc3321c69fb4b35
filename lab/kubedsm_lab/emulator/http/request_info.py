"""What a request asks for, told from its method and URL alone: whether that exists comes later.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.
"""

import re
from collections.abc import Mapping

from kubedsm_lab.emulator.access.rbac import Attributes
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.http.listing import is_watch

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}
_RESOURCE = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/(?P<rest>.+)")
_ONE_OBJECT = re.compile(r"metadata\.name==?([^,=!]+)")


def attributes_of(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """What is to be allowed before anything else is looked at."""
    asked = _RESOURCE.fullmatch(path)
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
        # so that a rule with resourceNames can allow to list or watch one object
        one = _ONE_OBJECT.search(query.get("fieldSelector", ""))
        name = one[1] if one else ""
    return Attributes(verb, asked["group"] or "", plural, subresource, namespace, name)

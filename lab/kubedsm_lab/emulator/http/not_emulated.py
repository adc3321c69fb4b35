"""What a cluster without containers cannot do, and the sentence that says so.

The answer is a Status, which kubectl prints; it would show anything else in part, or as a failed
upgrade of its connection.
"""

import re

from kubedsm_lab.emulator.api.errors import ApiError

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
    """Raises ApiError (501) for a path that only a cluster with containers can serve."""
    found = _SUBRESOURCE.fullmatch(path)
    if found is None:
        return
    what = f"{found['plural'] or found['nodes']}/{found['subresource']}"
    why = _WHY.get(what)
    if why is not None:
        details = {"name": found["name"], "kind": what}
        raise ApiError(501, "NotImplemented", f"{why} ({what} {found['name']})", details)

"""The paths of objects in an API server's URLs.

Names reach us from objects that others write. One that is no name of an object must not become
another path: it is refused before anything is sent.
"""

import re
from urllib.parse import quote

from kubedsm.kube.client.port import Invalid

CORE, APPS, POLICY, EVENTS = "/api/v1", "/apis/apps/v1", "/apis/policy/v1", "/apis/events.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1"
#: a DNS subdomain as RFC 1123 has it, and not too long: validated so by the API for what we name
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST = 253


def is_name(text: str) -> bool:
    """Whether an object can have that name."""
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


def path_of(
    group: str, namespace: str, plural: str, name: str | None = None, subresource: str = ""
) -> str:
    """Of all objects of a kind in a namespace, or of one of them, or of a part of that.

    Raises Invalid for what cannot be a name.
    """
    parts = [group, "namespaces", _segment(namespace), plural]
    if name is not None:
        parts.append(_segment(name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _segment(name: str) -> str:
    if not is_name(name):
        raise Invalid(400, "BadRequest", f"{name[:_LONGEST]!r} is not the name of an object")
    return quote(name, safe="")

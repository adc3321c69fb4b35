"""Which resource, object or subresource a request's path means."""

import attrs

from kubedsm_lab.emulator.api.resources import NAMESPACES, SERVED, Resource

_BY_PATH = {(r.group, r.version, r.plural): r for r in SERVED}


@attrs.frozen
class Target:
    resource: Resource
    namespace: str = ""
    #: empty for a collection
    name: str = ""
    subresource: str = ""

    @property
    def described(self) -> str:
        """As RBAC names it: pods, pods/binding."""
        plural = self.resource.plural
        return f"{plural}/{self.subresource}" if self.subresource else plural


def target_of(path: str) -> Target | None:
    """None for a path that leads nowhere."""
    prefix, _, rest = path.removeprefix("/").partition("/")
    parts = rest.removesuffix("/").split("/")
    if prefix == "api":
        return _within("", parts[0], parts[1:])
    if prefix == "apis" and len(parts) > 1:
        return _within(parts[0], parts[1], parts[2:])
    return None


def _within(group: str, version: str, parts: list[str]) -> Target | None:
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

"""RBAC as k8s.io/kubernetes/plugin/pkg/auth decides: users, requests, rules, and refusals.

Pure: a user, the attributes of a request, and the objects in; a decision with its reason out.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import attrs

from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.resources import Object, Resource

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNTS = "system:serviceaccounts"


@attrs.frozen
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    @property
    def info(self) -> Object:
        """As authentication.k8s.io/v1 UserInfo."""
        return {
            **({"username": self.name} if self.name else {}),
            **({"uid": self.uid} if self.uid else {}),
            **({"groups": list(self.groups)} if self.groups else {}),
        }


#: may do everything, whatever is bound
ADMIN = User("admin", "admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", "", (UNAUTHENTICATED,))


def service_account_name(namespace: str, name: str) -> str:
    """What a ServiceAccount is called as a user."""
    return f"system:serviceaccount:{namespace}:{name}"


def service_account(namespace: str, name: str, uid: str) -> User:
    groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(service_account_name(namespace, name), uid, groups)


@attrs.frozen
class Attributes:
    """What is asked: a verb on a resource or, with `path`, on what is no resource."""

    verb: str
    group: str = ""
    #: its plural
    resource: str = ""
    subresource: str = ""
    #: empty for the whole cluster
    namespace: str = ""
    #: empty for all objects, and for one that is to be created
    name: str = ""
    path: str = ""

    @property
    def described(self) -> str:
        """As rules name it: pods, pods/binding."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@attrs.frozen
class Decision:
    allowed: bool
    #: by what; or which roles could not be asked; often empty
    reason: str = ""


class RbacObjects(Protocol):
    """The roles and bindings that there are."""

    def bindings(self, namespace: str) -> Iterable[Object]:
        """The RoleBindings of a namespace; the ClusterRoleBindings, without one."""

    def role(self, namespace: str, name: str) -> Object | None:
        """A Role; a ClusterRole, without a namespace."""


@attrs.frozen
class _Bound:
    """A role that a binding gives to the user."""

    binding: Object
    subject: Object
    #: None if it does not exist
    role: Object | None


def decide(user: User, asked: Attributes, objects: RbacObjects) -> Decision:
    """Whether the user may do that, by any rule of any role that is bound to them."""
    if MASTERS in user.groups:
        return Decision(allowed=True)
    missing: list[str] = []
    for bound in _bound(user, asked.namespace, objects):
        if bound.role is None:
            missing.append(_not_found(bound.binding))
        elif any(_allows(rule, asked) for rule in bound.role.get("rules") or ()):
            return Decision(allowed=True, reason=f"RBAC: allowed by {_described(bound)}")
    if not missing:
        return Decision(allowed=False)
    said = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
    return Decision(allowed=False, reason=f"RBAC: {said}")


def rules_of(user: User, namespace: str, objects: RbacObjects) -> list[Object]:
    """All that the user may do in the namespace, rule by rule."""
    return [
        rule
        for bound in _bound(user, namespace, objects)
        if bound.role is not None
        for rule in bound.role.get("rules") or ()
    ]


def _bound(user: User, namespace: str, objects: RbacObjects) -> Iterator[_Bound]:
    for where in dict.fromkeys(("", namespace)):
        for binding in objects.bindings(where):
            for subject in binding.get("subjects") or ():
                if _is(user, subject, where):
                    yield _Bound(binding, subject, _role_of(binding, where, objects))
                    break


def _role_of(binding: Object, namespace: str, objects: RbacObjects) -> Object | None:
    reference = binding["roleRef"]
    return objects.role(namespace if reference["kind"] == "Role" else "", reference["name"])


def _is(user: User, subject: Object, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            of = subject.get("namespace") or namespace
            return user.name == service_account_name(of, name)
    return False


def _allows(rule: Object, asked: Attributes) -> bool:
    if not _names(rule, "verbs", asked.verb):
        return False
    if asked.path:
        return any(_covers(url, asked.path) for url in rule.get("nonResourceURLs") or ())
    only = rule.get("resourceNames")
    return (
        _names(rule, "apiGroups", asked.group)
        and (
            _names(rule, "resources", asked.described)
            or (bool(asked.subresource) and _names(rule, "resources", f"*/{asked.subresource}"))
        )
        and (not only or asked.name in only)
    )


def _names(rule: Object, field: str, what: str) -> bool:
    named = rule.get(field) or ()
    return what in named or "*" in named


def _covers(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url[:-1]))


def _not_found(binding: Object) -> str:
    reference = binding["roleRef"]
    return f'{reference["kind"].lower()}.rbac.authorization.k8s.io "{reference["name"]}" not found'


def _described(bound: _Bound) -> str:
    binding, subject, reference = bound.binding, bound.subject, bound.binding["roleRef"]
    namespace = binding["metadata"].get("namespace", "")
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    name = (
        f"{binding['metadata']['name']}/{namespace}" if namespace else binding["metadata"]["name"]
    )
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return (
        f'{kind} "{name}" of {reference["kind"]} "{reference["name"]}" to {subject["kind"]} "{who}"'
    )


def denied(user: User, asked: Attributes, decision: Decision) -> ApiError:
    """The 403 in a real server's words."""
    why = f": {decision.reason}" if decision.reason else ""
    who = f'User "{user.name}" cannot {asked.verb}'
    if asked.path:
        return ApiError(403, "Forbidden", f'forbidden: {who} path "{asked.path}"{why}', {})
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    text = f'{who} resource "{asked.described}" in API group "{asked.group}" {where}{why}'
    resource = Resource(asked.group, "", asked.resource, "", "")
    return forbidden(resource, asked.name, text)

"""RBAC authorizer: users, request attributes, rules, and 403 messages.

Follows k8s.io/kubernetes/plugin/pkg/auth.
"""

from collections.abc import Iterator

import attrs

from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import Store

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
        """Return the user as UserInfo of authentication.k8s.io/v1."""
        info = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        return {field: value for field, value in info.items() if value}


#: superuser group: may do everything, whatever roles are bound
ADMIN = User("admin", "admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", "", (UNAUTHENTICATED,))


def service_account_name(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount: system:serviceaccount:NAMESPACE:NAME."""
    return f"system:serviceaccount:{namespace}:{name}"


def service_account(namespace: str, name: str, uid: str) -> User:
    groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(service_account_name(namespace, name), uid, groups)


@attrs.frozen
class Attributes:
    """Authorization attributes of a request: a verb on a resource, or on a non-resource path."""

    verb: str
    group: str = ""
    #: plural name of the resource
    resource: str = ""
    subresource: str = ""
    #: namespace; empty for cluster-scoped requests
    namespace: str = ""
    #: empty for all objects, and before the creation of an object
    name: str = ""
    path: str = ""

    @property
    def described(self) -> str:
        """Return the resource as RBAC rules name it, such as pods/binding."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@attrs.frozen
class Decision:
    allowed: bool
    #: matching rule; empty without one
    reason: str = ""


@attrs.frozen
class _Grant:
    """Role granted to a user: the binding, the matching subject, and the role."""

    binding: Object
    subject: Object
    role: Object


def decide(user: User, request: Attributes, store: Store) -> Decision:
    """Authorize a request by RBAC: allowed if a rule of any role bound to the user matches."""
    if MASTERS in user.groups:
        return Decision(allowed=True)
    for grant in _list_grants(user, request.namespace, store):
        if any(_rule_allows(rule, request) for rule in grant.role.get("rules") or ()):
            return Decision(allowed=True, reason=f"RBAC: allowed by {_describe_rule(grant)}")
    return Decision(allowed=False)


def refusal(user: User, request: Attributes) -> ApiError:
    """Return the 403 (Forbidden) error for a request that RBAC denies, in
    kube-apiserver's words.
    """
    subject = f'User "{user.name}" cannot {request.verb}'
    if request.path:
        return ApiError(403, "Forbidden", f'forbidden: {subject} path "{request.path}"', {})
    scope = "at the cluster scope"
    if request.namespace:
        scope = f'in the namespace "{request.namespace}"'
    target = f'resource "{request.described}" in API group "{request.group}"'
    resource = Resource(request.group, "", request.resource, "")
    return forbidden(resource, request.name, f"{subject} {target} {scope}")


def _list_grants(user: User, namespace: str, store: Store) -> Iterator[_Grant]:
    for where in dict.fromkeys(("", namespace)):
        for binding in store.list(ROLE_BINDINGS if where else CLUSTER_ROLE_BINDINGS, where):
            subjects = binding.get("subjects") or ()
            subject = next((s for s in subjects if _is_subject(user, s, where)), None)
            if subject is not None:
                reference = binding["roleRef"]
                scope = where if reference["kind"] == "Role" else ""
                role = store.get(ROLES if scope else CLUSTER_ROLES, scope, reference["name"])
                if role is not None:
                    yield _Grant(binding, subject, role)


def _is_subject(user: User, subject: Object, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            scope = subject.get("namespace") or namespace
            return user.name == service_account_name(scope, name)
    return False


def _rule_allows(rule: Object, request: Attributes) -> bool:
    def names(field: str, value: str) -> bool:
        named = rule.get(field) or ()
        return value in named or "*" in named

    if not names("verbs", request.verb):
        return False
    if request.path:
        urls = rule.get("nonResourceURLs") or ()
        return any(
            url in ("*", request.path)
            or (url.endswith("*") and request.path.startswith(url.removesuffix("*")))
            for url in urls
        )
    every_part = bool(request.subresource) and names("resources", f"*/{request.subresource}")
    only = rule.get("resourceNames")
    return (
        names("apiGroups", request.group)
        and (names("resources", request.described) or every_part)
        and (not only or request.name in only)
    )


def _describe_rule(grant: _Grant) -> str:
    binding, subject, reference = grant.binding, grant.subject, grant.binding["roleRef"]
    kind, name, holder = "ClusterRoleBinding", binding["metadata"]["name"], subject["name"]
    namespace = binding["metadata"].get("namespace", "")
    if namespace:
        kind, name = "RoleBinding", f"{name}/{namespace}"
    if subject["kind"] == "ServiceAccount":
        holder = f"{holder}/{subject.get('namespace') or namespace}"
    role = f'{reference["kind"]} "{reference["name"]}"'
    return f'{kind} "{name}" of {role} to {subject["kind"]} "{holder}"'

"""Bootstrap ClusterRoles and ClusterRoleBindings of a new cluster.

Copied from k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy: roles that belong to
no component, restricted to the resources served here.
"""

from kubedsm_lab.emulator.access.rbac import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    SERVED,
    Object,
    Resource,
)

_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]

EVERYTHING: tuple[Object, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DOCUMENTS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH]
_SELF: list[Object] = [
    {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {
        "verbs": ["create"],
        "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"],
    },
]
#: role → its rules and bound groups
_BOUND: dict[str, tuple[list[Object], tuple[str, ...]]] = {
    "cluster-admin": (list(EVERYTHING), (MASTERS,)),
    "system:basic-user": (_SELF, (AUTHENTICATED,)),
    "system:discovery": ([{"verbs": ["get"], "nonResourceURLs": _DOCUMENTS}], (AUTHENTICATED,)),
    "system:public-info-viewer": (
        [{"verbs": ["get"], "nonResourceURLs": _HEALTH}],
        (AUTHENTICATED, UNAUTHENTICATED),
    ),
}
_TENANTS = [r for r in SERVED if r.namespaced and "list" in r.verbs and r.group != _RBAC]
#: resources that are read-only for tenants
_NOT_THEIRS = frozenset({"endpoints", "events", "resourcequotas"})


def _rule(verbs: list[str], resource: Resource, *subresources: str) -> Object:
    parts = [f"{resource.plural}/{part}" for part in subresources if part in resource.subresources]
    return {"verbs": verbs, "apiGroups": [resource.group], "resources": [resource.plural, *parts]}


#: role of tenants → its rules beyond those of the previous role
_ADDED: dict[str, list[Object]] = {
    "view": [_rule(_READ, resource, "scale", "status") for resource in _TENANTS],
    "edit": [
        *(_rule(_WRITE, r, "scale") for r in _TENANTS if r.plural not in _NOT_THEIRS),
        {
            "verbs": ["create"],
            "apiGroups": [""],
            "resources": ["pods/eviction", "serviceaccounts/token"],
        },
    ],
    "admin": [
        {
            "verbs": [*_READ, *_WRITE],
            "apiGroups": [_RBAC],
            "resources": ["roles", "rolebindings"],
        },
    ],
}


def install(api: ApiServer) -> None:
    """Create the bootstrap ClusterRoles and ClusterRoleBindings of a new cluster."""
    for name, (rules, groups) in _BOUND.items():
        api.create(CLUSTER_ROLES, _build_role(name, {}, rules=rules))
        api.create(CLUSTER_ROLE_BINDINGS, _build_binding(name, groups))
    above = ["edit", "admin", ""]
    for (name, rules), next_one in zip(_ADDED.items(), above, strict=True):
        joins = {_aggregation_label(next_one): "true"} if next_one else {}
        selector = {"matchLabels": {_aggregation_label(name): "true"}}
        rule = {"clusterRoleSelectors": [selector]}
        api.create(CLUSTER_ROLES, _build_role(name, joins, aggregationRule=rule))
        part = {_aggregation_label(name): "true"}
        api.create(CLUSTER_ROLES, _build_role(f"system:aggregate-to-{name}", part, rules=rules))


def _aggregation_label(role: str) -> str:
    """Return the label of ClusterRoles that are aggregated into this role."""
    return f"{_RBAC}/aggregate-to-{role}"


def _build_role(name: str, labels: dict[str, str], **body: object) -> Object:
    return {"metadata": {"name": name, "labels": {**_LABELS, **labels}}, **body}


def _build_binding(role: str, groups: tuple[str, ...]) -> Object:
    return {
        "metadata": {"name": role, "labels": _LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
    }

"""Bootstrap ClusterRoles and ClusterRoleBindings of a new cluster.

Copied from k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy, restricted to the
resources served here; the roles of tenants (view, edit, admin) are left out.
"""

from kubedsm_lab.emulator.access.rbac import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    Object,
)

_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}

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
        "resources": ["selfsubjectaccessreviews"],
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


def install(api: ApiServer) -> None:
    """Create the bootstrap ClusterRoles and ClusterRoleBindings of a new cluster."""
    for name, (rules, groups) in _BOUND.items():
        metadata = {"name": name, "labels": _LABELS}
        api.create(CLUSTER_ROLES, {"metadata": metadata, "rules": rules})
        api.create(CLUSTER_ROLE_BINDINGS, _build_binding(name, groups))


def _build_binding(role: str, groups: tuple[str, ...]) -> Object:
    return {
        "metadata": {"name": role, "labels": _LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group} for group in groups],
    }

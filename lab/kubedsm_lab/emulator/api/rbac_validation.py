"""What the API server refuses of roles and bindings, and what it fills in.

Source: k8s.io/kubernetes/pkg/apis/rbac, validation and v1/defaults.go.
"""

from collections.abc import Iterator

from kubedsm_lab.emulator.api.errors import FieldError, invalid_value, not_supported, required
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.selectors import SelectorError, label_selector_of

GROUP = "rbac.authorization.k8s.io"
_ROLES = {"RoleBinding": ("Role", "ClusterRole"), "ClusterRoleBinding": ("ClusterRole",)}
BINDINGS = frozenset(_ROLES)
_SUBJECTS = ("ServiceAccount", "User", "Group")


def with_groups(binding: Object) -> Object:
    """The binding with the API group of its role and of each subject that has one."""
    reference = binding.get("roleRef") or {}
    subjects = [
        subject if subject.get("kind") == "ServiceAccount" else {"apiGroup": GROUP, **subject}
        for subject in binding.get("subjects") or ()
    ]
    filled = {**binding, "roleRef": {"apiGroup": GROUP, **reference}}
    return {**filled, "subjects": subjects} if subjects else filled


def wrong_with_path_segment(name: str) -> str:
    """What is wrong with the name, which may hold anything else; empty if nothing."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{part}'" for part in "/%" if part in name), "")


def role_errors(role: Object) -> Iterator[FieldError]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    for index, given in enumerate(selectors):
        try:
            label_selector_of(given)
        except SelectorError as error:
            path = f"aggregationRule.clusterRoleSelectors[{index}]"
            yield invalid_value(path, given, str(error))
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if rule.get("nonResourceURLs"):
            mixed = any(rule.get(f) for f in ("apiGroups", "resources", "resourceNames"))
            why = (
                "namespaced rules cannot apply to non-resource URLs"
                if role["metadata"].get("namespace")
                else "rules cannot apply to both regular resources and non-resource URLs"
            )
            if mixed or role["metadata"].get("namespace"):
                yield invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why)
            continue
        if not rule.get("apiGroups"):
            why = "resource rules must supply at least one api group"
            yield required(f"{path}.apiGroups", why)
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def binding_errors(resource: Resource, binding: Object) -> Iterator[FieldError]:
    reference = binding["roleRef"]
    if reference["apiGroup"] != GROUP:
        yield not_supported("roleRef.apiGroup", reference["apiGroup"], [GROUP])
    kinds = _ROLES[resource.kind]
    if reference.get("kind") not in kinds:
        yield not_supported("roleRef.kind", reference.get("kind") or "", kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        path = f"subjects[{index}]"
        if subject["kind"] not in _SUBJECTS:
            yield not_supported(f"{path}.kind", subject["kind"], _SUBJECTS)
        elif not subject["name"]:
            yield required(f"{path}.name")
        elif (
            subject["kind"] == "ServiceAccount"
            and resource.kind == "ClusterRoleBinding"
            and not subject.get("namespace")
        ):
            yield required(f"{path}.namespace")


def binding_change_errors(binding: Object, before: Object) -> Iterator[FieldError]:
    if binding["roleRef"] != before["roleRef"]:
        yield invalid_value("roleRef", binding["roleRef"], "cannot change roleRef")

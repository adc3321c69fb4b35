"""The resources the emulated API server serves: one table for discovery, routing and storage."""

from typing import Any

import attrs

#: a Kubernetes object as JSON has it; a stored one is never changed in place
Object = dict[str, Any]

_READ_WRITE = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
_ANSWERED = ("create",)


@attrs.frozen(slots=True)
class Resource:
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: what discovery announces; kubectl does not look at it, clients that cache schemas do
    storage_version_hash: str = ""
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _READ_WRITE
    #: another resource whose objects these are, in another version's clothes
    alias_of: "Resource | None" = None

    @property
    def stored(self) -> "Resource":
        """The resource as whose objects they are kept."""
        return self.alias_of or self

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As error messages name it: pods, leases.coordination.k8s.io."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


CONFIGMAPS = Resource(
    "", "v1", "configmaps", "configmap", "ConfigMap", short_names=("cm",),
    storage_version_hash="qFsyl6wFWjQ=",
)  # fmt: skip
ENDPOINTS = Resource(
    "", "v1", "endpoints", "endpoints", "Endpoints", short_names=("ep",),
    storage_version_hash="fWeeMqaN/OA=",
)  # fmt: skip
EVENTS = Resource(
    "", "v1", "events", "event", "Event", short_names=("ev",),
    storage_version_hash="r2yiGXH7wu8=",
)  # fmt: skip
NAMESPACES = Resource(
    "", "v1", "namespaces", "namespace", "Namespace", namespaced=False, short_names=("ns",),
    storage_version_hash="Q3oi5N2YM8M=", subresources=("finalize", "status"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)  # fmt: skip
NODES = Resource(
    "", "v1", "nodes", "node", "Node", namespaced=False, short_names=("no",),
    storage_version_hash="XwShjMxG9Fs=", subresources=("status",),
)  # fmt: skip
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim",
    short_names=("pvc",), storage_version_hash="QWTyNDq0dC4=", subresources=("status",),
)  # fmt: skip
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "persistentvolume", "PersistentVolume", namespaced=False,
    short_names=("pv",), storage_version_hash="HN/zwEC+JgM=", subresources=("status",),
)  # fmt: skip
PODS = Resource(
    "", "v1", "pods", "pod", "Pod", short_names=("po",), categories=("all",),
    storage_version_hash="xPOwRZ+Yhw8=",
    subresources=("binding", "eviction", "log", "resize", "status"),
)  # fmt: skip
RESOURCE_QUOTAS = Resource(
    "", "v1", "resourcequotas", "resourcequota", "ResourceQuota", short_names=("quota",),
    storage_version_hash="8uhSgffRX6w=", subresources=("status",),
)  # fmt: skip
SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", short_names=("sa",),
    storage_version_hash="pbx9ZvyFpBE=", subresources=("token",),
)  # fmt: skip
SERVICES = Resource(
    "", "v1", "services", "service", "Service", short_names=("svc",), categories=("all",),
    storage_version_hash="0/CO1lhkEBI=", subresources=("status",),
)  # fmt: skip
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "deployment", "Deployment", short_names=("deploy",),
    categories=("all",), storage_version_hash="8aSe+NMegvE=", subresources=("scale", "status"),
)  # fmt: skip
REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "replicaset", "ReplicaSet", short_names=("rs",),
    categories=("all",), storage_version_hash="P1RzHs8/mWQ=", subresources=("scale", "status"),
)  # fmt: skip
STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "statefulset", "StatefulSet", short_names=("sts",),
    categories=("all",), storage_version_hash="H+vl74LkKdo=", subresources=("scale", "status"),
)  # fmt: skip
POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget",
    short_names=("pdb",), storage_version_hash="EVWiDmWqyJw=", subresources=("status",),
)  # fmt: skip
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",
    "HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
    storage_version_hash="qwQve8ut294=", subresources=("status",),
)  # fmt: skip
#: stored as autoscaling/v2
OLD_AUTOSCALERS = Resource(
    "autoscaling", "v1", "horizontalpodautoscalers", "horizontalpodautoscaler",
    "HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
    storage_version_hash="qwQve8ut294=", subresources=("status",),
    alias_of=HORIZONTAL_POD_AUTOSCALERS,
)  # fmt: skip
JOBS = Resource(
    "batch", "v1", "jobs", "job", "Job", categories=("all",), subresources=("status",),
)  # fmt: skip
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "storageclass", "StorageClass", namespaced=False,
    short_names=("sc",), storage_version_hash="K+m6uJwbjGY=",
)  # fmt: skip
CSI_NODES = Resource(
    "storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", namespaced=False,
    storage_version_hash="Pe62DkZtjuo=",
)  # fmt: skip
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass",
    namespaced=False, short_names=("pc",), storage_version_hash="1QwjyaZjj3Y=",
)  # fmt: skip
#: evaluated by `access.admission_policies`
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
    "validatingadmissionpolicy", "ValidatingAdmissionPolicy", namespaced=False,
    categories=("api-extensions",), subresources=("status",),
)  # fmt: skip
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",
    "validatingadmissionpolicybinding", "ValidatingAdmissionPolicyBinding", namespaced=False,
    categories=("api-extensions",),
)  # fmt: skip
LEASES = Resource(
    "coordination.k8s.io", "v1", "leases", "lease", "Lease",
    storage_version_hash="gqkMMb/YqFM=",
)  # fmt: skip
ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "roles", "role", "Role",
    storage_version_hash="7FuwZcIIItM=",
)  # fmt: skip
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding",
    storage_version_hash="eGsCzGH6b1g=",
)  # fmt: skip
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole",
    namespaced=False, storage_version_hash="bYE5ZWDrJ44=",
)  # fmt: skip
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding",
    "ClusterRoleBinding", namespaced=False, storage_version_hash="48tpQ8gZHFc=",
)  # fmt: skip
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview",
    "SelfSubjectReview", namespaced=False, verbs=_ANSWERED,
)  # fmt: skip
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "subjectaccessreview",
    "SubjectAccessReview", namespaced=False, verbs=_ANSWERED,
)  # fmt: skip
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "localsubjectaccessreview",
    "LocalSubjectAccessReview", verbs=_ANSWERED,
)  # fmt: skip
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview",
    "SelfSubjectAccessReview", namespaced=False, verbs=_ANSWERED,
)  # fmt: skip
SELF_SUBJECT_RULES_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview",
    "SelfSubjectRulesReview", namespaced=False, verbs=_ANSWERED,
)  # fmt: skip
#: stored as core/v1 events, read and written in the newer form
NEW_EVENTS = Resource(
    "events.k8s.io", "v1", "events", "event", "Event", short_names=("ev",),
    storage_version_hash="r2yiGXH7wu8=", alias_of=EVENTS,
)  # fmt: skip

#: questions about access, and answers: never stored
REVIEWS = (
    SELF_SUBJECT_REVIEWS, SUBJECT_ACCESS_REVIEWS, LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_RULES_REVIEWS,
)  # fmt: skip
SERVED = (
    CONFIGMAPS, ENDPOINTS, EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, PODS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, SERVICES, DEPLOYMENTS,
    REPLICA_SETS, STATEFUL_SETS, POD_DISRUPTION_BUDGETS, HORIZONTAL_POD_AUTOSCALERS,
    OLD_AUTOSCALERS, JOBS, STORAGE_CLASSES, CSI_NODES, PRIORITY_CLASSES,
    VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS, LEASES, NEW_EVENTS,
    ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *REVIEWS,
)  # fmt: skip

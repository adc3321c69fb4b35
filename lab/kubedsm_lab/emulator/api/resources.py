"""Table of the API resources served, used for discovery, routing and storage."""

import base64
import hashlib
from typing import Any

import attrs

#: Kubernetes object as JSON; stored ones are never changed in place
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
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = _READ_WRITE
    #: resource of the stored version of these objects
    alias_of: "Resource | None" = None

    @property
    def stored(self) -> "Resource":
        """Return the resource that stores these objects, in case of several API versions."""
        return self.alias_of or self

    @property
    def storage_version_hash(self) -> str:
        """Return the value in discovery for clients that cache schemas; "" for answers.

        Computed like `StorageVersionHash` of k8s.io/apiserver.
        """
        if self.verbs is _ANSWERED:
            return ""
        stored = f"{self.stored.group}/{self.stored.version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the resource's name in error messages: pods, leases.coordination.k8s.io."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",))
EVENTS = Resource("", "v1", "events", "Event", short_names=("ev",))
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",),
    subresources=("finalize", "status"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)  # fmt: skip
NODES = Resource(
    "", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=("status",),
)  # fmt: skip
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",),
    subresources=("status",),
)  # fmt: skip
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",),
    subresources=("status",),
)  # fmt: skip
PODS = Resource(
    "", "v1", "pods", "Pod", short_names=("po",), categories=("all",),
    subresources=("binding", "eviction", "log", "resize", "status"),
)  # fmt: skip
RESOURCE_QUOTAS = Resource(
    "", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=("status",),
)  # fmt: skip
SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=("token",),
)  # fmt: skip
SERVICES = Resource(
    "", "v1", "services", "Service", short_names=("svc",), categories=("all",),
    subresources=("status",),
)  # fmt: skip
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", short_names=("deploy",), categories=("all",),
    subresources=("scale", "status"),
)  # fmt: skip
REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", short_names=("rs",), categories=("all",),
    subresources=("scale", "status"),
)  # fmt: skip
STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", short_names=("sts",), categories=("all",),
    subresources=("scale", "status"),
)  # fmt: skip
POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
    subresources=("status",),
)  # fmt: skip
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler",
    short_names=("hpa",), categories=("all",), subresources=("status",),
)  # fmt: skip
CRON_JOBS = Resource(
    "batch", "v1", "cronjobs", "CronJob", short_names=("cj",), categories=("all",),
    subresources=("status",),
)  # fmt: skip
JOBS = Resource("batch", "v1", "jobs", "Job", categories=("all",), subresources=("status",))
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",),
)  # fmt: skip
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
    short_names=("pc",),
)  # fmt: skip
#: evaluated by `policies`
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy", namespaced=False, categories=("api-extensions",),
    subresources=("status",),
)  # fmt: skip
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding", namespaced=False, categories=("api-extensions",),
)  # fmt: skip
#: evaluated by `api.policies`
MUTATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy",
    namespaced=False, categories=("api-extensions",),
)  # fmt: skip
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding", namespaced=False, categories=("api-extensions",),
)  # fmt: skip
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False,
)  # fmt: skip
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding",
    namespaced=False,
)  # fmt: skip
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False,
    verbs=_ANSWERED,
)  # fmt: skip
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False,
    verbs=_ANSWERED,
)  # fmt: skip
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview",
    namespaced=False, verbs=_ANSWERED,
)  # fmt: skip
#: stored as core/v1 events
NEW_EVENTS = Resource(
    "events.k8s.io", "v1", "events", "Event", short_names=("ev",), alias_of=EVENTS,
)  # fmt: skip

#: access reviews: answered and never stored
REVIEWS = (
    SELF_SUBJECT_REVIEWS, SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_ACCESS_REVIEWS,
)  # fmt: skip
SERVED = (
    CONFIGMAPS, ENDPOINTS, EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, PODS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, SERVICES, DEPLOYMENTS,
    REPLICA_SETS, STATEFUL_SETS, POD_DISRUPTION_BUDGETS, HORIZONTAL_POD_AUTOSCALERS,
    CRON_JOBS, JOBS, STORAGE_CLASSES, CSI_DRIVERS, CSI_NODES, STORAGE_CAPACITIES,
    PRIORITY_CLASSES, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, LEASES, NEW_EVENTS,
    ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, *REVIEWS,
)  # fmt: skip

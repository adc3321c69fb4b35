"""Opting in and out: schedulerName of pod templates, labels of namespaces, and the own Deployment.

Commands use these requests with the rights of the user; the scheduler itself needs none of them.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from kubedsm.kube.calls.writes import MERGE
from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import (
    ADMISSION,
    APPS,
    CORE,
    Cluster,
    Forbidden,
    NotFound,
    ObjectName,
    path_of,
)
from kubedsm.kube.wire import schema
from kubedsm.kube.wire.decoding import read_json
from kubedsm.kube.wire.schema import Items
from kubedsm.model.model import Workload

#: value "true" on a namespace: the admission policy sets the schedulerName of its pods; value
#: "false" on a pod template: the policy skips these pods
OPT_IN_LABEL = "kubedsm.io/opt-in"
#: name of the admission policy in manifests/components/opt-in
POLICY_NAME = "kubedsm-opt-in"
DEFAULT_SCHEDULER = "default-scheduler"
#: namespaces that the policy never matches
EXEMPT_NAMESPACES = ("kube-system", "kubedsm")
#: kinds whose controllers replace all pods after a change of the pod template
KINDS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}


@attrs.frozen(slots=True)
class Template:
    """Workload with the part of its pod template that opting in concerns."""

    workload: Workload
    uid: str
    replicas: int
    scheduler_name: str
    labels: Mapping[str, str] = attrs.field(factory=dict, eq=False)
    annotations: Mapping[str, str] = attrs.field(factory=dict, eq=False)

    def __str__(self) -> str:
        """Return the workload as commands accept it: deployment/NAMESPACE/NAME."""
        workload = self.workload
        return f"{workload.kind.lower()}/{workload.namespace}/{workload.name}"

    def describe_rollout(self) -> str:
        """Return the announcement of a change to the pod template."""
        pods = f"{self.replicas} pod" + "s" * (self.replicas != 1)
        return f"rollout of {self}: its controller replaces {pods}"

    @property
    def refuses_policy(self) -> bool:
        """Return True if the template exempts its pods from the admission policy."""
        return self.labels.get(OPT_IN_LABEL) == "false"


async def list_templates(cluster: Cluster, namespace: str = "") -> list[Template]:
    """List the pod templates of workloads in the namespace, or in the whole cluster.

    Raises ClusterError.
    """
    found = []
    for kind, plural in KINDS.items():
        path = path_of(APPS, namespace, plural) if namespace else f"{APPS}/{plural}"
        body = await send(cluster, "GET", path)
        items = read_json(f"{kind}List", body, Items[schema.Workload]).items or ()
        found += [_read_template(kind, item) for item in items]
    return found


async def get_template(cluster: Cluster, workload: Workload) -> Template:
    """Read the pod template of a workload. Raises NotFound if absent."""
    path = path_of(APPS, workload.namespace, KINDS[workload.kind], workload.name)
    shape = read_json(workload.kind, await send(cluster, "GET", path), schema.Workload)
    return _read_template(workload.kind, shape)


def _read_template(kind: str, shape: schema.Workload) -> Template:
    metadata, template = shape.metadata, shape.spec.template
    return Template(
        Workload(metadata.namespace or "", kind, metadata.name),
        metadata.uid or "",
        shape.wanted,
        template.spec.scheduler_name or DEFAULT_SCHEDULER,
        template.metadata.labels or {},
        template.metadata.annotations or {},
    )


async def set_scheduler(
    cluster: Cluster, found: Template, scheduler_name: str, *, exempt: bool
) -> None:
    """Set schedulerName in the pod template, and exempt its pods from the admission policy or not.

    The workload's controller replaces all pods. Raises Invalid if the workload was replaced.
    """
    spec = {"schedulerName": None if scheduler_name == DEFAULT_SCHEDULER else scheduler_name}
    template: dict[str, Any] = {"spec": spec}
    if exempt is not found.refuses_policy:
        template["metadata"] = {"labels": {OPT_IN_LABEL: "false" if exempt else None}}
    patch = {"metadata": {"uid": found.uid}, "spec": {"template": template}}
    await _patch_workload(cluster, found.workload, patch)


async def restart(cluster: Cluster, found: Template, at: str) -> None:
    """Have the controller replace all pods of the workload, as `kubectl rollout restart` does."""
    annotations = {"kubectl.kubernetes.io/restartedAt": at}
    template = {"metadata": {"annotations": annotations}}
    patch = {"metadata": {"uid": found.uid}, "spec": {"template": template}}
    await _patch_workload(cluster, found.workload, patch)


async def scale_to_zero(cluster: Cluster, name: ObjectName) -> None:
    """Scale a Deployment to zero replicas. Raises NotFound if absent."""
    workload = Workload(name.namespace, "Deployment", name.name)
    await _patch_workload(cluster, workload, {"spec": {"replicas": 0}})


async def _patch_workload(cluster: Cluster, workload: Workload, patch: dict[str, Any]) -> None:
    path = path_of(APPS, workload.namespace, KINDS[workload.kind], workload.name)
    await send(cluster, "PATCH", path, patch, content_type=MERGE)


async def list_opted_in(cluster: Cluster) -> list[str]:
    """Return the names of the namespaces with the label for opting in."""
    query = {"labelSelector": f"{OPT_IN_LABEL}=true"}
    body = await send(cluster, "GET", f"{CORE}/namespaces", query=query)
    listed = read_json("NamespaceList", body, Items[schema.AnyObject]).items or ()
    return [namespace.metadata.name for namespace in listed]


async def is_opted_in(cluster: Cluster, namespace: str) -> bool:
    """Return True if the namespace has the label for opting in. Raises NotFound if absent."""
    body = await send(cluster, "GET", f"{CORE}/namespaces/{namespace}")
    shape = read_json("Namespace", body, schema.AnyObject)
    return (shape.metadata.labels or {}).get(OPT_IN_LABEL) == "true"


async def label_namespace(
    cluster: Cluster, name: str, value: str | None, *, dry_run: bool = False
) -> None:
    """Set or remove the namespace's label for opting in; with `dry_run` the API server only
    validates. Raises NotFound without the namespace.
    """
    path = f"{CORE}/namespaces/{name}"
    patch = {"metadata": {"labels": {OPT_IN_LABEL: value}}}
    query = {"dryRun": "All"} if dry_run else {}
    await send(cluster, "PATCH", path, patch, query=query, content_type=MERGE)


async def has_policy(cluster: Cluster) -> bool | None:
    """Return True if the admission policy for opting in is bound; None without the right to read.

    Returns False for API servers without MutatingAdmissionPolicies, too.
    """
    path = f"{ADMISSION}/mutatingadmissionpolicybindings/{POLICY_NAME}"
    try:
        await send(cluster, "GET", path)
    except NotFound:
        return False
    except Forbidden:
        return None
    return True

"""Operations of users, nodes and other controllers on the cluster."""

import json
from typing import Any

from kubedsm.config.settings import KEY
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.annotations import REQUEST_ANNOTATION, MoveRequest, RequestedMove
from kubedsm_lab.chaos.oracles import OURS, free
from kubedsm_lab.emulator.api.object_state import conditions_of, labels_of, node_of
from kubedsm_lab.emulator.api.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster

NAMESPACE = "default"
MERGE = "application/merge-patch+json"
#: ConfigMap of the configuration
CONFIGURED_BY = ConfigMapName("kubedsm", "kubedsm")
#: migrations cost nothing and start soon
_SETTINGS: Object = {
    "suggester": {"period": "1s"},
    "migration": {"price": "0s", "cooldown": "1s", "drainDelay": "1s", "deadline": "10s"},
    "site": {"settle": "10s"},
}
#: seconds until a pod is evicted from a node that is not ready
_LEAVES = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


class Hands:
    """Operations on the cluster. An object that no longer exists is skipped."""

    def __init__(self, cluster: EmulatedCluster) -> None:
        self._cluster = cluster
        self.api = cluster.api
        self.configure({})

    # Workloads. Their pods carry the label app, which is the workload's name.

    def deploy(
        self,
        name: str,
        replicas: int,
        cpu: str = "1",
        resource: Resource = DEPLOYMENTS,
        namespace: str = NAMESPACE,
        **pod_spec: Any,
    ) -> None:
        """Create a workload of the scheduler under test: one container a pod, label `app`."""
        labels = {"app": name}
        requests = {"cpu": cpu, "memory": "100Mi"}
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        template = {
            "schedulerName": OURS,
            "terminationGracePeriodSeconds": 1,
            "tolerations": _LEAVES,
            "containers": [container],
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template | pod_spec},
        }
        if resource is STATEFUL_SETS:
            spec["serviceName"] = name
        self._create(resource, name, namespace, spec=spec)

    def scale(self, name: str, replicas: int) -> None:
        self._patch(self.kind_of(name), name, {"spec": {"replicas": replicas}})

    def roll_out(self, name: str) -> None:
        """Change an annotation of the pod template."""
        template = {"metadata": {"annotations": {"restarted": "now"}}}
        self._patch(self.kind_of(name), name, {"spec": {"template": template}})

    def undeploy(self, name: str) -> None:
        kind = self.kind_of(name)
        if self.api.exists(kind, NAMESPACE, name):
            self.api.delete(kind, NAMESPACE, name, propagation="Background")

    def kind_of(self, name: str) -> Resource:
        """Return the resource of a workload."""
        return STATEFUL_SETS if self.api.exists(STATEFUL_SETS, NAMESPACE, name) else DEPLOYMENTS

    def replicas(self, name: str) -> int:
        """Return the wanted replicas. Raises ApiError if the workload is missing."""
        wanted: int = self.api.get(self.kind_of(name), NAMESPACE, name)["spec"]["replicas"]
        return wanted

    def prefer(self, name: str, priority: int) -> None:
        """Create a PriorityClass."""
        self.api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": priority})

    def forbid_more_pods(self) -> None:
        """Create a ResourceQuota that the present pods exhaust."""
        hard = {"pods": str(len(self.pods()))}
        self._create(RESOURCE_QUOTAS, "no-more", spec={"hard": hard})

    def allow_more_pods(self) -> None:
        self.api.delete(RESOURCE_QUOTAS, NAMESPACE, "no-more")

    def budget(self, name: str, app: str, **limit: str | int) -> None:
        """Create a disruption budget: `minAvailable` or `maxUnavailable` of the workload's pods."""
        spec = {**limit, "selector": {"matchLabels": {"app": app}}}
        self._create(POD_DISRUPTION_BUDGETS, name, spec=spec)

    def drop_budget(self, name: str) -> None:
        self.api.delete(POD_DISRUPTION_BUDGETS, NAMESPACE, name)

    def stop_controllers(self) -> None:
        """Stop all controllers, like a crash of kube-controller-manager."""
        self._cluster.stop_controllers()

    def start_controllers(self) -> None:
        self._cluster.start_controllers()

    # Pods.

    def delete_pod(self, name: str, grace_seconds: int | None = None) -> None:
        self.api.delete(PODS, NAMESPACE, name, grace_seconds=grace_seconds)

    def bind(self, name: str, node: str) -> None:
        """Bind a pod like another scheduler."""
        self.api.bind(NAMESPACE, name, {"target": {"kind": "Node", "name": node}})

    def hold_pod(self, name: str, *, held: bool = True) -> None:
        """Add a finalizer that blocks the deletion of the pod, or remove it."""
        self._patch(PODS, name, {"metadata": {"finalizers": ["example.com/held"] * held}})

    # Nodes.

    def add_node(self, node: Object) -> None:
        kept = {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]}
        self.api.create(NODES, {**node, "metadata": kept})

    def remove_node(self, name: str) -> Object:
        """Delete a node and return its last state."""
        node = self.api.get(NODES, "", name)
        self.api.delete(NODES, "", name)
        return node

    def lose_node(self, name: str) -> None:
        """Set the node condition Ready to Unknown."""
        self._report(name, "Unknown")

    def regain_node(self, name: str) -> None:
        self._report(name, "True")

    def cordon(self, name: str, *, cordoned: bool = True) -> None:
        self._patch(NODES, name, {"spec": {"unschedulable": cordoned}}, "")

    def resize_node(self, name: str, cpu: str) -> str:
        """Change the allocatable CPU of a node and return the previous amount."""
        node = self.api.get(NODES, "", name)
        amounts = node["status"]["allocatable"]
        status = node["status"] | {"allocatable": amounts | {"cpu": cpu}}
        self.api.update(NODES, {**node, "status": status}, subresource="status")
        before: str = amounts["cpu"]
        return before

    def fill_node(self, name: str, filler: str) -> None:
        """Create a pod, already bound, that takes all free CPU of the node."""
        requests = {"cpu": f"{free(self.api, name).amount('cpu')}m"}
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        spec = {"nodeName": name, "terminationGracePeriodSeconds": 0, "containers": [container]}
        self._create(PODS, filler, spec=spec)

    def _report(self, name: str, ready: str) -> None:
        if not self.api.exists(NODES, "", name):
            return
        node = self.api.get(NODES, "", name)
        others = [c for c in conditions_of(node["status"]) if c["type"] != "Ready"]
        now = self.api.store.now()
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": now}
        status = node["status"] | {"conditions": [*others, condition]}
        self.api.update(NODES, {**node, "status": status}, subresource="status")

    # The scheduler's configuration.

    def configure(self, document: Object) -> None:
        """Write the scheduler's configuration into its ConfigMap, on top of the common settings."""
        name = CONFIGURED_BY
        data = {KEY: json.dumps(_SETTINGS | document)}
        if self.api.exists(CONFIGMAPS, name.namespace, name.name):
            self.api.patch(CONFIGMAPS, name.namespace, name.name, {"data": data}, MERGE)
        else:
            self.api.create(NAMESPACES, {"metadata": {"name": name.namespace}})
            self._create(CONFIGMAPS, name.name, name.namespace, data=data)

    def configuration(self) -> str:
        """Return the text of the configuration."""
        name = CONFIGURED_BY
        text: str = self.api.get(CONFIGMAPS, name.namespace, name.name)["data"][KEY]
        return text

    def ask_to_move(self, app: str, target: str, at: float) -> None:
        """Request the migration of all pods of a workload, like `kubedsm suggest --apply`."""
        moves = tuple(
            RequestedMove(
                f"{NAMESPACE}/{pod['metadata']['name']}",
                pod["metadata"]["uid"],
                node_of(pod),
                target,
            )
            for pod in self.pods()
            if labels_of(pod).get("app") == app
        )
        request = str(MoveRequest("asked", at, "by-hand", moves))
        name, annotations = CONFIGURED_BY, {REQUEST_ANNOTATION: request}
        patch = {"metadata": {"annotations": annotations}}
        self._patch(CONFIGMAPS, name.name, patch, name.namespace)

    # Any object.

    def pods(self) -> list[Object]:
        """Return the pods of the scheduler under test."""
        there = self.api.list(PODS, NAMESPACE)
        return [pod for pod in there if pod["spec"]["schedulerName"] == OURS]

    def _create(
        self, resource: Resource, name: str, namespace: str = NAMESPACE, **content: Any
    ) -> None:
        metadata = {"name": name, "namespace": namespace}
        self.api.create(resource, {"metadata": metadata, **content}, namespace=namespace)

    def _patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = NAMESPACE
    ) -> None:
        if self.api.exists(resource, namespace, name):
            self.api.patch(resource, namespace, name, patch, MERGE)

"""What anybody but a scheduler does to a cluster: users, nodes, other controllers."""

import json
from typing import Any

from kubedsm.config.settings import KEY
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.kube.wire.annotations import REQUEST_ANNOTATION, MoveRequest, RequestedMove
from kubedsm_lab.chaos.oracles import OURS, free
from kubedsm_lab.emulator.actors import conditions
from kubedsm_lab.emulator.actors.pod_state import labels_of, node_of
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
#: where the configuration is, for those that follow it
CONFIGURED_BY = ConfigMapName("kubedsm", "kubedsm")
#: moves are free, and soon: whether they pay is another matter
_SETTINGS: Object = {
    "suggester": {"period": "1s"},
    "migration": {"price": "0s", "cooldown": "1s", "drainDelay": "1s", "deadline": "10s"},
    "site": {"settle": "10s"},
}
#: seconds after which a pod has to leave a node that does not answer
_LEAVES = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


class Hands:
    """What is to be changed, and is not there any more, needs nothing."""

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
        """One container a pod, of our scheduler."""
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
        """A template that differs by an annotation."""
        template = {"metadata": {"annotations": {"restarted": "now"}}}
        self._patch(self.kind_of(name), name, {"spec": {"template": template}})

    def undeploy(self, name: str) -> None:
        kind = self.kind_of(name)
        if self.api.exists(kind, NAMESPACE, name):
            self.api.delete(kind, NAMESPACE, name, propagation="Background")

    def kind_of(self, name: str) -> Resource:
        """What a workload is."""
        return STATEFUL_SETS if self.api.exists(STATEFUL_SETS, NAMESPACE, name) else DEPLOYMENTS

    def replicas(self, name: str) -> int:
        """That are wanted of it. Raises ApiError if it is not there."""
        wanted: int = self.api.get(self.kind_of(name), NAMESPACE, name)["spec"]["replicas"]
        return wanted

    def prefer(self, name: str, priority: int) -> None:
        """A priority class."""
        self.api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": priority})

    def forbid_more_pods(self) -> None:
        """A quota of as many as there are."""
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
        """As if kube-controller-manager had ended."""
        self._cluster.stop_controllers()

    def start_controllers(self) -> None:
        self._cluster.start_controllers()

    # Pods.

    def delete_pod(self, name: str, grace_seconds: int | None = None) -> None:
        self.api.delete(PODS, NAMESPACE, name, grace_seconds=grace_seconds)

    def bind(self, name: str, node: str) -> None:
        """As a scheduler does that is not ours."""
        self.api.bind(NAMESPACE, name, {"target": {"kind": "Node", "name": node}})

    def hold_pod(self, name: str, *, held: bool = True) -> None:
        """By a finalizer: a deletion comes to no end."""
        self._patch(PODS, name, {"metadata": {"finalizers": ["example.com/held"] * held}})

    # Nodes.

    def add_node(self, node: Object) -> None:
        kept = {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]}
        self.api.create(NODES, {**node, "metadata": kept})

    def remove_node(self, name: str) -> Object:
        """Returns it as it was."""
        node = self.api.get(NODES, "", name)
        self.api.delete(NODES, "", name)
        return node

    def lose_node(self, name: str) -> None:
        """It is heard of no more."""
        self._report(name, "Unknown")

    def regain_node(self, name: str) -> None:
        self._report(name, "True")

    def cordon(self, name: str, *, cordoned: bool = True) -> None:
        self._patch(NODES, name, {"spec": {"unschedulable": cordoned}}, "")

    def resize_node(self, name: str, cpu: str) -> str:
        """Returns how many cores it had."""
        node = self.api.get(NODES, "", name)
        amounts = node["status"]["allocatable"]
        status = node["status"] | {"allocatable": amounts | {"cpu": cpu}}
        self.api.update(NODES, {**node, "status": status}, subresource="status")
        before: str = amounts["cpu"]
        return before

    def fill_node(self, name: str, filler: str) -> None:
        """A pod that no scheduler was asked about takes all cores that are free."""
        requests = {"cpu": f"{free(self.api, name).amount('cpu')}m"}
        container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
        spec = {"nodeName": name, "terminationGracePeriodSeconds": 0, "containers": [container]}
        self._create(PODS, filler, spec=spec)

    def _report(self, name: str, ready: str) -> None:
        if not self.api.exists(NODES, "", name):
            return
        node = self.api.get(NODES, "", name)
        others = [c for c in conditions.of(node["status"]) if c["type"] != "Ready"]
        now = self.api.store.now()
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": now}
        status = node["status"] | {"conditions": [*others, condition]}
        self.api.update(NODES, {**node, "status": status}, subresource="status")

    # The scheduler's configuration.

    def configure(self, document: Object) -> None:
        """Have it in the ConfigMap that is followed, beside what holds in every run."""
        name = CONFIGURED_BY
        data = {KEY: json.dumps(_SETTINGS | document)}
        if self.api.exists(CONFIGMAPS, name.namespace, name.name):
            self.api.patch(CONFIGMAPS, name.namespace, name.name, {"data": data}, MERGE)
        else:
            self.api.create(NAMESPACES, {"metadata": {"name": name.namespace}})
            self._create(CONFIGMAPS, name.name, name.namespace, data=data)

    def configuration(self) -> str:
        """The text of it."""
        name = CONFIGURED_BY
        text: str = self.api.get(CONFIGMAPS, name.namespace, name.name)["data"][KEY]
        return text

    def ask_to_move(self, app: str, target: str, at: float) -> None:
        """As `kubedsm suggest --apply` does beside a scheduler: all pods of a workload."""
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
        """Those of our scheduler."""
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

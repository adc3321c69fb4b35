"""What anybody but a scheduler does to a cluster: users, nodes, other controllers."""

import json
from typing import Any

from kubedsm.chaos.invariants import OURS
from kubedsm.emulator.actors import conditions
from kubedsm.emulator.api.api_server import ApiServer
from kubedsm.emulator.api.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    Object,
    Resource,
)
from kubedsm.runtime.config_map import ConfigMapName
from kubedsm.runtime.configuration_source import KEY

NAMESPACE = "default"
MERGE = "application/merge-patch+json"
#: where the configuration is, for those that follow it
CONFIGURED_BY = ConfigMapName("kubedsm", "kubedsm")
#: moves are free, and soon: whether they pay is another matter
_SETTINGS: Object = {
    "suggester": {"period": "1s"},
    "migration": {"price": "0s", "cooldown": "1s", "drainDelay": "1s", "deadline": "10s"},
}
#: seconds after which a pod has to leave a node that does not answer
_LEAVES = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


class Hands:
    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.configure({})

    # Workloads. Their pods carry the label app, which is the workload's name.

    def deploy(
        self,
        name: str,
        replicas: int,
        cpu: str = "1",
        resource: Resource = DEPLOYMENTS,
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
        self._create(resource, name, spec=spec)

    def scale(self, name: str, replicas: int, resource: Resource = DEPLOYMENTS) -> None:
        self._patch(resource, name, {"spec": {"replicas": replicas}})

    def roll_out(self, name: str, resource: Resource = DEPLOYMENTS) -> None:
        """A template that differs by an annotation."""
        self._patch(resource, name, _annotated("restarted", "now"))

    def undeploy(self, name: str, resource: Resource = DEPLOYMENTS) -> None:
        self.api.delete(resource, NAMESPACE, name, propagation="Background")

    def prefer(self, name: str, priority: int) -> None:
        """A priority class."""
        self.api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": priority})

    # Nodes.

    def add_node(self, node: Object) -> None:
        self.api.create(NODES, node)

    def lose_node(self, name: str) -> None:
        """It is heard of no more."""
        self._report(name, "Unknown")

    def regain_node(self, name: str) -> None:
        self._report(name, "True")

    def remove_node(self, name: str) -> None:
        self.api.delete(NODES, "", name)

    def _report(self, name: str, ready: str) -> None:
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

    # Any object.

    def pods(self, app: str = "") -> list[Object]:
        return list(self.api.list(PODS, NAMESPACE, labels=f"app={app}" if app else ""))

    def _create(
        self, resource: Resource, name: str, namespace: str = NAMESPACE, **content: Any
    ) -> None:
        metadata = {"name": name, "namespace": namespace}
        self.api.create(resource, {"metadata": metadata, **content}, namespace=namespace)

    def _patch(self, resource: Resource, name: str, patch: Object) -> None:
        self.api.patch(resource, NAMESPACE, name, patch, MERGE)


def _annotated(key: str, value: str) -> Object:
    return {"spec": {"template": {"metadata": {"annotations": {key: value}}}}}

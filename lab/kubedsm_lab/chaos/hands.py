"""Changes that users, nodes and other controllers make to an emulated cluster."""

import json
from typing import Any

from kubedsm.config.settings import KEY
from kubedsm.kube.client.port import ObjectName
from kubedsm.kube.wire.annotations import REQUEST_ANNOTATION, MoveRequest, RequestedMove
from kubedsm_lab.chaos.oracles import DRAIN_DELAY, SCHEDULER_NAME, free_capacity
from kubedsm_lab.emulator.actors.volumes import LOCAL_PATH_CLASS
from kubedsm_lab.emulator.api import errors
from kubedsm_lab.emulator.api.api_server import ApiServer
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
    STORAGE_CLASSES,
    Object,
    Resource,
)
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.emulator.paper import pod_spec as make_pod_spec
from kubedsm_lab.emulator.paper import workload

NAMESPACE = "default"
MERGE = "application/merge-patch+json"
#: ConfigMap with the configuration of all schedulers
CONFIGURATION = ObjectName("kubedsm", "kubedsm")
#: configuration settings of every run: migrations are free and begin soon, whatever their benefit
_SETTINGS: Object = {
    "suggester": {"period": "1s"},
    "migration": {
        "price": "0s",
        "cooldown": "1s",
        "drainDelay": f"{DRAIN_DELAY:g}s",
        "deadline": "10s",
    },
    "site": {"settle": "10s"},
}
#: pods are evicted from an unreachable node after 5 seconds
TOLERATIONS = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


class Hands:
    """Actions of users, nodes and other controllers on an emulated cluster, used by chaos workloads
    and incidents.

    Operations on absent objects have no effect.
    """

    def __init__(
        self,
        api: ApiServer,
        cluster: EmulatedCluster | None = None,
        *,
        namespace: str = NAMESPACE,
        configuration: ObjectName = CONFIGURATION,
        scheduler: str = SCHEDULER_NAME,
    ) -> None:
        self.api = api
        self._cluster = cluster
        self.namespace = namespace
        self._configuration = configuration
        self._scheduler = scheduler
        self.write_configuration({})

    # Workloads. The label app of their pods is the workload's name.

    def create_workload(
        self,
        name: str,
        replicas: int,
        cpu: str = "1",
        resource: Resource = DEPLOYMENTS,
        namespace: str = "",
        storage: str = "",
        **pod_spec: Any,
    ) -> None:
        """Create a workload for the scheduler under test, with one container per pod.

        With `storage` each pod of a StatefulSet has a volume claim of that size.
        """
        template = make_pod_spec({"cpu": cpu, "memory": "100Mi"}, schedulerName=self._scheduler)
        template |= {"terminationGracePeriodSeconds": 1, "tolerations": TOLERATIONS, **pod_spec}
        spec = workload(name, replicas, template)["spec"]
        if resource is STATEFUL_SETS:
            spec["serviceName"] = name
        if storage:
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": storage}},
            }
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        self._create(resource, name, namespace or self.namespace, spec=spec)

    def scale_workload(self, name: str, replicas: int) -> None:
        self._patch(self.find_resource(name), name, {"spec": {"replicas": replicas}})

    def roll_out(self, name: str) -> None:
        """Start a rollout by changing an annotation of the pod template."""
        template = {"metadata": {"annotations": {"restarted": self.api.store.now()}}}
        self._patch(self.find_resource(name), name, {"spec": {"template": template}})

    def delete_workload(self, name: str) -> None:
        resource = self.find_resource(name)
        if self.api.exists(resource, self.namespace, name):
            self.api.delete(resource, self.namespace, name, propagation="Background")

    def find_resource(self, name: str) -> Resource:
        """Return the API resource of the workload: Deployment or StatefulSet."""
        return (
            STATEFUL_SETS if self.api.exists(STATEFUL_SETS, self.namespace, name) else DEPLOYMENTS
        )

    def count_replicas(self, name: str) -> int:
        """Return `spec.replicas` of the workload. Raises ApiError if absent."""
        desired: int = self.api.get(self.find_resource(name), self.namespace, name)["spec"][
            "replicas"
        ]
        return desired

    def create_storage_class(self) -> None:
        """Create K3s' default StorageClass: local volumes that wait for their first consumer."""
        self.api.create(STORAGE_CLASSES, LOCAL_PATH_CLASS)

    def create_priority_class(self, name: str, priority: int) -> None:
        self.api.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": priority})

    def forbid_more_pods(self) -> None:
        """Create a ResourceQuota that the existing pods exhaust, so no pod can be created."""
        hard = {"pods": str(len(self.list_pods()))}
        self._create(RESOURCE_QUOTAS, "no-more", spec={"hard": hard})

    def allow_more_pods(self) -> None:
        self.api.delete(RESOURCE_QUOTAS, self.namespace, "no-more")

    def create_budget(self, name: str, app: str, **limit: str | int) -> None:
        """Create a PodDisruptionBudget for the workload: `minAvailable` or `maxUnavailable`."""
        spec = {**limit, "selector": {"matchLabels": {"app": app}}}
        self._create(POD_DISRUPTION_BUDGETS, name, spec=spec)

    def delete_budget(self, name: str) -> None:
        self.api.delete(POD_DISRUPTION_BUDGETS, self.namespace, name)

    # Operations on pods.

    def delete_pod(self, name: str, grace_seconds: int | None = None) -> None:
        self.api.delete(PODS, self.namespace, name, grace_seconds=grace_seconds)

    def evict_pod(self, name: str) -> None:
        """Evict a pod, as `kubectl drain` does. Raises ApiError if a budget refuses."""
        self.api.evict(self.namespace, name, {"metadata": {"name": name}})

    def bind_pod(self, name: str, node: str) -> None:
        """Bind a pod to a node, as another scheduler would."""
        self.api.bind(self.namespace, name, {"target": {"kind": "Node", "name": node}})

    def hold_pod(self, name: str, *, held: bool = True) -> None:
        """Add or remove a finalizer on the pod, which delays the completion of the
        pod's deletion.
        """
        self._patch(PODS, name, {"metadata": {"finalizers": ["example.com/held"] * held}})

    # Operations on nodes.

    def add_node(self, node: Object) -> None:
        metadata = {name: node["metadata"][name] for name in ("name", "labels")}
        self.api.create(NODES, {**node, "metadata": metadata})

    def remove_node(self, name: str) -> Object:
        """Delete the node, and return the deleted object."""
        node = self.api.get(NODES, "", name)
        self.api.delete(NODES, "", name)
        return node

    def lose_node(self, name: str, *, lost: bool = True) -> None:
        """Set the node's Ready condition to Unknown, as for an unreachable kubelet, or to True."""
        if not self.api.exists(NODES, "", name):
            return
        node = self.api.get(NODES, "", name)
        others = [c for c in conditions_of(node["status"]) if c["type"] != "Ready"]
        ready, now = "Unknown" if lost else "True", self.api.store.now()
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": now}
        status = node["status"] | {"conditions": [*others, condition]}
        self.api.update(NODES, {**node, "status": status}, subresource="status")

    def cordon_node(self, name: str, *, cordoned: bool = True) -> None:
        self._patch(NODES, name, {"spec": {"unschedulable": cordoned}}, "")

    def resize_node(self, name: str, cpu: str) -> str:
        """Set the node's allocatable CPU, and return the previous amount."""
        node = self.api.get(NODES, "", name)
        amounts = node["status"]["allocatable"]
        status = node["status"] | {"allocatable": amounts | {"cpu": cpu}}
        self.api.update(NODES, {**node, "status": status}, subresource="status")
        before: str = amounts["cpu"]
        return before

    def fill_node(self, name: str, filler: str) -> None:
        """Create a bound pod that requests the node's free CPU, as a DaemonSet may."""
        requests = {"cpu": f"{free_capacity(self.api, name).amount('cpu')}m"}
        spec = make_pod_spec(requests, nodeName=name, schedulerName="default-scheduler")
        self._create(PODS, filler, spec=spec)

    # Controllers.

    def stop_controllers(self, *, stopped: bool = True) -> None:
        """Pause or resume kube-controller-manager. Raises ApiError unless emulated."""
        if self._cluster is None:
            raise errors.bad_request("no client can pause the controllers of a cluster")
        if stopped:
            self._cluster.stop_controllers()
        else:
            self._cluster.start_controllers()

    # The scheduler's configuration.

    def write_configuration(self, document: Object) -> None:
        """Write the scheduler's ConfigMap: the settings of every run, updated by the document."""
        name = self._configuration
        data = {KEY: json.dumps(_SETTINGS | document)}
        if self.api.exists(CONFIGMAPS, name.namespace, name.name):
            self.api.patch(CONFIGMAPS, name.namespace, name.name, {"data": data}, MERGE)
        else:
            self.api.create(NAMESPACES, {"metadata": {"name": name.namespace}})
            self._create(CONFIGMAPS, name.name, name.namespace, data=data)

    def read_configuration(self) -> str:
        """Return the configuration document in the scheduler's ConfigMap."""
        name = self._configuration
        text: str = self.api.get(CONFIGMAPS, name.namespace, name.name)["data"][KEY]
        return text

    def request_migration(self, app: str, target: str, at: float) -> None:
        """Request the migration of all pods of a workload, as `kubedsm suggest --apply` does."""
        moves = tuple(
            RequestedMove(
                f"{self.namespace}/{pod['metadata']['name']}",
                pod["metadata"]["uid"],
                node_of(pod),
                target,
            )
            for pod in self.list_pods()
            if labels_of(pod).get("app") == app
        )
        request = str(MoveRequest("asked", at, "by-hand", moves))
        name, annotations = self._configuration, {REQUEST_ANNOTATION: request}
        patch = {"metadata": {"annotations": annotations}}
        self._patch(CONFIGMAPS, name.name, patch, name.namespace)

    # Arbitrary Kubernetes objects.

    def list_pods(self) -> list[Object]:
        """Return all pods whose schedulerName is that of the scheduler under test."""
        pods = self.api.list(PODS, self.namespace)
        return [pod for pod in pods if pod["spec"]["schedulerName"] == self._scheduler]

    def _create(
        self, resource: Resource, name: str, namespace: str | None = None, **content: Any
    ) -> None:
        namespace = self.namespace if namespace is None else namespace
        metadata = {"name": name, "namespace": namespace}
        self.api.create(resource, {"metadata": metadata, **content}, namespace=namespace)

    def _patch(
        self, resource: Resource, name: str, patch: Object, namespace: str | None = None
    ) -> None:
        namespace = self.namespace if namespace is None else namespace
        if self.api.exists(resource, namespace, name):
            self.api.patch(resource, namespace, name, patch, MERGE)

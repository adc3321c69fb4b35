"""Small emulated cluster in virtual time, for tests of controllers and kubelets."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kubedsm_lab.emulator import paper
from kubedsm_lab.emulator.actors.kubelet import ContainerRuntime
from kubedsm_lab.emulator.actors.scaling_metrics import Metrics, Usage
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import controller_of, find_condition, key_of
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    Object,
    Resource,
)
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.replay.virtual_time import VirtualClock

MERGE = "application/merge-patch+json"
NS = "default"
NODE_NAMES = ("n1", "n2", "n3")
#: virtual seconds in which everything that needs no binding has happened
SOON = 0.5


def pod_spec(cpu: str = "1", memory: str = "1Gi", *, grace: int = 1) -> Object:
    requests = {"cpu": cpu, "memory": memory}
    spec = paper.pod_spec(requests, terminationGracePeriodSeconds=grace)
    spec["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    return spec


def template(name: str, **spec: str) -> Object:
    return {"metadata": {"labels": {"app": name}}, "spec": pod_spec(**spec)}


def labelled_workload(kind: str, name: str, replicas: int, **spec: object) -> Object:
    """Return a workload that has the label app itself, too; `spec` is added or replaced."""
    made = paper.workload(name, replicas, pod_spec(), kind, **spec)
    made["metadata"]["labels"] = {"app": name}
    return made


def condition(obj: Object, kind: str) -> tuple[str, str]:
    """Return status and reason of an object's condition; empty texts if absent."""
    found = find_condition(obj["status"].get("conditions", []), kind)
    return (found["status"], found.get("reason", "")) if found else ("", "")


class World:
    def __init__(self, cluster: EmulatedCluster) -> None:
        self.api: ApiServer = cluster.api
        self.routes = cluster.routes
        self.serving = cluster.serving
        self.changes: list[ObjectChange] = []
        self.api.store.subscribe(self.changes.append)

    async def pass_time(self, seconds: float = SOON) -> None:
        await asyncio.sleep(seconds)

    def create(
        self, resource: Resource, name: str, labels: Object | None = None, **fields: object
    ) -> Object:
        made = {"metadata": {"name": name, "labels": labels or {}}, **fields}
        return self.api.create(resource, made, namespace=NS if resource.namespaced else "")

    def deployment(self, name: str, replicas: int = 2, **spec: object) -> Object:
        return self.api.create(
            DEPLOYMENTS, labelled_workload("Deployment", name, replicas, **spec), namespace=NS
        )

    def pod(self, name: str, *, on: str = "", cpu: str = "1", **metadata: object) -> Object:
        spec = pod_spec(cpu)
        if on:
            spec["nodeName"] = on
        return self.api.create(
            PODS, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace=NS
        )

    def scale(self, name: str, replicas: int) -> None:
        self.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})

    def patch(
        self, resource: Resource, name: str, patch: Object, *, subresource: str = ""
    ) -> Object:
        namespace = NS if resource.namespaced else ""
        return self.api.patch(resource, namespace, name, patch, MERGE, subresource=subresource)

    def get(self, resource: Resource, name: str) -> Object:
        return self.api.get(resource, NS if resource.namespaced else "", name)

    def names(self, resource: Resource, app: str = "") -> list[str]:
        found = self.api.list(resource, NS, labels=f"app={app}" if app else "")
        return [obj["metadata"]["name"] for obj in found]

    def pods(self, app: str = "") -> list[Object]:
        return self.api.list(PODS, NS, labels=f"app={app}" if app else "")

    def running(self, app: str = "") -> list[Object]:
        return [pod for pod in self.pods(app) if condition(pod, "Ready")[0] == "True"]

    def replica_sets(self, app: str) -> list[Object]:
        return self.api.list(REPLICA_SETS, NS, labels=f"app={app}")

    def bind(self, pod: Object, node_name: str, **metadata: object) -> None:
        identity = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], **metadata}
        target = {"kind": "Node", "name": node_name}
        self.api.bind(*key_of(pod), {"metadata": identity, "target": target})

    def bind_all(self, app: str = "") -> None:
        """Bind all pending pods of the app, round-robin over the nodes."""
        waiting = [
            pod
            for pod in self.pods(app)
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        ]
        for index, pod in enumerate(waiting):
            self.bind(pod, NODE_NAMES[index % len(NODE_NAMES)])

    def schedule_always(self) -> Callable[[], None]:
        """Bind every new pod shortly after its creation; return a function that stops this."""
        loop = asyncio.get_running_loop()

        def noticed(change: ObjectChange) -> None:
            if change.resource is PODS and change.type == "ADDED":
                loop.call_later(0.01, self.bind_all)

        return self.api.store.subscribe(noticed)

    def events_of(self, pod: Object) -> list[str]:
        uid = pod["metadata"]["uid"]
        return [c.type for c in self.changes if c.object["metadata"]["uid"] == uid]

    def writes_since(self, revision: int) -> list[str]:
        return [
            f"{c.type} {c.resource.plural}/{c.object['metadata']['name']}"
            for c in self.changes
            if c.revision > revision
        ]


def owner_of(obj: Object) -> str:
    owner = controller_of(obj)
    return owner["name"] if owner else ""


def set_node_ready(world: World, name: str, status: str) -> None:
    ready = {
        "type": "Ready",
        "status": status,
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Test",
        "message": "",
    }
    world.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


@asynccontextmanager
async def emulated(
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    metrics: Metrics | None = None,
    usage: Usage | None = None,
    seed: int = 1,
    runtime: ContainerRuntime | None = None,
    paced: bool = False,
    readers: bool = False,
    **timing: float,
) -> AsyncIterator[World]:
    """Run an emulated cluster with three equal nodes.

    Pods start in 0.2 s and stop in 0.1 s unless `timing` says otherwise. The wall clock begins at
    2026-01-01T00:00:00Z, also for the second cluster of a test. With `readers` of Events there is
    a default scheduler too.
    """
    clock = VirtualClock(VirtualClock().epoch - asyncio.get_running_loop().time())
    spec = ClusterSpec(
        tuple(paper.node(name, "edge", cpu, memory) for name in NODE_NAMES),
        Timing(**{"start_delay": 0.2, "stop_delay": 0.1, **timing}),
    )
    rng = random.Random(seed)
    cluster = EmulatedCluster(
        spec, clock, rng, metrics, None, runtime, usage, default_scheduler=readers, paced=paced
    )
    async with cluster:
        world = World(cluster)
        await world.pass_time()
        yield world

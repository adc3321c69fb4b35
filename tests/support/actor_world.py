"""Small emulated cluster in virtual time, for tests of controllers and kubelets."""

import asyncio
import random
from contextlib import asynccontextmanager

from kubedsm_lab.emulator import paper
from kubedsm_lab.emulator.api.object_state import controller_of, find_condition, key_of
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.api_cases import NS, ApiObjects

NODE_NAMES = ("n1", "n2", "n3")
#: virtual seconds in which everything that needs no binding has happened
SOON = 0.5


def pod_spec(cpu="1"):
    spec = paper.pod_spec({"cpu": cpu, "memory": "1Gi"}, terminationGracePeriodSeconds=1)
    spec["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
    return spec


def template(name):
    return {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}


def labelled_workload(kind, name, replicas, **spec):
    """Return a workload that has the label app itself, too; `spec` is added or replaced."""
    made = paper.workload(name, replicas, pod_spec(), kind, **spec)
    made["metadata"]["labels"] = {"app": name}
    return made


def condition(obj, kind):
    """Return status and reason of an object's condition; empty texts if absent."""
    found = find_condition(obj["status"].get("conditions", []), kind)
    return (found["status"], found.get("reason", "")) if found else ("", "")


class World(ApiObjects):
    def __init__(self, cluster):
        self.api, self.routes, self.serving = cluster.api, cluster.routes, cluster.serving
        self.changes = []
        self.api.store.subscribe(self.changes.append)

    async def pass_time(self, seconds=SOON):
        await asyncio.sleep(seconds)

    def deployment(self, name, replicas=2, **spec):
        made = labelled_workload("Deployment", name, replicas, **spec)
        return self.api.create(DEPLOYMENTS, made, namespace=NS)

    def pod(self, name, *, on="", cpu="1", **metadata):
        spec = {**pod_spec(cpu), **({"nodeName": on} if on else {})}
        made = {"metadata": {"name": name, **metadata}, "spec": spec}
        return self.api.create(PODS, made, namespace=NS)

    def names(self, resource):
        return [obj["metadata"]["name"] for obj in self.api.list(resource, NS)]

    def running(self, app=""):
        return [pod for pod in self.pods(app) if condition(pod, "Ready")[0] == "True"]

    def replica_sets(self, app):
        return self.api.list(REPLICA_SETS, NS, labels=f"app={app}")

    def bind(self, pod, node_name, **metadata):
        identity = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"], **metadata}
        target = {"kind": "Node", "name": node_name}
        self.api.bind(*key_of(pod), {"metadata": identity, "target": target})

    def bind_all(self, app=""):
        """Bind all pending pods of the app, round-robin over the nodes."""
        waiting = [
            pod
            for pod in self.pods(app)
            if "nodeName" not in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
        ]
        for index, pod in enumerate(waiting):
            self.bind(pod, NODE_NAMES[index % len(NODE_NAMES)])

    def schedule_always(self):
        """Bind every new pod shortly after its creation; return a function that stops this."""
        loop = asyncio.get_running_loop()

        def noticed(change):
            if change.resource is PODS and change.type == "ADDED":
                loop.call_later(0.01, self.bind_all)

        return self.api.store.subscribe(noticed)

    async def bring_up(self, replicas, name="web"):
        """Run a Deployment whose pods are bound as they come."""
        self.schedule_always()
        self.deployment(name, replicas)
        await self.pass_time(1.0)
        assert len(self.running(name)) == replicas

    def writes_since(self, revision):
        return [
            f"{c.type} {c.resource.plural}/{c.object['metadata']['name']}"
            for c in self.changes
            if c.revision > revision
        ]


def owner_of(obj):
    owner = controller_of(obj)
    return owner["name"] if owner else ""


def set_node_ready(world, name, status):
    since = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")
    ready = {"type": "Ready", "status": status, "reason": "Test", "message": "", **since}
    world.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")


@asynccontextmanager
async def emulated(
    *,
    cpu="8",
    metrics=None,
    usage=None,
    seed=1,
    runtime=None,
    paced=False,
    readers=False,
    **timing,
):
    """Run an emulated cluster with three equal nodes.

    Pods start in 0.2 s and stop in 0.1 s unless `timing` says otherwise. The wall clock begins at
    2026-01-01T00:00:00Z, also for the second cluster of a test. With `readers` of Events there is
    a default scheduler too.
    """
    clock = VirtualClock(VirtualClock().epoch - asyncio.get_running_loop().time())
    spec = ClusterSpec(
        tuple(paper.node(name, "edge", cpu, "32Gi") for name in NODE_NAMES),
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

"""The moves that matter most, over real HTTP: client, sockets and watches as in life."""

import asyncio
import json
import random
from contextlib import asynccontextmanager

import pytest

from kubedsm.app.assembly import Runtime
from kubedsm.config.settings import load
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.model.model import Uid
from kubedsm.process.clock import SystemClock
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    ENDPOINTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.http.server import HttpFront, kubeconfig
from kubedsm_lab.emulator.paper import node
from plans.migration import MoveMode, MoveOrder
from support.move_scenes import group_of

pytestmark = [pytest.mark.http, pytest.mark.asyncio]

CLOUD = node("c1", "cloud", "20", "40Gi")
PATIENCE = 120.0
CONFIGURATION = "migration: {cooldown: 100ms, drainDelay: 100ms, deadline: 5s}\n"
ON = load(CONFIGURATION + "suggester: {period: 200ms}", "test")
OFF = load(CONFIGURATION + "suggester: {mode: 'off'}", "test")


class World:
    def __init__(self, cluster, runtime):
        self.api, self.runtime = cluster.api, runtime
        #: the fewest Ready pods (endpoints) there ever were, once there were any, by app
        self.lowest = {}
        cluster.api.store.subscribe(self._notice)

    def _notice(self, change):
        if change.resource is ENDPOINTS:
            app = change.object["metadata"]["name"]
            subsets = change.object.get("subsets") or []
            ready = sum(len(s.get("addresses") or ()) for s in subsets)
            self._note(f"endpoints of {app}", ready)
        elif change.resource is PODS:
            app = change.object["metadata"]["labels"]["app"]
            self._note(app, sum(map(is_ready, self.pods(app))))

    def _note(self, what, count):
        if what in self.lowest:
            self.lowest[what] = min(self.lowest[what], count)

    def watch_from_now(self, *what):
        """Expect what there is now of it at every later revision."""
        for name in what:
            self.lowest[name] = 10**6

    def pods(self, app):
        return self.api.list(PODS, "default", labels=f"app={app}")

    def placed(self, app):
        return sorted(pod["spec"].get("nodeName", "") for pod in self.pods(app))

    def create(self, resource, name, spec):
        obj = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.api.create(resource, obj, namespace="default")

    def deploy(self, app, replicas, resource=DEPLOYMENTS, **extra):
        labels = {"app": app}
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        pod = {
            "schedulerName": "kubedsm",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.create(resource, app, spec | extra)

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - of any kind, on the store
                await asyncio.sleep(0.02)

    async def until_ready(self, app, count):
        await self.until(lambda: sum(map(is_ready, self.pods(app))) == count)

    async def until_done(self):
        await self.until(
            lambda: (
                self.runtime.manager.quiet.is_set()
                and not self.api.list(PODS, labels="kubedsm.io/migrating")
            )
        )


def is_ready(pod):
    conditions = pod["status"].get("conditions", ())
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


@asynccontextmanager
async def serving(tmp_path, configuration, *nodes):
    clock, rng = SystemClock(), random.Random(0)
    spec = ClusterSpec(nodes, Timing(start_delay=0.1, stop_delay=0.1))
    async with EmulatedCluster(spec, clock, rng) as cluster, HttpFront(cluster.routes) as front:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(kubeconfig(front.url)))
        async with await KubernetesCluster.connect(path) as client, asyncio.TaskGroup() as tasks:
            runtime = Runtime(client, configuration, clock, rng)
            running = tasks.create_task(runtime.run())
            await runtime.synced.wait()
            yield World(cluster, runtime)
            running.cancel()


async def test_no_replica_is_lost_on_the_way_to_the_edge(tmp_path):
    """One behind a Service, three with a budget; a StatefulSet's are recreated one by one."""
    async with serving(tmp_path, ON, CLOUD) as world:
        selector = {"matchLabels": {"app": "web"}}
        world.create(POD_DISRUPTION_BUDGETS, "web", {"maxUnavailable": 1, "selector": selector})
        world.create(SERVICES, "single", {"selector": {"app": "single"}, "ports": [{"port": 80}]})
        world.deploy("single", 1)
        world.deploy("web", 3)
        world.deploy("db", 2, STATEFUL_SETS, serviceName="db")
        for app, replicas in (("single", 1), ("web", 3), ("db", 2)):
            await world.until_ready(app, replicas)
        await asyncio.sleep(0.1)
        world.watch_from_now("single", "web", "db", "endpoints of single")
        world.api.create(NODES, node("e1", "edge", "6", "16Gi"))
        for app, replicas in (("single", 1), ("web", 3), ("db", 2)):
            await world.until(lambda a=app, n=replicas: world.placed(a) == ["e1"] * n)
        await world.until_done()
        assert world.lowest == {"single": 1, "endpoints of single": 1, "web": 3, "db": 1}


async def test_two_full_nodes_swap_their_pods_through_the_cloud(tmp_path):
    async with serving(tmp_path, OFF, node("e1", "edge", "1", "8Gi")) as world:
        world.deploy("a", 1)
        await world.until_ready("a", 1)
        world.api.create(NODES, node("e2", "edge", "1", "8Gi"))
        world.deploy("b", 1)
        await world.until_ready("b", 1)
        world.api.create(NODES, CLOUD)
        mirror = world.runtime.mirror
        await world.until(lambda: "c1" in mirror.snapshot().nodes)
        uids = {app: world.pods(app)[0]["metadata"]["uid"] for app in "ab"}
        await world.until(lambda: all(mirror.pod(Uid(u)).ready for u in uids.values()))
        world.watch_from_now("a", "b")
        orders = [
            MoveOrder("a-out", uids["a"], "c1", MoveMode.SURGE, 5.0),
            MoveOrder("b", uids["b"], "e1", MoveMode.SURGE, 5.0, frozenset({"a-out"})),
            MoveOrder("a", "", "e2", MoveMode.SURGE, 5.0, frozenset("b"), "a-out"),
        ]
        world.runtime.manager.migrate("swap", group_of(orders, mirror))
        await world.until(lambda: (world.placed("a"), world.placed("b")) == (["e2"], ["e1"]))
        await world.until_done()
        assert world.lowest == {"a": 1, "b": 1}

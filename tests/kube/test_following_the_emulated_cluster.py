"""Reflectors and verbs on the emulated cluster, in this process and over HTTP: the same code."""

import asyncio
import contextlib
import json
import random

import pytest

from kubedsm.kube.calls import reads, writes
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import Conflict, NotFound
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import NODES as ALL_NODES
from kubedsm.kube.wire.decoding import PODS as ALL_PODS
from kubedsm.model.events import NodeApplied, NodeDeleted, PodApplied
from kubedsm.model.model import Tiers, Workload
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, EVENTS, NODES, PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster, Timing
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.http.server import HttpFront, kubeconfig
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.actor_world import MERGE, NS, labelled_workload

SPEC = ClusterSpec(
    tuple(node(name, "edge", "4", "4G") for name in ("n2", "n3")),
    Timing(start_delay=0.05, stop_delay=0.05),
)


class Follower:
    """What is known from the events of two reflectors."""

    def __init__(self):
        self.nodes = {}
        self.pods = {}
        self.reports = []
        self._changed = asyncio.Event()

    def on_event(self, event):
        match event:
            case NodeApplied(applied):
                self.nodes[applied.name] = applied
            case NodeDeleted(name):
                del self.nodes[name]
            case PodApplied(pod):
                self.pods[pod.uid] = pod
            case _:
                del self.pods[event.uid]
        self._changed.set()

    async def until(self, condition):
        async with asyncio.timeout(10.0):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def following(cluster, clock):
    follower = Follower()
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(
                Reflector(
                    cluster, watched, clock, random.Random(1), follower.on_event, list,
                    follower.reports.append, page_size=1,
                ).run()
            )
            for watched in (ALL_NODES, ALL_PODS)
        ]  # fmt: skip
        yield follower
        for task in running:
            task.cancel()


async def story(cluster, api, clock):
    """Three pods of a Deployment are bound, one goes, and so does a node."""
    assert (await reads.version(cluster, timeout=2.0)).startswith("v1.")
    async with following(cluster, clock) as follower:
        await follower.until(lambda known: set(known.nodes) == {"n2", "n3"})
        api.create(DEPLOYMENTS, labelled_workload("Deployment", "web", 3), namespace=NS)
        await follower.until(lambda known: len(known.pods) == 3)
        one, two, three = follower.pods.values()
        assert one.workload == two.workload == Workload(NS, "Deployment", "web")
        assert one.pod_class == three.pod_class
        assert one.requests.cpu == 1000
        assert Tiers().of(follower.nodes["n2"].labels) == "edge"

        await writes.set_pod_condition(
            cluster, three, "Unschedulable", "0/2 nodes fit", since=clock.wall(), timeout=2.0
        )
        shown = api.get(PODS, NS, three.name)["status"]["conditions"]
        assert shown[0]["message"] == "0/2 nodes fit"

        for pod, target in ((one, "n2"), (two, "n3"), (three, "n3")):
            await writes.bind(
                cluster, pod, target,
                annotations={"controller.kubernetes.io/pod-deletion-cost": "5"},
                labels={"tier": "edge"}, timeout=2.0,
            )  # fmt: skip
        await follower.until(lambda known: all(pod.ready for pod in known.pods.values()))
        bound = {pod.uid: pod for pod in follower.pods.values()}
        assert [bound[p.uid].node_name for p in (one, two, three)] == ["n2", "n3", "n3"]
        assert bound[one.uid].labels["tier"] == "edge"
        assert await reads.get_pod(cluster, NS, one.name, timeout=2.0) == bound[one.uid]

        with pytest.raises(Conflict, match="already assigned to node"):
            await writes.bind(cluster, one, "n3", annotations={}, labels={}, timeout=2.0)
        await writes.create_event(
            cluster, writes.Regarding.of(one), reason="Scheduled", action="Binding",
            note="assigned to n2", instance="kubedsm-1", at=clock.wall(), timeout=2.0,
        )  # fmt: skip
        assert [event["involvedObject"]["uid"] for event in api.list(EVENTS, NS)] == [one.uid]
        with pytest.raises(NotFound):
            await reads.get_config_map(cluster, NS, "kubedsm", timeout=2.0)

        api.patch(DEPLOYMENTS, NS, "web", {"spec": {"replicas": 2}}, MERGE)
        api.delete(NODES, "", "n2")
        await follower.until(lambda known: len(known.pods) == 2 and set(known.nodes) == {"n3"})
        assert follower.reports == []


async def test_in_this_process_and_in_virtual_time():
    clock = VirtualClock()
    async with EmulatedCluster(SPEC, clock, random.Random(1)) as emulated:
        await story(EmulatedFront(emulated.routes, clock), emulated.api, clock)


@pytest.mark.http
async def test_over_http(tmp_path):
    clock = VirtualClock()
    path = tmp_path / "config"
    async with (
        EmulatedCluster(SPEC, clock, random.Random(1), token="let-me-in") as emulated,  # noqa: S106
        HttpFront(emulated.routes) as front,
    ):
        path.write_text(json.dumps(kubeconfig(front.url, "let-me-in")))
        async with await KubernetesCluster.from_kubeconfig(path, environ={}) as cluster:
            await story(cluster, emulated.api, clock)

"""Pods of no other scheduler's get a node on an emulated cluster, too."""

import asyncio
import random

from kubedsm_lab.emulator.api.object_state import find_condition
from kubedsm_lab.emulator.api.resources import EVENTS, NODES, PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.actor_world import NS, pod_spec


def create(cluster, name, cpu="1", scheduler="default-scheduler"):
    spec = pod_spec(cpu) | {"schedulerName": scheduler}
    cluster.api.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace=NS)


async def test_it_places_its_own_by_room_and_by_no_tier_and_says_why_not():
    nodes = (node("e1", "edge", "2", "8Gi"), node("plain", "", "4", "8Gi"))
    spec = ClusterSpec(nodes)
    async with EmulatedCluster(
        spec, VirtualClock(), random.Random(0), default_scheduler=True
    ) as cluster:
        for name in ("a", "b", "c", "d", "e", "f"):
            create(cluster, name)
        create(cluster, "large", cpu="3")
        create(cluster, "ours", scheduler="kubedsm")
        await asyncio.sleep(10)
        pods = {pod["metadata"]["name"]: pod for pod in cluster.api.list(PODS, NS)}
        on = {name: pod["spec"].get("nodeName") for name, pod in pods.items()}
        assert sorted(on[name] for name in "abcdef") == ["e1"] * 2 + ["plain"] * 4
        assert (on["large"], on["ours"]) == (None, None)
        assert "kubedsm.io/tier" not in (pods["a"]["metadata"].get("labels") or {})
        said = find_condition(pods["large"]["status"]["conditions"], "PodScheduled")
        assert said["message"] == "0/2 nodes are available: 2 Insufficient cpu."
        told = [event["reason"] for event in cluster.api.list(EVENTS, NS)]
        assert (told.count("Scheduled"), told.count("FailedScheduling")) == (6, 1)

        cluster.api.create(NODES, node("new", "cloud", "4", "8Gi"))
        await asyncio.sleep(1)
        assert cluster.api.get(PODS, NS, "large")["spec"]["nodeName"] == "new"

"""The scheduler, end to end, on a cluster where nothing goes wrong."""

import asyncio

import pytest

from kubedsm.config.settings import load
from kubedsm.model.model import DELETION_COST_ANNOTATION
from kubedsm_lab.emulator.api.resources import NODES, PODS
from support.worlds import CLOUD, EDGE, emulated


async def test_a_burst_fills_the_edge_and_pods_carry_tier_and_deletion_cost_and_get_an_event():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("web", 6)
        await world.until_bound(6, 2)
        assert world.placed() == {"e1": 4, "c1": 2}
        await asyncio.sleep(1)
        costs = {}
        for pod in world.pods():
            tier = pod["metadata"]["labels"]["kubedsm.io/tier"]
            cost = pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"]
            assert tier == {"e1": "edge", "c1": "cloud"}[pod["spec"]["nodeName"]]
            costs[tier] = int(cost)
        assert costs["cloud"] < costs["edge"]
        assert len(world.events("Scheduled")) == 6


@pytest.mark.parametrize("own", ["7", "-100", "100"])
async def test_a_users_own_deletion_cost_outlives_the_bind(own):
    configuration = load("services: {Pod: {qos: 1}}", "test")
    async with emulated(EDGE, CLOUD, configuration=configuration) as world, world.scheduler():
        world.create_pod("mine", annotations={DELETION_COST_ANNOTATION: own})
        await world.until_bound(1, 2)
        [pod] = world.pods()
        assert pod["metadata"]["labels"]["kubedsm.io/tier"] == "edge"
        assert pod["metadata"]["annotations"][DELETION_COST_ANNOTATION] == own


async def test_a_users_own_deletion_cost_outlives_a_change_of_its_nodes_tier():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.create_pod("theirs", annotations={DELETION_COST_ANNOTATION: "7"})
        world.create_pod("corrected")
        await world.until_bound(2, 2)
        chosen = {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "5000"}}}
        world.patch(PODS, "corrected", chosen)
        labels = {"metadata": {"labels": {"kubedsm.io/tier": "cloud"}}}
        world.patch(NODES, "e1", labels)
        await asyncio.sleep(2)
        kept = {}
        for pod in world.pods():
            assert pod["metadata"]["labels"]["kubedsm.io/tier"] == "cloud"
            cost = pod["metadata"]["annotations"][DELETION_COST_ANNOTATION]
            kept[pod["metadata"]["name"]] = cost
        assert kept == {"theirs": "7", "corrected": "5000"}


async def test_pods_of_others_are_counted_and_left_alone():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("foreign", 2, schedulerName="default-scheduler")
        await asyncio.sleep(0.1)
        for pod in world.pods("foreign"):
            target = {"target": {"kind": "Node", "name": "e1"}, "metadata": {}}
            world.api.bind("default", pod["metadata"]["name"], target)
        world.deploy("ignored", 1, schedulerName="default-scheduler")
        world.deploy("web", 3)
        await world.until(lambda: world.placed("web") == {"e1": 2, "c1": 1}, 2)
        assert world.placed("ignored") == {None: 1}


async def test_a_pod_that_fits_nowhere_says_why_and_only_once():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(3)
        [pod] = world.pods()
        [condition] = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == (
            "0/2 nodes are available: 2 Insufficient cpu."
            " No node is large enough: the pod requests 64 cpu, the largest has 20 cpu."
        )
        before = world.invariants.writes
        await asyncio.sleep(500)
        [told] = world.events("FailedScheduling")
        assert told["series"]["count"] > 1
        assert world.invariants.writes == before + 1

"""Default fairness: a tenant gains no edge capacity by splitting one Deployment into many."""

import asyncio
from collections import Counter

from kubedsm.config.settings import Configuration
from kubedsm_lab.emulator.api.resources import PODS
from support.worlds import CLOUD, EDGE, emulated


def count_edge_pods(world):
    """Count the pods of each namespace on the only edge node."""
    pods = world.api.list(PODS)
    return Counter(
        pod["metadata"]["namespace"] for pod in pods if pod["spec"].get("nodeName") == "e1"
    )


def deploy_in(world, namespace, replicas_by_name):
    world.namespace(namespace)
    for name, replicas in replicas_by_name.items():
        world.deploy(name, replicas, namespace=namespace)


SPLIT = {f"part{number}": 1 for number in range(4)}


async def test_a_tenant_with_four_deployments_takes_no_more_than_its_half_from_a_neighbour():
    async with emulated(EDGE, CLOUD, configuration=Configuration()) as world, world.scheduler():
        deploy_in(world, "victim", {"web": 4})
        await world.until(lambda: count_edge_pods(world) == {"victim": 4}, 10)
        await asyncio.sleep(60)
        deploy_in(world, "sybil", SPLIT)
        await asyncio.sleep(600)
        assert count_edge_pods(world) == {"victim": 2, "sybil": 2}
        # One of the new pods waits for capacity, and saves its own migration.
        assert len(world.witness.of("detach")) == 3

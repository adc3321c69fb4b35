import pytest

from kubedsm_lab.emulator.api.resources import CONFIGMAPS, PODS, RESOURCE_QUOTAS
from support.actor_world import NS, emulated

pytestmark = pytest.mark.looptime


async def test_use_is_reported_and_follows():
    async with emulated() as world:
        hard = {"pods": "4", "requests.cpu": "10", "requests.memory": "8Gi", "configmaps": "3"}
        quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        world.api.create(RESOURCE_QUOTAS, quota, namespace=NS)
        await world.pass_time()
        empty = {"pods": "0", "requests.cpu": "0", "requests.memory": "0", "configmaps": "0"}
        assert world.get(RESOURCE_QUOTAS, "q")["status"] == {"hard": hard, "used": empty}
        world.pod("a", cpu="500m")
        world.pod("b", cpu="1")
        world.api.create(CONFIGMAPS, {"metadata": {"name": "c"}}, namespace=NS)
        await world.pass_time()
        assert world.get(RESOURCE_QUOTAS, "q")["status"]["used"] == {
            "pods": "2",
            "requests.cpu": "1500m",
            "requests.memory": "2Gi",
            "configmaps": "1",
        }
        world.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.pass_time()
        assert world.get(RESOURCE_QUOTAS, "q")["status"]["used"]["pods"] == "1"
        world.api.delete(PODS, NS, "a")
        await world.pass_time()
        assert world.get(RESOURCE_QUOTAS, "q")["status"]["used"]["pods"] == "0"

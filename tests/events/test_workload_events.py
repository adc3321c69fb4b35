"""What users read on a Deployment about the moves of its pods."""

import asyncio

from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from kubedsm_lab.emulator.paper import node
from support.faults import OUTCOMES
from support.move_scenes import AtRequest, name, on_cloud, open_edge, quiet


async def test_moves_that_end_together_are_one_event_on_their_deployment():
    async with on_cloud(3) as world:
        moved = [name(pod) for pod in world.pods("web")]
        open_edge(world, node("e1", "edge", "3", "8Gi"))
        await world.until(lambda: world.placed("web") == {"e1": 3}, 60)
        await quiet(world)
        await asyncio.sleep(6)
        [event] = world.events("Migrated", about="Deployment")
        about = event["involvedObject"]
        uid = world.api.get(DEPLOYMENTS, "default", "web")["metadata"]["uid"]
        assert (about["name"], about["uid"], about["apiVersion"]) == ("web", uid, "apps/v1")
        assert (event["type"], event["action"]) == ("Normal", "Migrating")
        assert event["message"].startswith("Migrated 3 pods: ")
        for pod in moved:
            assert f"{pod} from c1 to e1 (cloud-to-edge)" in event["message"]


async def test_a_move_that_is_taken_back_is_a_warning_with_its_reason():
    faults = AtRequest(
        lambda request: request.path.endswith("/eviction"), lambda: None, fault=OUTCOMES["403"]
    )
    async with on_cloud(faults=faults) as world:
        open_edge(world)
        failed = "MigrationFailed"
        await world.until(lambda: world.events(failed, about="Deployment"), 60)
        [event] = world.events(failed, about="Deployment")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Did not migrate 1 pod: web-")
        assert ": rolled back, evicting: 403 Forbidden" in event["message"]

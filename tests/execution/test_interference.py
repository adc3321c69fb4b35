"""What other parts of the cluster do meanwhile: users, controllers, nodes and another KubeDSM."""

import asyncio

from kubedsm.execution.bind_calls import TIER_LABEL
from kubedsm.model.events import PodApplied
from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from kubedsm_lab.emulator.paper import node
from plans.steps import Step, StepKind, StepState
from support.move_scenes import (
    BY_HAND,
    ONE_PLACE,
    SMALL_EDGE,
    by_hand,
    hand_over,
    name,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.worlds import emulated, small_pod

EDGE = node("n1", "edge", "8", "16Gi")


async def test_new_pods_cancel_a_group_whose_first_migration_is_being_checked():
    """web makes room for nobody if api does not follow."""
    async with by_hand(BY_HAND) as world, world.scheduler():
        await settle_on_cloud(world, "web", 1)
        await settle_on_cloud(world, "api", 1, seconds=9)
        open_edge(world, ONE_PLACE)
        world.api.create(NODES, node("c2", "cloud", "4", "8Gi"))
        await asyncio.sleep(0.1)
        [web], [api] = world.pods("web"), world.pods("api")
        await hand_over(world, [(web, "c2", ()), (api, "e1", (web,))])
        await asyncio.sleep(0.02)
        world.runtime.manager.cancel_unstarted("new pods arrived")
        await quiet(world)
        assert not world.witness.of("detach")


async def test_labels_follow_a_tier_to_and_fro_and_a_pod_taken_out_of_service_leaves_the_others():
    async with emulated(EDGE) as world, world.scheduler():
        world.deploy("web", 2)
        await world.until_bound(2, 5)
        await asyncio.sleep(6)
        for tier in ("cloud", "edge"):
            world.patch(NODES, "n1", {"metadata": {"labels": {TIER_LABEL: tier}}})
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
        assert [pod["metadata"]["labels"].get(TIER_LABEL) for pod in world.pods()] == ["edge"] * 2
        world.patch(PODS, name(world.pods("web")[0]), {"metadata": {"labels": {"app": "debug"}}})
        await asyncio.sleep(5)
        world.scale("web", 4)
        await asyncio.sleep(5)
        assert [pod["metadata"]["labels"].get(TIER_LABEL) for pod in world.pods()] == ["edge"] * 5


async def test_an_owner_that_selects_by_the_label_gets_pods_without_it():
    async with emulated(EDGE) as world, world.scheduler():
        spec = small_pod({"cpu": "1", "memory": "1Gi"})
        term = {"key": TIER_LABEL, "operator": "DoesNotExist"}
        selector = {"matchLabels": {"app": "web"}, "matchExpressions": [term]}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        owner = {"replicas": 2, "selector": selector, "template": template}
        world.create(REPLICA_SETS, "web", spec=owner)
        await asyncio.sleep(10)
        owned = [pod for pod in world.pods() if pod["metadata"].get("ownerReferences")]
        assert [TIER_LABEL in pod["metadata"]["labels"] for pod in owned] == [False] * 2
        assert len(world.pods()) <= 4


async def test_a_replacement_waits_for_its_scheduling_gates():
    def open_gate(change):
        pod = change.object
        if change.resource is PODS and change.type == "ADDED" and pod["spec"]["schedulingGates"]:
            ungated = {"spec": {"schedulingGates": []}}
            loop = asyncio.get_running_loop()
            loop.call_later(1.0, lambda: world.patch(PODS, name(pod), ungated))

    async with by_hand(BY_HAND) as world, world.scheduler():
        world.api.store.subscribe(open_gate)
        world.deploy("web", 1, schedulingGates=[{"name": "example.com/quota"}])
        await world.until_bound(1, 5)
        await asyncio.sleep(3)
        open_edge(world, ONE_PLACE)
        await asyncio.sleep(0.1)
        await hand_over(world, [(world.pods("web")[0], "e1", ())])
        await quiet(world)
        assert world.placed("web") == {"e1": 1}
        assert not world.events("MigrationFailed")


async def test_a_rollout_without_new_pods_yet_is_one():
    """The API server leaves out updatedReplicas if there are none, as under a quota."""
    async with by_hand(BY_HAND) as world, world.scheduler():
        await settle_on_cloud(world, "web", 2)
        open_edge(world, SMALL_EDGE)
        world.quota(pods="2")
        rollout = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
        world.patch(DEPLOYMENTS, "web", rollout)
        await asyncio.sleep(3)
        await hand_over(world, [(world.pods("web")[0], "e1", ())])
        await quiet(world)
        assert not world.witness.of("detach")
        [event] = world.events("MigrationFailed")
        assert "rolling out" in event["message"]


async def test_capacity_that_a_live_read_shows_free_is_used_at_once():
    async with emulated(node("c1", "cloud", "2", "8Gi")) as world, world.scheduler() as runtime:
        for each in ("one", "two"):
            world.create_pod(each, "2", restartPolicy="Never")
            await asyncio.sleep(5)
        [one] = [pod for pod in world.pods() if name(pod) == "one"]
        uid = Uid(one["metadata"]["uid"])

        def is_bound():
            return [p for p in world.pods() if name(p) == "two" and "nodeName" in p["spec"]]

        def handle_late(event):
            lags = isinstance(event, PodApplied) and event.pod.uid == uid
            asyncio.get_running_loop().call_later(3.0 * lags, handle, event)

        handle = runtime.handler.handle
        for reflector in runtime.followed._reflectors:
            reflector._on_event = handle_late
        world.patch(PODS, "one", {"status": {"phase": "Failed"}}, subresource="status")
        await asyncio.sleep(0.1)
        step = Step(0, StepKind.AWAIT_READY, uid, "c1", 1.0, state=StepState.VERIFYING)
        await runtime.manager._verify("x", step)
        await world.until(is_bound, 5)

"""Moves, end to end, alone and with what users, controllers, nodes and others do meanwhile."""

import asyncio

import attrs
import pytest
from structlog import contextvars
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.execution.bind_calls import TIER_LABEL
from kubedsm.model.events import PodApplied
from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.paper import node
from plans.steps import Step, StepKind, StepState
from support.faults import OUTCOMES
from support.move_scenes import (
    BY_HAND,
    LARGE_CLOUD,
    ONE_PLACE,
    SMALL_EDGE,
    AtRequest,
    ReadyPods,
    by_hand,
    hand_over,
    labelled,
    name,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.sites import GRACE, NORTH, SOUTH, two_sites, where
from support.worlds import CLOUD, emulated, small_pod

EDGE = node("n1", "edge", "8", "16Gi")


@pytest.mark.parametrize("arrive", [True, False], ids=["new pods", "suggester off"])
async def test_a_group_that_is_being_checked_begins_as_a_whole_or_not_at_all(arrive):
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
        manager = world.runtime.manager
        manager.cancel_waiting() if arrive else manager.cancel_unstarted("the suggester is off")
        await quiet(world)
        assert len(world.witness.of("detach")) == (2 if arrive else 0)


async def test_labels_follow_a_tier_to_and_fro_and_a_pod_taken_out_of_service_leaves_the_others():
    async with emulated(EDGE) as world, world.scheduler():
        await world.bring_up("web", 2, within=5)
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


@pytest.mark.parametrize("tied", [False, True], ids=["", "tied to their nodes"])
async def test_a_swap_of_two_full_nodes_goes_through_the_cloud(tied):
    def tie(node):
        return {"nodeSelector": {"kubernetes.io/hostname": node}} if tied else {}

    off = load("suggester: {mode: 'off'}\nmigration: {drainDelay: 1s}", "test")
    edge = node("e1", "edge", "1", "4Gi")
    async with emulated(edge, configuration=off) as world, world.scheduler():
        await world.bring_up("a", 1, within=3, **tie("e1"))
        world.api.create(NODES, node("e2", "edge", "1", "4Gi"))
        await world.bring_up("b", 1, within=3, **tie("e2"))
        world.api.create(NODES, LARGE_CLOUD)
        await asyncio.sleep(2)
        [a], [b] = world.pods("a"), world.pods("b")
        ready = [ReadyPods(world, app).watch() for app in "ab"]
        await hand_over(world, [(a, "e2", [b]), (b, "e1", [a])], stopping=[a])
        await quiet(world)
        # A swap of pods that are tied to their nodes is refused, and leaves all as it was.
        a, b = ("e1", "e2") if tied else ("e2", "e1")
        assert (world.placed("a"), world.placed("b")) == ({a: 1}, {b: 1})
        assert [r.lowest for r in ready] == [1, 1]


#: the second move begins because the first one ended
ONE = load("suggester: {period: 1s}\nmigration: {maxConcurrent: 1, drainDelay: 1s}", "test")


async def test_the_lines_of_a_move_name_its_plan():
    faults = AtRequest(
        lambda request: request.path.endswith("/binding"), lambda: None, fault=OUTCOMES["403"]
    )
    with capture_logs(processors=[contextvars.merge_contextvars]) as lines:
        async with emulated(CLOUD, configuration=ONE) as world, world.scheduler(faults):
            await settle_on_cloud(world, "web", 2)
            open_edge(world)
            await world.until(lambda: world.placed("web") == {"e1": 2}, 90)
            await quiet(world)
    begun = [line["plan"] for line in lines if line["event"] == "migration begun"]
    ended = [line["plan"] for line in lines if line["event"] == "migration ended"]
    assert len(set(begun)) == 2
    assert sorted(begun) == sorted(ended)
    assert all(plan.startswith("plan-") for plan in begun)
    [refused] = [line["plan"] for line in lines if line["event"] == "bind refused"]
    assert refused.startswith("bind-")
    others = [line for line in lines if line["event"] in ("synced", "batch", "suggestion")]
    assert others
    assert not any("plan" in line for line in others)


#: so that no replacement is Ready when a cut is found out
SLUGGISH = Timing(start_delay=60.0, stop_delay=0.5)
#: so that no move ends by itself in that time
LONG = 900.0
FOUND_OUT = GRACE + 3.0


def hesitant(configuration=BY_HAND):
    return two_sites(configuration=configuration, timing=SLUGGISH)


async def settled(world, app, count, *closed):
    """So many pods of the app, Ready, on other nodes than these, which are closed until then."""
    world.cordon(*closed)
    world.deploy(app, count)
    await world.until(lambda: ReadyPods(world, app).count() == count, 90)
    world.cordon(*closed, cordoned=False)
    await asyncio.sleep(1.0)


async def test_a_move_to_a_site_that_is_cut_off_is_taken_back():
    async with hesitant() as world, world.scheduler():
        await settled(world, "web", 2, *NORTH, *SOUTH)
        ready = ReadyPods(world, "web").watch()
        await hand_over(world, [(world.pods("web")[0], "n1", ())], deadline=LONG)
        await world.until(lambda: where(world).get("n"), 10)
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(FOUND_OUT)
        await quiet(world, 5)
        # The replacement goes once its kubelet hears of it.
        assert where(world) == {"c": 2, "n-": 1}
        assert ready.lowest == 2


async def test_a_move_from_a_site_that_is_cut_off_is_taken_back():
    async with hesitant() as world, world.scheduler():
        await settled(world, "web", 2, *SOUTH)
        there = {pod["metadata"]["uid"] for pod in world.pods("web")}
        await hand_over(world, [(world.pods("web")[0], "s1", ())], deadline=LONG)
        await world.until(lambda: where(world).get("s"), 10)
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(FOUND_OUT)
        await quiet(world, 5)
        assert labelled(world) == []
        assert world.cluster.serving() == there


async def test_the_rest_of_a_group_that_concerns_the_site_is_dropped():
    one = attrs.evolve(BY_HAND, migration=attrs.evolve(BY_HAND.migration, max_concurrent=1))
    async with hesitant(one) as world, world.scheduler():
        await settled(world, "api", 1, *NORTH, *SOUTH)
        await settled(world, "web", 1, *SOUTH)
        [api], [web] = world.pods("api"), world.pods("web")
        with capture_logs() as logs:
            await hand_over(world, [(api, "s1", ()), (web, "s2", ())], deadline=LONG)
            await world.until(lambda: where(world).get("s"), 10)
            world.cluster.disconnect(*NORTH)
            await asyncio.sleep(120.0)
        assert [entry["target"] for entry in logs if entry["event"] == "migration begun"] == ["s1"]
        assert where(world) == {"s": 1, "n": 1}
        # It did not fail: its workload need not rest for that.
        ends = [entry["pod"] for entry in logs if entry["event"] == "migration ended"]
        assert ends == [f"default/{api['metadata']['name']}"]

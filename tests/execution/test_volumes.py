"""Volumes that wait for their first consumer are bound before their pod, or released."""

import asyncio
from collections import Counter

import orjson

from kubedsm.execution.volume_calls import VolumeCalls
from kubedsm.explain.pod import explain_pod
from kubedsm.kube.calls import writes
from kubedsm.kube.client.port import Forbidden
from kubedsm.kube.wire import decoding
from kubedsm.model.events import SurroundingApplied, SurroundingDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.surroundings import Claim
from kubedsm_lab.chaos.hands import Hands
from kubedsm_lab.emulator.api.object_state import is_ready, node_of
from kubedsm_lab.emulator.api.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.steps import Step, StepKind
from support.answering_cluster import AnsweringCluster
from support.handles import handle_of
from support.volumes import (
    CLOUD,
    EDGES,
    claim,
    local_volume,
    mounting,
    selected_nodes,
    set_provisioning,
    stateful_set,
    storage_class,
)
from support.worlds import emulated


def ready(world, count):
    pods = world.pods()
    return len(pods) == count and all(map(is_ready, pods))


async def test_a_read_from_before_the_deletion_does_not_bring_a_claim_back():
    metadata = {"namespace": "shop", "name": "data", "uid": "u", "resourceVersion": "5"}
    body, mirror = orjson.dumps({"metadata": metadata, "spec": {}}), ClusterMirror()
    mirror.apply(SurroundingApplied(decoding.claim(body)))

    def delete(_request):
        mirror.apply(SurroundingDeleted(Claim, ("shop", "data")))
        return body

    handle = handle_of(VirtualClock(), cluster=AnsweringCluster(delete), mirror=mirror)
    calls = VolumeCalls(handle, mirror.apply)
    calls._keys["p"] = (("shop", "data"),)
    await calls.read(Step(0, StepKind.BIND_VOLUMES, "p", "e1", 1.0))
    assert not mirror.surroundings.of(Claim)


async def test_pods_of_one_batch_never_share_a_static_volume():
    async with emulated(*EDGES, CLOUD) as world, world.scheduler():
        storage_class(world.api, provisioner="kubernetes.io/no-provisioner")
        for name in ("e1", "e2"):
            local_volume(world.api, f"pv-{name}", name)
        stateful_set(world.api, "db", 3, cpu="100m", parallel=True)
        await asyncio.sleep(20)
        assert world.placed("db") == {"e1": 1, "e2": 1, None: 1}
        [waiting] = [pod for pod in world.pods("db") if not node_of(pod)]
        [condition] = waiting["status"]["conditions"]
        assert "didn't find available persistent volumes to bind" in condition["message"]
        local_volume(world.api, "pv-e3", "e3")
        await world.until(lambda: ready(world, 3), 20)
        assert world.invariants.binds.total() == 3


async def test_a_node_that_cannot_provision_is_avoided():
    async with emulated(*EDGES, CLOUD) as world, world.scheduler():
        storage_class(world.api)
        for name in ("e1", "e2"):
            set_provisioning(world.api, name, "refused")
        stateful_set(world.api, "db", 1)
        await world.until(lambda: ready(world, 1), 60)
        assert world.placed("db") == {"e3": 1}
        assert selected_nodes(world.api) == {}


async def test_a_provisioner_that_never_ends_holds_the_pod_until_the_deadline():
    async with emulated(*EDGES[:2]) as world, world.scheduler() as runtime:
        storage_class(world.api)
        for name in ("e1", "e2"):
            set_provisioning(world.api, name, "stuck")
        stateful_set(world.api, "db", 1)
        await world.until(lambda: selected_nodes(world.api), 10)
        [first] = selected_nodes(world.api).values()
        set_provisioning(world.api, {"e1": "e2", "e2": "e1"}[first], None)
        await asyncio.sleep(590)
        assert selected_nodes(world.api) == {"data-db-0": first}
        assert runtime.mirror.held
        [pod] = world.pods()
        facts = runtime.decisions.facts_of_pod(pod["metadata"]["uid"], "default/db-0")()
        told = "It waits until claims are bound: default/data-db-0, provisioned by "
        assert (told + "rancher.io/local-path.",) in explain_pod(facts).lines
        await world.until(lambda: ready(world, 1), 60)
        assert node_of(world.pods("db")[0]) != first
        assert not runtime.mirror.held


async def test_no_node_stays_selected_for_a_pod_that_is_deleted():
    async with emulated(*EDGES, CLOUD) as world, world.scheduler() as runtime:
        storage_class(world.api)
        set_provisioning(world.api, "e1", "stuck")
        claim(world.api, "data")
        world.deploy("web", 1, nodeSelector={"kubernetes.io/hostname": "e1"}, **mounting("data"))
        await world.until(lambda: selected_nodes(world.api), 10)
        world.scale("web", 0)
        await world.until(lambda: not selected_nodes(world.api), 10)
        assert not runtime.mirror.held


async def test_a_selection_that_a_killed_scheduler_left_is_withdrawn_if_the_pod_fits_no_more():
    async with emulated(*EDGES[:2]) as world:
        storage_class(world.api)
        set_provisioning(world.api, "e1", "stuck")
        set_provisioning(world.api, "e2", "stuck")
        stateful_set(world.api, "db", 1)
        async with world.scheduler():
            await world.until(lambda: selected_nodes(world.api), 10)
        [left] = selected_nodes(world.api).values()
        patch = {"spec": {"unschedulable": True}}
        world.patch(NODES, left, patch)
        other = {"e1": "e2", "e2": "e1"}[left]
        set_provisioning(world.api, other, None)
        async with world.scheduler():
            await world.until(lambda: ready(world, 1), 120)
        assert world.placed() == {other: 1}


async def test_a_deleted_node_is_not_waited_for():
    async with emulated(*EDGES, CLOUD) as world, world.scheduler():
        storage_class(world.api)
        set_provisioning(world.api, "e1", "stuck")
        set_provisioning(world.api, "e2", "stuck")
        stateful_set(world.api, "db", 1)
        await world.until(lambda: selected_nodes(world.api), 10)
        [node] = selected_nodes(world.api).values()
        for name in {"e1", "e2"} | {node}:
            world.api.delete(NODES, "", name)
        await world.until(lambda: ready(world, 1), 60)


async def test_a_node_that_fills_up_during_provisioning_gets_no_bind():
    async with emulated(*EDGES[:1]) as world, world.scheduler() as runtime:
        storage_class(world.api)
        set_provisioning(world.api, "e1", "stuck")
        stateful_set(world.api, "db", 1)
        await world.until(lambda: selected_nodes(world.api), 10)
        hands = Hands(world.api)
        hands.fill_node("e1", "filler")
        set_provisioning(world.api, "e1", None)
        await asyncio.sleep(60)
        assert world.placed("db") == {None: 1}
        assert not runtime.mirror.held
        hands.delete_pod("filler")
        await world.until(lambda: ready(world, 1), 60)
        assert world.invariants.binds.total() == 1


async def test_without_the_right_the_pod_waits_and_says_which(monkeypatch):
    async def refuse(*_, **__):
        raise Forbidden(403, "Forbidden", "cannot patch resource persistentvolumeclaims")

    monkeypatch.setattr(writes, "select_node", refuse)
    async with emulated(*EDGES, CLOUD) as world, world.scheduler():
        storage_class(world.api)
        stateful_set(world.api, "db", 1)
        await asyncio.sleep(10)
        [pod] = world.api.list(PODS, "default")
        [condition] = pod["status"]["conditions"]
        assert "cannot patch resource persistentvolumeclaims" in condition["message"]
        [left] = world.api.list(PERSISTENT_VOLUME_CLAIMS)
        assert left["status"]["phase"] == "Pending"
        assert Counter(world.placed()) == {None: 1}

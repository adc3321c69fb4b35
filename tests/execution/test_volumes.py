"""Pods with volumes: bound before their pod or released, and moved as their claims permit."""

import asyncio
from collections import Counter

import orjson
import pytest

from kubedsm.config.settings import load
from kubedsm.execution.volume_calls import VolumeCalls
from kubedsm.explain.pod import explain_pod
from kubedsm.kube.calls import writes
from kubedsm.kube.client.port import Forbidden
from kubedsm.kube.wire import decoding
from kubedsm.model.events import SurroundingApplied, SurroundingDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.surroundings import Claim, Volume
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.planner.rebalancing_requests import reason_to_stay
from kubedsm_lab.chaos.hands import Hands
from kubedsm_lab.emulator.api.object_state import is_ready, node_of
from kubedsm_lab.emulator.api.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.steps import Step, StepKind
from support.answering_cluster import AnsweringCluster
from support.handles import handle_of
from support.move_scenes import AtRequest, ReadyPods, at_rest, open_edge
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


@pytest.mark.parametrize(("kind", "key"), [(Claim, ("shop", "data")), (Volume, ("pv",))])
async def test_a_read_from_before_the_deletion_does_not_bring_an_object_back(kind, key):
    metadata = {"namespace": "shop", "name": "data", "uid": "u", "resourceVersion": "5"}
    bound = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}
    claim = orjson.dumps({"metadata": metadata, **bound})
    volume = orjson.dumps({"metadata": {"name": "pv", "resourceVersion": "5"}, "spec": {}})
    mirror = ClusterMirror()
    mirror.apply(SurroundingApplied(decoding.claim(claim)))
    mirror.apply(SurroundingApplied(decoding.volume(volume)))

    def delete(request):
        read = Volume if "persistentvolumes" in request.path else Claim
        if read is kind:
            mirror.apply(SurroundingDeleted(kind, key))
        return volume if read is Volume else claim

    handle = handle_of(VirtualClock(), cluster=AnsweringCluster(delete), mirror=mirror)
    calls = VolumeCalls(handle, mirror.apply)
    calls._keys["p"] = (("shop", "data"),)
    await calls.read(Step(0, StepKind.BIND_VOLUMES, "p", "e1", 1.0))
    assert not mirror.surroundings.of(kind)


async def test_a_volume_that_another_claim_takes_meanwhile_stays_that_claims():
    def take_other():
        """While the first volume of the pod is reserved, a user reserves the second."""
        free = [v for v in world.api.list(PERSISTENT_VOLUMES) if "claimRef" not in v["spec"]]
        other = {"name": "other", "namespace": "default"}
        names = {v["metadata"]["name"] for v in free} - {first[0].path.rpartition("/")[2]}
        taken.append(names.pop())
        world.patch(PERSISTENT_VOLUMES, taken[0], {"spec": {"claimRef": other}})

    def reserves(request):
        if request.method != "PATCH" or "/persistentvolumes/" not in request.path:
            return False
        first.append(request)
        return True

    first, taken, faults = [], [], AtRequest(reserves, take_other)
    async with emulated(EDGES[0]) as world, world.scheduler(faults=faults):
        storage_class(world.api, provisioner="kubernetes.io/no-provisioner")
        for name in ("a", "b"):
            claim(world.api, name)
            local_volume(world.api, f"pv-{name}", "e1")
        world.create_pod("p", **mounting("a", "b"))
        await asyncio.sleep(10)
        volume = world.get(PERSISTENT_VOLUMES, taken[0])
        assert volume["spec"]["claimRef"]["name"] == "other"
        local_volume(world.api, "pv-c", "e1")
        await world.until(lambda: ready(world, 1), 90)


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
        world.cordon(left)
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


def network_volume(api, name, mode="ReadWriteOnce"):
    """Create a claim bound to a volume that every node reaches."""
    capacity, of = {"storage": "1Gi"}, "network"
    spec = {"capacity": capacity, "accessModes": [mode], "storageClassName": of}
    api.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    claim(api, name, of=of, modes=(mode,))


QUICK = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}", "test")
ROOMY, EDGE = node("c1", "cloud", "20", "40Gi"), node("e1", "edge", "8", "16Gi")


async def until_ready(world, count):
    await world.until(lambda: len(world.pods()) == count and all(map(is_ready, world.pods())), 30)


def stays(world):
    """Return the reasons for which the pods stay."""
    snapshot = world.runtime.mirror.snapshot()
    movable = default_movable(snapshot)
    reasons = (
        movable(pod) or reason_to_stay(pod, QUICK, snapshot.surroundings)
        for pod in snapshot.pods.values()
    )
    return {str(reason) for reason in reasons}


async def test_pods_with_a_volume_for_many_nodes_are_migrated_without_a_gap():
    async with emulated(ROOMY, configuration=QUICK) as world, world.scheduler():
        network_volume(world.api, "data", "ReadWriteMany")
        world.deploy("web", 2, **mounting("data"))
        await until_ready(world, 2)
        ready = ReadyPods(world, "web").watch()
        open_edge(world, EDGE)
        await at_rest(world)
        assert world.placed("web") == {"e1": 2}
        assert ready.lowest == 2


async def test_a_volume_for_one_node_follows_its_pod_when_the_old_pod_is_gone():
    async with emulated(ROOMY, configuration=QUICK) as world, world.scheduler():
        names = ("db-0", "db-1")
        for name in names:
            network_volume(world.api, f"data-{name}")
        stateful_set(world.api, "db", 2)
        await until_ready(world, 2)
        known = {}

        def notice(change):
            """No claim is ever mounted on two nodes."""
            if change.resource is PODS and node_of(change.object):
                name, uid = (change.object["metadata"][field] for field in ("name", "uid"))
                known.setdefault(name, {})[uid] = change.type != "DELETED"
                assert sum(known[name].values()) <= 1

        world.api.store.subscribe(notice)
        open_edge(world, EDGE)
        await at_rest(world)
        assert world.placed("db") == {"e1": 2}
        assert set(known) == set(names)


async def test_a_volume_for_one_node_keeps_the_pods_that_share_it():
    async with emulated(ROOMY, configuration=QUICK) as world, world.scheduler():
        network_volume(world.api, "data")
        world.deploy("web", 2, **mounting("data"))
        network_volume(world.api, "own")
        world.deploy("single", 1, **mounting("own"))
        await until_ready(world, 3)
        open_edge(world, EDGE)
        await at_rest(world)
        assert world.placed() == {"c1": 3}
        told = "its volume claim default/{} can be mounted on one node at a time"
        assert stays(world) == {told.format("data"), told.format("own")}

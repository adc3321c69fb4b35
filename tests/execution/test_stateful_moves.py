"""Pods with volumes: local ones stay, network ones move in the mode that their claims permit."""

from kubedsm.config.settings import load
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.planner.rebalancing_requests import reason_to_stay
from kubedsm_lab.emulator.api.object_state import is_ready, node_of
from kubedsm_lab.emulator.api.resources import PERSISTENT_VOLUMES, PODS
from kubedsm_lab.emulator.paper import node
from support.move_scenes import ReadyPods, at_rest, open_edge
from support.volumes import claim, mounting, stateful_set
from support.worlds import emulated


def network_volume(api, name, mode="ReadWriteOnce"):
    """Create a claim bound to a volume that every node reaches."""
    capacity, of = {"storage": "1Gi"}, "network"
    spec = {"capacity": capacity, "accessModes": [mode], "storageClassName": of}
    api.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})
    claim(api, name, of=of, modes=(mode,))


QUICK = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 500ms}", "test")
CLOUD, EDGE = node("c1", "cloud", "20", "40Gi"), node("e1", "edge", "8", "16Gi")


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
    async with emulated(CLOUD, configuration=QUICK) as world, world.scheduler():
        network_volume(world.api, "data", "ReadWriteMany")
        world.deploy("web", 2, **mounting("data"))
        await until_ready(world, 2)
        ready = ReadyPods(world, "web").watch()
        open_edge(world, EDGE)
        await at_rest(world)
        assert world.placed("web") == {"e1": 2}
        assert ready.lowest == 2


async def test_a_volume_for_one_node_follows_its_pod_when_the_old_pod_is_gone():
    async with emulated(CLOUD, configuration=QUICK) as world, world.scheduler():
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
    async with emulated(CLOUD, configuration=QUICK) as world, world.scheduler():
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

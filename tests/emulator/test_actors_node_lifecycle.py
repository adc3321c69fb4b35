"""Nodes that are tainted, deleted, or lost, and their pods. Recorded: scene node-lost, 1.35."""

import pytest

from kubedsm_lab.emulator.actors.node_lifecycle import eviction_intervals
from kubedsm_lab.emulator.api.object_state import DISCONNECTED
from kubedsm_lab.emulator.api.resources import NODES, PODS
from support.actor_world import condition, emulated, set_node_ready

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def taints(world, name="n1"):
    found = world.get(NODES, name)["spec"].get("taints", [])
    return {(taint["key"], taint["effect"]) for taint in found}


def both(key):
    return {(key, "NoSchedule"), (key, "NoExecute")}


async def test_taints_follow_the_ready_condition_and_leave_others_alone():
    async with emulated() as world:
        own = {"key": "example.com/own", "effect": "NoSchedule"}
        world.patch(NODES, "n1", {"spec": {"taints": [own]}})
        set_node_ready(world, "n1", "False")
        await world.pass_time()
        assert taints(world) == both(NOT_READY) | {("example.com/own", "NoSchedule")}
        set_node_ready(world, "n1", "Unknown")
        await world.pass_time()
        assert taints(world) == both(UNREACHABLE) | {("example.com/own", "NoSchedule")}
        set_node_ready(world, "n1", "True")
        await world.pass_time()
        assert world.get(NODES, "n1")["spec"]["taints"] == [own]


async def test_a_cordoned_node_is_tainted():
    async with emulated() as world:
        world.patch(NODES, "n1", {"spec": {"unschedulable": True}})
        await world.pass_time()
        assert taints(world) == {("node.kubernetes.io/unschedulable", "NoSchedule")}
        world.patch(NODES, "n1", {"spec": {"unschedulable": None}})
        await world.pass_time()
        assert taints(world) == set()


async def test_a_no_execute_taint_drives_out_what_does_not_tolerate_it():
    async with emulated() as world:
        stays = world.pod("stays", on="n1")
        tolerations = [
            *stays["spec"]["tolerations"],
            {"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60},
        ]
        world.patch(PODS, "stays", {"spec": {"tolerations": tolerations}})
        world.pod("goes", on="n1")
        await world.pass_time()
        taint = {"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:01Z"}
        world.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await world.pass_time()
        assert world.names(PODS) == ["stays"]
        await world.pass_time(65.0)
        assert world.names(PODS) == []


async def test_pods_of_a_deleted_node_go_after_a_while():
    async with emulated(orphan_delay=40.0) as world:
        world.deployment("web", replicas=1)
        await world.pass_time()
        (lost,) = world.pods("web")
        world.bind(lost, "n1")
        await world.pass_time()
        world.api.delete(NODES, "", "n1")
        await world.pass_time(39.0)
        assert world.names(PODS) == [lost["metadata"]["name"]]
        await world.pass_time(2.0)
        (replacement,) = world.pods("web")
        assert replacement["metadata"]["uid"] != lost["metadata"]["uid"]


NORTH, SOUTH = ("", "north"), ("", "south")


def cut(world, *names, value="true"):
    for name in names:
        world.patch(NODES, name, {"metadata": {"annotations": {DISCONNECTED: value}}})


def effects(world, name):
    return {effect for key, effect in taints(world, name) if key == UNREACHABLE}


async def test_a_node_that_is_cut_off_becomes_unknown_and_its_pods_run_on():
    async with emulated() as world:
        uid = world.pod("p", on="n1")["metadata"]["uid"]
        await world.pass_time()
        cut(world, "n1")
        await world.pass_time(39.0)
        assert condition(world.get(NODES, "n1"), "Ready")[0] == "True"
        await world.pass_time(2.0)
        node = world.get(NODES, "n1")
        assert condition(node, "Ready") == ("Unknown", "NodeStatusUnknown")
        for pressure in ("MemoryPressure", "DiskPressure", "PIDPressure"):
            assert condition(node, pressure) == ("Unknown", "NodeStatusNeverUpdated")
        assert effects(world, "n1") == {"NoSchedule", "NoExecute"}
        assert condition(world.get(PODS, "p"), "Ready")[0] == "False"
        await world.pass_time(305.0)
        pod = world.get(PODS, "p")
        assert "deletionTimestamp" in pod["metadata"]
        assert condition(pod, "DisruptionTarget") == ("True", "DeletionByTaintManager")
        await world.pass_time(600.0)
        # Nobody confirms that it is gone, for it is not.
        assert world.names(PODS) == ["p"]
        assert world.serving() == {uid}


async def test_what_was_deleted_meanwhile_stops_when_the_node_is_back():
    async with emulated() as world:
        world.pod("deleted", on="n1")
        kept = world.pod("kept", on="n1", cpu="2")
        await world.pass_time()
        cut(world, "n1")
        await world.pass_time(100.0)
        world.api.delete(PODS, "default", "deleted")
        await world.pass_time(100.0)
        assert world.names(PODS) == ["deleted", "kept"]
        cut(world, "n1", value=None)
        await world.pass_time(2.0)
        assert world.names(PODS) == ["kept"]
        assert condition(world.get(PODS, "kept"), "Ready")[0] == "True"
        assert effects(world, "n1") == set()
        assert world.serving() == {kept["metadata"]["uid"]}


async def test_a_cut_shorter_than_the_grace_is_not_noticed():
    async with emulated() as world:
        world.pod("p", on="n1")
        await world.pass_time()
        seen = len(world.changes)
        cut(world, "n1")
        await world.pass_time(39.0)
        late = world.pod("late", on="n1")
        await world.pass_time(0.5)
        assert late["metadata"]["uid"] not in world.serving()
        cut(world, "n1", value=None)
        await world.pass_time(1.0)
        assert condition(world.get(PODS, "late"), "Ready")[0] == "True"
        kinds = {c.object["kind"] for c in world.changes[seen:] if c.object["kind"] != "Pod"}
        assert kinds == {"Node"}
        assert condition(world.get(NODES, "n1"), "Ready")[0] == "True"


def nodes(zone, ready, lost):
    return [
        {
            "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": str(n < ready)}]},
        }
        for n in range(ready + lost)
    ]


@pytest.mark.parametrize(
    ("ready", "lost", "seconds"),
    [
        (3, 0, 10.0),
        (1, 2, 10.0),  # two are few
        (2, 3, None),
        (3, 3, 10.0),  # 50 %
        (9, 11, None),  # 55 %
        (20, 40, 100.0),  # of a large zone
        (0, 3, 10.0),
    ],
)
def test_a_zone_lost_in_part_is_given_up_slowly_or_not_at_all(ready, lost, seconds):
    found = eviction_intervals([*nodes("north", ready, lost), *nodes("south", 1, 0)])
    assert found == {NORTH: seconds, SOUTH: 10.0}


def test_with_nothing_healthy_anywhere_nothing_is_given_up():
    lost = [*nodes("north", 0, 2), *nodes("south", 0, 5)]
    assert eviction_intervals(lost) == {NORTH: None, SOUTH: None}

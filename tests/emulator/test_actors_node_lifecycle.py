from kubedsm_lab.emulator.api.resources import NODES, PODS
from support.actor_world import emulated, set_node_ready

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

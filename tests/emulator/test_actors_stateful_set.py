from kubedsm_lab.emulator.actors.kubelet import NEVER_READY
from kubedsm_lab.emulator.api.resources import PODS, STATEFUL_SETS
from support.actor_world import NS, emulated, labelled_workload, template


def stateful_set(world, replicas=3, **spec):
    body = labelled_workload("StatefulSet", "st", replicas, serviceName="st", **spec)
    return world.api.create(STATEFUL_SETS, body, namespace=NS)


async def test_scaling_down_takes_the_highest_ordinal_first_and_one_at_a_time():
    async with emulated(stop_delay=1.0) as world:
        world.schedule_always()
        stateful_set(world)
        await world.pass_time(2.0)
        world.patch(STATEFUL_SETS, "st", {"spec": {"replicas": 1}})
        await world.pass_time(0.5)
        going = [
            p["metadata"]["name"] for p in world.pods() if "deletionTimestamp" in p["metadata"]
        ]
        assert going == ["st-2"]
        await world.pass_time(2.0)
        assert world.names(PODS) == ["st-0"]


async def test_an_unready_pod_holds_up_those_after_it():
    async with emulated() as world:
        world.schedule_always()
        body = template("st")
        body["metadata"]["annotations"] = {NEVER_READY: "true"}
        stateful_set(world, template=body)
        await world.pass_time(10.0)
        assert world.names(PODS) == ["st-0"]

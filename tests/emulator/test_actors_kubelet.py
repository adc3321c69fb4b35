import attrs

from kubedsm_lab.emulator.actors.kubelet import Containers
from kubedsm_lab.emulator.api.resources import PODS
from support.actor_world import emulated, set_node_ready


async def test_a_pod_that_does_not_fit_is_refused():
    async with emulated(cpu="4") as world:
        world.pod("a", on="n1", cpu="3")
        world.pod("b", on="n1", cpu="1500m")
        await world.pass_time()
        assert world.get(PODS, "a")["status"]["phase"] == "Running"
        status = world.get(PODS, "b")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
        assert status["message"] == (
            "Pod was rejected: Node didn't have enough resource: cpu, "
            "requested: 1500, used: 3000, capacity: 4000"
        )


async def test_a_terminating_pod_holds_its_room_until_it_is_gone():
    async with emulated(cpu="4", stop_delay=5.0) as world:
        world.pod("a", on="n1", cpu="4")
        await world.pass_time()
        world.api.delete(PODS, "default", "a", grace_seconds=30)
        world.pod("b", on="n1", cpu="4")
        await world.pass_time()
        assert world.get(PODS, "b")["status"]["phase"] == "Failed"
        await world.pass_time(5.0)
        world.pod("c", on="n1", cpu="4")
        await world.pass_time()
        assert world.get(PODS, "c")["status"]["phase"] == "Running"


async def test_a_node_that_is_not_ready_neither_starts_nor_stops_pods():
    async with emulated() as world:
        world.pod("old", on="n1")
        await world.pass_time()
        set_node_ready(world, "n1", "Unknown")
        world.pod("new", on="n1")
        world.api.delete(PODS, "default", "old")
        await world.pass_time(20.0)
        assert world.get(PODS, "new")["status"]["phase"] == "Pending"
        assert "deletionTimestamp" in world.get(PODS, "old")["metadata"]
        set_node_ready(world, "n1", "True")
        await world.pass_time()
        assert world.get(PODS, "new")["status"]["phase"] == "Running"
        assert [pod["metadata"]["name"] for pod in world.pods()] == ["new"]


class Slow:
    """A container runtime that does as the test says."""

    def __init__(self):
        self.containers, self.changed, self.asked_to_end = {}, {}, []

    def begin(self, pod, changed):
        uid = pod["metadata"]["uid"]
        self.containers[uid], self.changed[uid] = Containers(ready=False), changed

    def of(self, uid):
        return self.containers[uid]

    def output(self, pod, container):
        return None

    def end(self, uid, grace):
        self.asked_to_end.append(grace)
        return uid not in self.containers

    def become(self, pod, **changes):
        uid = pod["metadata"]["uid"]
        self.containers[uid] = attrs.evolve(self.containers[uid], **changes)
        self.changed[uid]()

    def ended(self, pod):
        uid = pod["metadata"]["uid"]
        del self.containers[uid]
        self.changed[uid]()


async def test_containers_that_ended_and_run_again_are_told():
    async with emulated(runtime=(runtime := Slow())) as world:
        pod = world.pod("p", on="n1")
        await world.pass_time()
        runtime.become(pod, ready=True)
        await world.pass_time()
        runtime.become(pod, ready=False, waits_for="CrashLoopBackOff", message="exit code 1")
        await world.pass_time()
        (container,) = world.get(PODS, "p")["status"]["containerStatuses"]
        assert not container["ready"]
        waiting = {"reason": "CrashLoopBackOff", "message": "exit code 1"}
        assert container["state"] == {"waiting": waiting}
        runtime.become(pod, ready=False, restarts=1, waits_for="")
        await world.pass_time()
        (container,) = world.get(PODS, "p")["status"]["containerStatuses"]
        assert (container["restartCount"], list(container["state"])) == (1, ["running"])


async def test_a_pod_goes_when_its_containers_have_ended():
    async with emulated(runtime=(runtime := Slow()), stop_delay=0.1) as world:
        pod = world.pod("p", on="n1")
        await world.pass_time()
        runtime.become(pod, ready=True)
        await world.pass_time()
        world.api.delete(PODS, "default", "p", grace_seconds=30)
        await world.pass_time(5.0)
        assert len(world.pods()) == 1
        assert set(runtime.asked_to_end) == {30.0}
        runtime.ended(pod)
        await world.pass_time()
        assert world.pods() == []

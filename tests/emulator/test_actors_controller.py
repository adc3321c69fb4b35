"""The loop of controllers, kubelets, and the default scheduler."""

import asyncio
import itertools
import random

import attrs
import pytest

from kubedsm_lab.emulator.actors.cache import Cache
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.actors.kubelet import Containers
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import find_condition
from kubedsm_lab.emulator.api.resources import EVENTS, NODES, PODS
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.actor_world import NS, emulated, pod_spec, set_node_ready

A, B, C = ("ns", "a"), ("ns", "b"), ("ns", "c")


class Noting(Controller):
    def __init__(self, answer=lambda _: None):
        super().__init__(Cache(ApiServer(VirtualClock(), random.Random(1))))
        self.noted = []
        self._answer = answer

    def subscribe(self):
        pass

    def reconcile(self, key):
        self.noted.append((round(self.clock.monotonic(), 3), key[1]))
        self._answer(key)


async def run_for(controller, seconds):
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_earliest_moment_of_a_key_counts():
    controller = Noting()
    controller.enqueue_after(A, 5.0)
    controller.enqueue_after(A, 2.0)
    controller.enqueue_after(A, 9.0)
    controller.enqueue_after(B, 3.0)
    await run_for(controller, 20.0)
    assert controller.noted == [(2.0, "a"), (3.0, "b")]


async def test_one_that_is_stopped_makes_up_for_it_when_it_goes_on():
    controller = Noting()
    controller.stop()
    controller.enqueue(A)
    controller.enqueue_after(B, 2.0)
    asyncio.get_running_loop().call_later(5.0, controller.resume)
    await run_for(controller, 20.0)
    assert controller.noted == [(5.0, "a"), (5.0, "b")]


async def test_a_sooner_moment_is_noticed_while_it_sleeps():
    controller = Noting()
    controller.enqueue_after(A, 50.0)
    task = asyncio.create_task(run_for(controller, 100.0))
    await asyncio.sleep(1.0)
    controller.enqueue_after(B, 1.0)
    await task
    assert controller.noted == [(2.0, "b"), (50.0, "a")]


@pytest.mark.parametrize("status", [403, 404, 409])
async def test_a_refusal_that_passes_is_tried_again_with_growing_pauses(status):
    def answer(_):
        raise ApiError(status, "", "")

    controller = Noting(answer)
    controller.enqueue(A)
    await run_for(controller, 0.5)
    assert [at for at, _ in controller.noted] == [0.0, 0.02, 0.06, 0.14, 0.3]


async def test_the_pause_is_bounded_and_starts_small_again_after_a_success():
    def answer(_):
        if len(controller.noted) != 14:
            raise Requeue

    controller = Noting(answer)
    controller.enqueue(A)
    task = asyncio.create_task(run_for(controller, 200.0))
    await asyncio.sleep(100.0)
    controller.enqueue(A)
    await task
    moments = [at for at, _ in controller.noted]
    pauses = [round(later - sooner, 3) for sooner, later in itertools.pairwise(moments)]
    assert max(pauses[:13]) == 10.0
    assert pauses[14] == 0.02


@pytest.mark.parametrize("error", [ApiError(422, "Invalid", ""), ZeroDivisionError()])
async def test_anything_else_ends_the_task(error):
    def answer(_):
        raise error

    controller = Noting(answer)
    controller.enqueue(A)
    with pytest.raises(ExceptionGroup) as raised:
        await controller.run()
    assert raised.value.exceptions == (error,)


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


def create(cluster, name, cpu="1", scheduler="default-scheduler"):
    spec = pod_spec(cpu) | {"schedulerName": scheduler}
    cluster.api.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace=NS)


async def test_it_places_its_own_by_room_and_by_no_tier_and_says_why_not():
    nodes = (node("e1", "edge", "2", "8Gi"), node("plain", "", "4", "8Gi"))
    spec = ClusterSpec(nodes)
    async with EmulatedCluster(
        spec, VirtualClock(), random.Random(0), default_scheduler=True
    ) as cluster:
        for name in ("a", "b", "c", "d", "e", "f"):
            create(cluster, name)
        create(cluster, "large", cpu="3")
        create(cluster, "ours", scheduler="kubedsm")
        await asyncio.sleep(10)
        pods = {pod["metadata"]["name"]: pod for pod in cluster.api.list(PODS, NS)}
        on = {name: pod["spec"].get("nodeName") for name, pod in pods.items()}
        assert sorted(on[name] for name in "abcdef") == ["e1"] * 2 + ["plain"] * 4
        assert (on["large"], on["ours"]) == (None, None)
        assert "kubedsm.io/tier" not in (pods["a"]["metadata"].get("labels") or {})
        said = find_condition(pods["large"]["status"]["conditions"], "PodScheduled")
        assert said["message"] == "0/2 nodes are available: 2 Insufficient cpu."
        told = [event["reason"] for event in cluster.api.list(EVENTS, NS)]
        assert (told.count("Scheduled"), told.count("FailedScheduling")) == (6, 1)

        cluster.api.create(NODES, node("new", "cloud", "4", "8Gi"))
        await asyncio.sleep(1)
        assert cluster.api.get(PODS, NS, "large")["spec"]["nodeName"] == "new"

"""Moves, while they are under way: what is asked when, and what a change on the way makes of it.

That each request carries what it must is asserted by the witness, in every test (`witness`).
"""

import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest

from kubedsm.config.settings import load
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.api.resources import PODS, REPLICA_SETS
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from kubedsm_lab.emulator.paper import node
from support.move_scenes import (
    ONE_PLACE,
    SMALL_EDGE,
    AtRequest,
    When,
    becomes_unready,
    by_hand,
    hand_over,
    is_detached,
    is_ready,
    name,
    open_edge,
    quiet,
    ready_to_move,
    replacement,
    settle_on_cloud,
)

ONE_AT_A_TIME = load("suggester: {mode: 'off'}\nmigration: {maxConcurrent: 1}", "test")
RECREATE = load("suggester: {mode: 'off'}\nmigration: {mode: recreate, drainDelay: 1s}", "test")


async def test_a_move_asks_for_one_thing_after_the_other():
    async with ready_to_move() as world:
        [old] = world.pods("web")
        before = len(world.witness.asked)
        moments = {}

        def notice(change):
            if change.resource is PODS and change.type != "DELETED":
                pod = change.object
                if is_detached(pod):
                    moments.setdefault("detached", world.clock.monotonic())
                elif name(pod) != name(old) and is_ready(pod):
                    moments.setdefault("ready", world.clock.monotonic())

        world.api.store.subscribe(notice)
        await hand_over(world, [(old, "e1", ())])
        await quiet(world)
        writes = [a for a in world.witness.asked[before:] if a.kind in ("detach", "bind", "evict")]
        assert [a.kind for a in writes] == ["detach", "bind", "evict"]
        detach, bind, evict = writes
        assert (detach.pod, evict.pod) == (name(old), name(old))
        assert bind.pod != name(old)
        assert bind.request.body["target"]["name"] == "e1"
        assert detach.at < moments["detached"] < bind.at < moments["ready"]
        assert evict.at >= moments["ready"] + 1  # the drain delay
        assert not world.witness.of("reattach")


async def test_the_pod_that_became_the_last_ready_one_is_not_recreated():
    def loses_the_other():
        becomes_unready(world, other)

    faults = AtRequest(
        lambda request: request.path.endswith("/eviction"),
        loses_the_other,
        fault=RequestFault(answer(503, "ServiceUnavailable")),
    )
    async with ready_to_move(2, configuration=RECREATE, faults=faults) as world:
        old, other = world.pods("web")
        await hand_over(world, [(old, "e1", ())])
        await world.until(lambda: faults.done, 10)
        await quiet(world)
        assert len(world.witness.of("evict")) == 1
        assert name(old) in map(name, world.pods("web"))


async def test_a_scale_down_that_leaves_no_replacement_to_wait_for_ends_the_move_at_once():
    async with ready_to_move(2) as world:
        old, other = world.pods("web")
        [owner] = old["metadata"]["ownerReferences"]

        def scale_down(_):
            world.scale("web", 1)
            # Before the ReplicaSet misses the pod, so that no replacement is ever made.
            fewer = {"spec": {"replicas": 1}}
            world.patch(REPLICA_SETS, owner["name"], fewer)

        made = When(world, replacement(world), lambda pod: None)
        When(world, is_detached, scale_down)
        await hand_over(world, [(old, "e1", ())], deadline=300)
        await quiet(world, 30)
        assert [a.pod for a in world.witness.of("evict")] == [name(old)]
        assert not world.witness.of("reattach")
        assert list(map(name, world.pods("web"))) == [name(other)]
        assert not made.done


async def test_a_replacement_that_its_move_cannot_place_is_placed_by_the_scheduler():
    def binds_to_the_edge(request):
        return request.path.endswith("/binding") and request.body["target"]["name"] == "e1"

    forbidden = RequestFault(answer(403, "Forbidden"))
    faults = AtRequest(binds_to_the_edge, lambda: None, fault=forbidden)
    async with ready_to_move(2, configuration=RECREATE, faults=faults) as world:
        await hand_over(world, [(world.pods("web")[0], "e1", ())])
        await world.until(lambda: faults.done, 5)
        await quiet(world)
        assert sum(world.placed("web").values()) == 2
        await world.until(lambda: None not in world.placed("web"), 20)


@asynccontextmanager
async def web_and_api():
    """Two settled workloads, of which one may migrate at a time, and an edge that is open."""
    async with by_hand(ONE_AT_A_TIME) as world, world.scheduler():
        await settle_on_cloud(world, "web", 1)
        await settle_on_cloud(world, "api", 1, seconds=9)
        open_edge(world, node("e1", "edge", "4", "8Gi"))
        await asyncio.sleep(0.1)
        yield world


async def test_new_pods_drop_the_groups_that_have_not_begun_and_no_other():
    async with web_and_api() as world:
        [web], [api] = world.pods("web"), world.pods("api")
        await hand_over(world, [(web, "e1", ())], plan="first")
        await hand_over(world, [(api, "e1", ())], plan="second")
        await world.until(lambda: world.witness.of("detach"), 5)
        world.deploy("burst", 1)
        await quiet(world)
        assert [a.pod for a in world.witness.of("detach")] == [name(web)]
        assert [a.pod for a in world.witness.of("evict")] == [name(web)]


async def test_new_pods_leave_a_group_alone_of_which_a_move_has_started():
    async with web_and_api() as world:
        both, worth = [*world.pods("web"), *world.pods("api")], iter([True])
        # What is left of a group need not be worth it alone.
        moves = [(pod, "e1", ()) for pod in both]
        await hand_over(world, moves, worth=lambda: next(worth, False))
        await world.until(lambda: world.witness.of("detach"), 5)
        world.deploy("burst", 1)
        await quiet(world)
        assert {a.pod for a in world.witness.of("evict")} == {name(pod) for pod in both}
        # It is the other one's turn as soon as one is over.
        assert world.witness.of("detach")[1].at - world.witness.of("evict")[0].at < 5


async def test_the_room_of_a_replacement_that_is_bound_counts_once():
    async with ready_to_move() as world:
        await hand_over(world, [(world.pods("web")[0], "e1", ())])
        await world.until(lambda: world.witness.of("evict"), 20)
        assert world.runtime.mirror.free["e1"].cpu == 0
        await quiet(world)


async def test_a_pod_found_detached_after_its_plan_has_ended_is_restored_all_the_same():
    async with ready_to_move(2, edge=SMALL_EDGE, configuration=ONE_AT_A_TIME) as world:
        one, other = world.pods("web")
        When(world, replacement(world), lambda pod: becomes_unready(world, pod))
        await hand_over(world, [(one, "e1", ())], plan="first", deadline=10)
        await hand_over(world, [(other, "e1", ())], plan="second")
        await world.until(lambda: world.witness.of("detach"), 5)
        # What a scheduler that was killed had asked for is done only now, and while a plan that
        # waits its turn follows the pod.
        by_somebody_else(world, other)
        await asyncio.sleep(1)
        world.runtime.manager.cancel_waiting()
        await world.until(lambda: not any(map(is_detached, world.pods("web"))), 60)
        await quiet(world)


def by_somebody_else(world, pod):
    """Detach the pod, as another scheduler process does."""
    [owner] = pod["metadata"]["ownerReferences"]
    labels = pod["metadata"]["labels"]
    note = {
        "plan": f"plan-7/default/{name(pod)}",
        "replicaSet": owner["name"],
        "uid": owner["uid"],
        "target": "e1",
        "since": f"{world.clock.wall():.3f}",
    }
    metadata = {
        "labels": {"pod-template-hash": None, "kubedsm.io/migrating": labels["pod-template-hash"]},
        "annotations": {"kubedsm.io/move": orjson.dumps(note).decode()},
    }
    world.patch(PODS, name(pod), {"metadata": metadata})


def put_in_place_of(world, pod):
    """Another pod of the same name, which looks like it and is nobody's to move."""
    metadata = pod["metadata"]
    metadata["labels"].pop("kubedsm.io/migrating", None)
    world.api.delete(PODS, "default", name(pod), grace_seconds=0)
    kept = {key: metadata[key] for key in ("name", "namespace", "labels")}
    owners = metadata.get("ownerReferences")
    made = {"metadata": kept | ({"ownerReferences": owners} if owners else {}), "spec": pod["spec"]}
    world.api.create(PODS, made, namespace="default")
    status = {"status": pod["status"]}
    world.patch(PODS, name(pod), status, subresource="status")
    return world.api.get(PODS, "default", name(pod))


@pytest.mark.parametrize("read", [1, 2, 3, 4])
async def test_a_pod_that_takes_the_name_on_the_way_is_left_alone(read):
    namesakes = []

    def swap():
        current = world.api.get(PODS, "default", name(old))
        namesakes.append(put_in_place_of(world, current))

    def reads_the_pod(request):
        return request.method == "GET" and request.path.endswith(f"/pods/{name(old)}")

    faults = AtRequest(reads_the_pod, swap, n=read)
    async with by_hand() as world:
        async with world.scheduler():
            await settle_on_cloud(world, "web", 1)
            open_edge(world, ONE_PLACE)
            await asyncio.sleep(0.1)
        [old] = world.pods("web")
        async with world.scheduler(faults=faults):
            await world.runtime.synced.wait()
            await hand_over(world, [(old, "e1", ())])
            await quiet(world)
            uids = {pod["metadata"]["uid"] for pod in namesakes}
            for asked in world.witness.of("detach", "reattach", "evict"):
                options = asked.request.body.get("deleteOptions", {})
                metadata = options.get("preconditions") or asked.request.body["metadata"]
                assert metadata["uid"] not in uids


class NewsStops(Faults):
    """A watch of pods that shows nothing new any more once it is told to stop."""

    stopped = False

    def on_line(self, request, line):
        late = self.stopped and request.path.endswith("/pods")
        return Delivery((line,), delay=600.0) if late else None


async def test_a_namesake_of_a_detached_pod_is_not_restored_in_its_place():
    news = NewsStops()
    async with ready_to_move(faults=news) as world:
        [old] = world.pods("web")
        fresh = replacement(world)
        When(world, fresh, lambda pod: becomes_unready(world, pod))
        await hand_over(world, [(old, "e1", ())])
        await world.until(lambda: world.placed("web")["e1"], 5)
        await asyncio.sleep(1)
        news.stopped = True
        stranger = put_in_place_of(world, world.api.get(PODS, "default", name(old)))
        await world.until(world.runtime.manager.quiet.is_set, 40)
        assert not world.witness.of("evict", "reattach")
        left = world.api.get(PODS, "default", name(old))["metadata"]
        assert left["uid"] == stranger["metadata"]["uid"]
        assert "deletionTimestamp" not in left

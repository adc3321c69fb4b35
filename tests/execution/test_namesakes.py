"""Pods that take the name of one that is being moved: nothing that is meant for it reaches them."""

import asyncio

import pytest

from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.front import Delivery, Faults
from support.move_scenes import (
    ONE_PLACE,
    AtRequest,
    When,
    becomes_unready,
    by_hand,
    hand_over,
    name,
    open_edge,
    quiet,
    ready_to_move,
    replacement,
    settle_on_cloud,
)


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

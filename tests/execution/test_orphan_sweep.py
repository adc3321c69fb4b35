"""Pods with the mark of a move that no plan knows: whose turn it is, and what comes of it."""

import asyncio

import attrs
import pytest
from msgspec.structs import replace

from kubedsm.execution.orphan_sweep import DELAYS, MOST_AT_ONCE, PACE, SWEEP, OrphanSweep
from kubedsm.kube.wire.annotations import MoveMark
from kubedsm.model.events import PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Workload
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.front import RequestFault
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.migration import restore_plan
from plans.steps import StepState
from support.faults import Failing
from support.handles import SilentRecorder, handle_of
from support.move_scenes import (
    ONE_PLACE,
    by_hand,
    hand_over,
    labelled,
    open_edge,
    quiet,
    settle_on_cloud,
)
from support.pods import made_pod

MARK = MoveMark("web-h1", "u", "p", "e1", "10.5")


def marked(number, namespace="shop"):
    return made_pod(
        f"web-{number}",
        uid=f"{namespace}-{number}",
        namespace=namespace,
        node_name=NodeName("n1"),
        detached=True,
        labels={MIGRATING_LABEL: "h1"},
    )


class Looks:
    """The live reads: what each finds, when it was begun, and how many there are at once."""

    def __init__(self, finds):
        self.finds, self.looked, self.now, self.most = finds, [], 0, 0

    async def read_mark(self, pod):
        self.looked.append(pod.uid)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.1)
        self.now -= 1
        return self.finds


@attrs.define
class Runner:
    tasks: asyncio.TaskGroup
    followed: set = attrs.field(factory=set)
    begun: list = attrs.field(factory=list)

    def follows(self, pod):
        return pod in self.followed

    def begin(self, plan):
        self.begun.append(plan.steps[0].pod)

    def spawn_task(self, part, work, **story):
        self.tasks.create_task(work())


class Scene:
    def __init__(self, tasks, pods, finds):
        self.looks, self.plans = Looks(finds), Runner(tasks)
        self.mirror, self.recorder = ClusterMirror(), SilentRecorder()
        for pod in pods:
            self.mirror.apply(PodApplied(pod))
        handle = handle_of(VirtualClock(), mirror=self.mirror, recorder=self.recorder)
        self.orphans = OrphanSweep(handle, self.looks)

    def recorded(self, name):
        """Return the arguments after the pod of each call of the recorder's method."""
        return [arguments for called, _, *arguments in self.recorder.calls if called == name]

    def sweep(self):
        self.orphans.sweep(self.plans)

    def restored(self, pod, state):
        step = replace(restore_plan(pod.uid).steps[0], state=state, reason="no")
        self.orphans.end_restoring(step, self.plans)


@pytest.fixture
async def scene():
    async with asyncio.TaskGroup() as tasks:
        yield lambda pods, finds: Scene(tasks, pods, finds)


@pytest.mark.parametrize("finds", [False, None])
async def test_what_is_none_of_ours_makes_way_for_the_next(scene, finds):
    pods = [marked(n) for n in range(MOST_AT_ONCE + 2)]
    made = scene(pods, finds)
    made.sweep()
    await asyncio.sleep(PACE + 1)
    assert set(made.looks.looked) == {pod.uid for pod in pods}
    assert made.looks.most == MOST_AT_ONCE
    assert made.plans.begun == []


async def test_no_namespace_waits_for_another(scene):
    crowd = [marked(n) for n in range(2 * MOST_AT_ONCE)]
    made = scene([*crowd, marked(0, "bank")], finds=MARK)
    made.sweep()
    await asyncio.sleep(0.5)
    assert "bank-0" in made.plans.begun
    assert len(made.plans.begun) == MOST_AT_ONCE + 1


async def test_what_a_plan_follows_is_left_to_it(scene):
    pod = marked(0)
    made = scene([pod], finds=MARK)
    made.plans.followed.add(pod.uid)
    made.sweep()
    await asyncio.sleep(1)
    assert made.looks.looked == []


async def test_what_a_plan_has_begun_to_follow_meanwhile_is_left_to_it(scene):
    pod = marked(0)
    made = scene([pod], finds=MARK)
    made.sweep()
    await asyncio.sleep(0.05)
    made.plans.followed.add(pod.uid)
    await asyncio.sleep(1)
    assert made.plans.begun == []


async def test_what_could_not_be_restored_is_tried_again_ever_more_rarely(scene):
    pod = marked(0)
    made = scene([pod], finds=MARK)
    for failures in range(3):
        made.sweep()
        await asyncio.sleep(0.5)
        assert len(made.plans.begun) == failures + 1
        made.restored(pod, StepState.FAILED)
        await asyncio.sleep(DELAYS.delay_after(failures) - 1)
        made.sweep()
        await asyncio.sleep(0.5)
        assert len(made.plans.begun) == failures + 1
        await asyncio.sleep(1)
    assert made.recorded("record_orphan") == [["no"]] * 3


REPLACEMENT = attrs.evolve(
    marked(1), node_name=NodeName("e1"), ready=True, created=10.0, detached=False, labels={}
)
NOT_REPLACED = {
    "not ready": attrs.evolve(REPLACEMENT, ready=False),
    "older": attrs.evolve(REPLACEMENT, created=9.0),
    "terminating": attrs.evolve(REPLACEMENT, terminating=True),
    "elsewhere": attrs.evolve(REPLACEMENT, node_name=NodeName("n2")),
    "another workload": attrs.evolve(REPLACEMENT, workload=Workload("shop", "Deployment", "api")),
}


async def ending(scene, other, *, returned=False):
    """How the migration of a pod ends, with the other pod there."""
    pod = marked(0)
    made = scene([pod, other], finds=MARK)
    made.sweep()
    await asyncio.sleep(0.5)
    made.mirror.apply(PodApplied(attrs.evolve(pod, terminating=not returned)))
    made.restored(pod, StepState.DONE)
    made.restored(pod, StepState.DONE)
    [[target, completed]] = made.recorded("record_inherited_migration")
    assert target == "e1"
    return completed


async def test_a_migration_of_another_process_is_completed_if_its_pod_is_replaced(scene):
    assert await ending(scene, REPLACEMENT)


async def test_a_pod_that_is_given_back_was_not_migrated(scene):
    assert not await ending(scene, REPLACEMENT, returned=True)


@pytest.mark.parametrize("other", NOT_REPLACED.values(), ids=NOT_REPLACED)
async def test_a_migration_of_another_process_without_its_replacement_is_not_completed(
    scene, other
):
    assert not await ending(scene, other)


async def test_a_pod_that_cannot_be_read_at_the_first_sweep_is_restored_at_a_later_one():
    unreadable = Failing(
        lambda request: request.method == "GET" and "/pods/web-" in request.path,
        RequestFault(answer(503, "ServiceUnavailable")),
    )
    async with by_hand() as world:
        async with world.scheduler():
            await settle_on_cloud(world, "web", 1)
            open_edge(world, ONE_PLACE)
            await asyncio.sleep(0.1)
            await hand_over(world, [(world.pods("web")[0], "e1", ())])
            await world.until(lambda: labelled(world), 10)
        async with world.scheduler(faults=unreadable):
            await asyncio.sleep(SWEEP / 2)
            assert unreadable.count
            assert labelled(world)
            unreadable.on = False
            await quiet(world, SWEEP)

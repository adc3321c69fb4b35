"""How long a batch is gathered, and bursts of more pods than a batch has."""

import asyncio
import random

import attrs
import pytest

from kubedsm.config.sections import BatchSettings
from kubedsm.config.settings import Configuration, load
from kubedsm.model.deadline import PATIENT_SHARE, URGENT_SHARE, Deadline
from kubedsm.optimizer.placing import immediate
from kubedsm.scheduling.scheduling_cycle import batch_window
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.pod_rules import HOST, spread
from support.pods import made_pod
from support.worlds import CLOUD, EDGE, emulated


@pytest.fixture
def queue():
    return SchedulingQueue(VirtualClock(), random.Random(0))


async def arrive(queue, *gaps):
    for number, gap in enumerate(gaps):
        await asyncio.sleep(gap)
        queue.add(made_pod(f"p{number}"))


async def closes_after(queue, *gaps, size=100, closed_after=None, enough=100):
    """The seconds a batch was open, and how many pods came into it."""
    closed = asyncio.Event()
    if closed_after is not None:
        asyncio.get_running_loop().call_later(closed_after, closed.set)
    async with asyncio.TaskGroup() as tasks:
        arriving = tasks.create_task(arrive(queue, *gaps))
        await queue.wait_active()
        opened = asyncio.get_running_loop().time()
        await batch_window(
            queue,
            VirtualClock(),
            BatchSettings(idle=0.5, max=2.0, size=size),
            closed,
            lambda: size,
            enough,
        )
        seconds, pods = asyncio.get_running_loop().time() - opened, len(queue)
        arriving.cancel()
    return seconds, pods


async def test_a_batch_closes_when_no_new_pod_comes(queue):
    assert await closes_after(queue, 0, 0.25, 0.25, 3) == (pytest.approx(1.0), 3)


async def test_a_batch_closes_at_its_longest_though_pods_keep_coming(queue):
    seconds, pods = await closes_after(queue, *[0.25] * 20)
    assert seconds == pytest.approx(2.0)
    assert pods in {8, 9}


@pytest.mark.parametrize("limit", ["size", "enough"])
async def test_a_batch_closes_when_it_is_full_or_has_enough_pods(queue, limit):
    seconds, pods = await closes_after(queue, 0, 0.25, 0.25, 0.25, 0.25, 0.25, **{limit: 3})
    assert seconds <= 0.75
    assert pods in {3, 4}


async def test_a_batch_is_closed_from_without(queue):
    seconds, pods = await closes_after(queue, 0, 0.25, 0.25, 0.25, closed_after=0.6)
    assert (seconds, pods) == (pytest.approx(0.6), 3)


#: long enough to be told from everything else
SLOW = load("batch: {idle: 3s, max: 9s, size: 4}", "test")


async def bound_after(world, app, count):
    """Seconds from now until so many pods of it are bound."""
    began = world.clock.monotonic()
    await world.until_bound(count, 20, app)
    return world.clock.monotonic() - began


async def test_a_pod_is_placed_at_once_where_a_full_batch_would_find_room():
    async with emulated(EDGE, CLOUD, configuration=SLOW) as world, world.scheduler():
        world.deploy("other", 1, cpu="100m", memory="64Mi")
        world.deploy("web", 1, cpu="200m", memory="64Mi")
        assert await bound_after(world, "web", 1) < 1


async def test_pods_of_several_workloads_that_want_more_than_there_is_are_gathered():
    async with emulated(EDGE, CLOUD, configuration=SLOW) as world, world.scheduler():
        world.deploy("other", 1, cpu="2")
        await asyncio.sleep(8)
        world.deploy("web", 1, cpu="2")
        assert 2.5 < await bound_after(world, "web", 1) < 4


async def test_pods_that_come_while_binds_are_under_way_are_one_batch():
    async with emulated(EDGE, CLOUD, configuration=SLOW) as world, world.scheduler() as runtime:
        await asyncio.sleep(1)
        batches, place = [], runtime.manager.place
        answered = runtime.scheduler.binds.none_under_way

        def noted(bindings):
            batches.append((len(bindings), answered.is_set()))
            place(bindings)

        runtime.manager.place = noted
        # A line is on its way for 5 ms, a bind and its answer for 10.
        for name, pause in (("a", 0.007), ("b", 0.002), ("c", 0)):
            world.create_pod(name, "100m")
            await asyncio.sleep(pause)
        await world.until_bound(3, 1)
        assert batches == [(1, True), (2, True)]


async def test_a_window_that_cannot_be_judged_is_kept_open(monkeypatch, caught):
    monkeypatch.setattr("kubedsm.optimizer.policies.kubedsm.is_uncontended", lambda *_: 1 / 0)
    async with emulated(EDGE, CLOUD, configuration=SLOW) as world, world.scheduler():
        await asyncio.sleep(1)
        world.deploy("web", 1)
        assert 2.5 < await bound_after(world, "web", 1) < 4
    assert {type(error) for error in caught} == {ZeroDivisionError}
    caught.clear()


PAIRS = load(
    '{suggester: {mode: "off"}, preemption: disabled, batch: {size: 2, idle: 50ms}}', "test"
)


async def bound_of(cpus, room, pause=0.0):
    """Of pods with these requests, the first the oldest: how many were bound in each batch."""
    there = emulated(node("e1", "edge", room, "64Gi"), configuration=PAIRS)
    async with there as world, world.scheduler() as runtime:
        # One of another workload, so that those who come first may be in the way of others.
        world.create_pod("other", "100m")
        await world.until_bound(1, 5)
        await asyncio.sleep(1)
        bound, place = [], runtime.manager.place

        def noted(bindings):
            bound.append(len(bindings))
            place(bindings)

        runtime.manager.place = noted
        for number, cpu in enumerate(cpus):
            world.create_pod(f"p{number}", cpu)
            await asyncio.sleep(pause)
        await asyncio.sleep(0.5)
        return [number for number in bound if number]


@pytest.mark.parametrize("pause", [0.0, 0.02])
async def test_a_burst_is_not_cut_where_the_first_would_take_the_room_of_more(pause):
    # Cut, the large ones leave room for one of the others.
    assert await bound_of(["3", "3", "1", "1", "1", "1"], "4100m", pause) == [4]


async def test_a_burst_is_cut_where_there_is_room_for_all():
    assert await bound_of(["3", "1"] * 3, "64") == [2, 2, 2]


CONFIGURATION = Configuration()
#: pods that look at each other
SPREAD = spread("web", 5, HOST)


@attrs.define
class Observed:
    """The configured policy; the deadlines it was given, and one that is always long past."""

    hasty: bool = False
    late: int = 0
    deadlines: list = attrs.field(factory=list)
    #: at each batch, how often others on the loop had their turn since another
    turns: list = attrs.field(factory=list)
    _had: int = 0

    def place(self, snapshot, pods, rng, deadline):
        self.deadlines.append(deadline)
        self.turns.append(self._had)
        asyncio.get_running_loop().call_soon(self._take_turn)
        given = Deadline(lambda: 2.0) if self.hasty else deadline
        decision = CONFIGURATION.policy.place(snapshot, pods, rng, given)
        self.late += len(decision.late)
        return decision

    def _take_turn(self):
        self._had += 1

    def suggest(self, snapshot, movable, deadline, lasting):
        self.deadlines.append(deadline)
        return CONFIGURATION.policy.suggest(snapshot, movable, deadline, lasting)


async def test_pods_beyond_what_one_batch_decides_on_are_decided_on_later(monkeypatch):
    monkeypatch.setattr(immediate, "MOST_RULED", 1)
    policy = Observed(hasty=True)
    async with emulated(EDGE, CLOUD) as world, world.scheduler(policy=policy):
        await world.bring_up("web", 5, within=30, **SPREAD)
        assert policy.late >= 4
        assert not world.events("FailedScheduling")


@pytest.mark.parametrize("which", ["batch", "suggester"])
async def test_time_for_a_decision_is_what_is_configured(which):
    policy = Observed()
    async with emulated(EDGE, CLOUD) as world, world.scheduler(policy=policy):
        await world.bring_up("web", 5, within=2)
        deadline = policy.deadlines[0]
        budget = CONFIGURATION.batch.budget
        if which == "suggester":
            before = len(policy.deadlines)
            await world.until(lambda: len(policy.deadlines) > before, 30)
            deadline, budget = policy.deadlines[-1], CONFIGURATION.suggester.budget
        begun = deadline.time_left()
        await asyncio.sleep(budget / 2)
        assert begun - deadline.time_left() == pytest.approx(budget / 2)
        share = PATIENT_SHARE if which == "suggester" else URGENT_SHARE
        assert deadline.seconds == pytest.approx(budget * share)


async def test_others_get_their_turn_between_batches():
    batch = attrs.evolve(CONFIGURATION.batch, size=2, idle=0.0)
    policy = Observed()
    async with emulated(
        EDGE, CLOUD, configuration=attrs.evolve(CONFIGURATION, batch=batch)
    ) as world:
        world.deploy("web", 12)
        await world.until(lambda: len(world.pods()) == 12, 5)
        async with world.scheduler(policy=policy):
            await world.until_bound(12, 5)
    assert policy.turns == list(range(len(policy.turns)))
    assert len(policy.turns) >= 6

"""When the suggester thinks, when it lets others, and what comes of late answers."""

import asyncio
import itertools
from collections import deque
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.execution.placement_manager import LONGEST, STALLED, Running
from kubedsm.planner.rebalancing_requests import SuggestRequest
from kubedsm.planner.requests import PlanningContext
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.events import PodGone
from plans.steps import Plan, Step, StepKind
from support.full_clusters import Evictions, filled, preempting, urgent
from support.move_scenes import (
    LARGE_CLOUD,
    SMALL_EDGE,
    WITHOUT_A_PAUSE,
    arrivals,
    hand_over,
    is_detached,
    migrating,
    open_edge,
    quiet,
    settle_on_cloud,
    shop_binds,
)
from support.slow_planning import cordon_target, pause, slow_migrations, switch_off
from support.worlds import CLOUD, EDGE, emulated, scheduled

CONFIGURATION = load("suggester: {period: 1s}", "test")


class LateClock:
    """Virtual time, and what was spent without awaiting anything."""

    def __init__(self):
        self.spent = 0.0
        self._clock = VirtualClock()

    def monotonic(self):
        return self._clock.monotonic() + self.spent

    def wall(self):
        return self._clock.wall() + self.spent

    async def sleep(self, seconds):
        await self._clock.sleep(seconds)


class Slow:
    """KubeDSM, whose suggestions take some seconds."""

    def __init__(self, clock, seconds):
        self.asked_at = []
        self._clock, self._seconds = clock, seconds

    def place(self, snapshot, pods, rng, deadline):
        return CONFIGURATION.policy.place(snapshot, pods, rng, deadline)

    def suggest(self, snapshot, movable, deadline, lasting):
        self.asked_at.append(asyncio.get_running_loop().time())
        self._clock.spent += self._seconds
        return CONFIGURATION.policy.suggest(snapshot, movable, deadline, lasting)


@pytest.mark.parametrize(("seconds", "every"), [(0.0, 1), (0.05, 1), (2.0, 18)])
async def test_thinking_takes_a_tenth_of_the_time_at_most(seconds, every):
    async with thinking(EDGE, CLOUD, seconds=seconds) as (world, times):
        await restless(world, 60)  # it only thinks about what has changed
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) >= 2
    assert min(gaps) == pytest.approx(every, abs=0.6)
    assert max(gaps) == pytest.approx(every, abs=0.6)


async def test_a_standing_proposal_is_solved_again_rarely_while_nothing_changes():
    proposing = load("suggester: {period: 1s, mode: suggest}\nmigration: {price: 0s}", "test")
    async with thinking(CLOUD, configuration=proposing) as (world, times):
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await world.until(lambda: world.runtime.migrator.proposed, 20)
        await asyncio.sleep(20)
        solved = len(times)
        await asyncio.sleep(30)
        assert len(times) <= solved + 2  # its benefit may have grown
        await restless(world, 5)
        assert len(times) > solved + 2


@asynccontextmanager
async def thinking(*nodes, configuration=CONFIGURATION, seconds=0.0, **more):
    """Run a scheduler whose suggestions take some seconds; yield the times of these, too."""
    async with emulated(*nodes, configuration=configuration, **more) as world:
        world.clock = LateClock()
        policy = Slow(world.clock, seconds)
        async with world.scheduler(policy=policy):
            yield world, policy.asked_at


async def restless(world, seconds):
    """Change something again and again, so that there is always something new to think about."""
    for number in range(int(seconds * 2)):
        world.patch(NODES, "c1", {"metadata": {"labels": {"change": str(number)}}})
        await asyncio.sleep(0.5)


async def test_nothing_is_suggested_while_room_is_being_made_by_preemption():
    preempting = load("{suggester: {period: 1s}, preemption: enabled}", "test")
    slow = Timing(start_delay=0.5, stop_delay=15.0)
    c1 = node("c1", "cloud", "2", "8Gi")
    async with thinking(c1, configuration=preempting, timing=slow) as (world, times):
        await world.bring_up("low", 2, within=3, terminationGracePeriodSeconds=30)
        await restless(world, 3)
        assert times
        world.deploy("urgent", 1, priorityClassName="system-cluster-critical")
        await world.until(lambda: world.witness.of("evict"), 5)
        await asyncio.sleep(0.5)
        before = len(times)
        await restless(world, 10)
        assert world.placed("urgent") == {None: 1}
        assert len(times) == before
        await world.until(lambda: world.placed("urgent") == {"c1": 1}, 20)
        await restless(world, 5)
        assert len(times) > before


async def test_nothing_is_suggested_while_new_pods_are_gathered():
    patient = load("{suggester: {period: 1s}, batch: {idle: 10s, max: 20s}}", "test")
    async with thinking(EDGE, CLOUD, configuration=patient) as (world, times):
        await restless(world, 3)
        assert times
        world.deploy("web", 1)
        await asyncio.sleep(0.5)
        before = len(times)
        await restless(world, 8)
        assert world.placed("web") == {None: 1}
        assert len(times) == before


@pytest.mark.parametrize(("period", "seconds"), WITHOUT_A_PAUSE.values(), ids=WITHOUT_A_PAUSE)
async def test_pods_that_are_bound_again_and_again_do_not_keep_others_from_the_edge(
    period, seconds
):
    free = load("{suggester: {period: 1s}, migration: {price: 0s}}", "test")
    there = emulated(CLOUD, configuration=free, faults=shop_binds(seconds))
    async with scheduled(there) as world, arrivals(world, period):
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await world.until(lambda: world.placed("web")["e1"] == 2, 30)


def waiting_plan(plan, *pods):
    """A plan that waits until all of these pods are gone."""
    return Plan(
        plan, tuple(Step(n, StepKind.AWAIT_GONE, uid, "", 60.0) for n, uid in enumerate(pods))
    )


@asynccontextmanager
async def three_pods():
    async with emulated(CLOUD) as world, world.scheduler() as runtime:
        await world.bring_up("web", 3, within=2)
        yield runtime.manager, [pod["metadata"]["uid"] for pod in world.pods("web")]


async def test_slow_plans_are_not_waited_for_and_quick_ones_beside_them_are():
    async with three_pods() as (manager, [one, other, _]):
        manager.begin(waiting_plan("slow", one))
        assert not manager.at_rest()
        await asyncio.sleep(STALLED)
        assert manager.at_rest()
        manager.begin(waiting_plan("quick", other))
        assert not manager.at_rest()


async def test_a_plan_that_makes_progress_is_waited_for():
    async with three_pods() as (manager, pods):
        manager.begin(waiting_plan("p", *pods))
        for uid in pods[1:]:
            await asyncio.sleep(STALLED - 1)
            assert not manager.at_rest()
            manager.report("p", PodGone(uid))
        await asyncio.sleep(STALLED - 1)
        assert not manager.at_rest()
        await asyncio.sleep(1)
        assert manager.at_rest()


async def test_a_plan_is_not_waited_for_for_ever_whatever_its_progress():
    running = Running(waiting_plan("p", "pod"), 0.0, progressed=LONGEST - 1, history=deque())
    assert not running.is_slow(LONGEST - 0.1)
    assert running.is_slow(LONGEST)


async def test_capacity_that_a_waiting_migration_is_going_to_use_is_not_free_to_suggestions():
    one = load("suggester: {mode: 'off'}\nmigration: {maxConcurrent: 1, drainDelay: 1s}", "test")
    async with emulated(CLOUD, configuration=one) as world, world.scheduler() as runtime:
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await asyncio.sleep(0.5)
        await hand_over(world, [(pod, "e1", ()) for pod in world.pods("web")])
        await world.until(lambda: any(map(is_detached, world.pods())), 10)
        known = PlanningContext(runtime.mirror, runtime.mirror.held, None, None, world.clock)
        seen = runtime.migrator.about_candidates(SuggestRequest, budget=1).snapshot(known)
        [one, other] = (
            runtime.mirror.pod(pod["metadata"]["uid"]).requests for pod in world.pods("web")[:2]
        )
        assert seen.free["e1"] == runtime.mirror.node("e1").allocatable - one - other
        await quiet(world)
        assert runtime.migrator.about_candidates(SuggestRequest, budget=1).arriving == {}


async def test_a_namespace_with_many_migrations_lets_others_have_their_turn():
    two = load("suggester: {mode: 'off'}\nmigration: {maxConcurrent: 2, drainDelay: 1s}", "test")
    async with emulated(CLOUD, configuration=two) as world, world.scheduler() as runtime:
        world.namespace("a-crowd")
        world.deploy("web", 4, cpu="10m", namespace="a-crowd")
        await settle_on_cloud(world, "shop", 1)
        open_edge(world)
        await asyncio.sleep(0.5)
        crowd = world.api.list(PODS, "a-crowd")
        await hand_over(world, [(pod, "e1", ()) for pod in crowd], plan="plan-crowd")
        await hand_over(world, [(pod, "e1", ()) for pod in world.pods("shop")])
        await world.until(lambda: world.placed("shop") == {"e1": 1}, 30)
        there = [pod["spec"].get("nodeName") for pod in world.api.list(PODS, "a-crowd")]
        assert there.count("e1") <= 3
        assert runtime.manager.under_way


async def test_switching_the_suggester_off_cancels_migrations_that_wait_for_their_turn():
    settings = "{{suggester: {{period: 1s, mode: {}}}, migration: {{maxConcurrent: 1, price: 0s}}}}"
    waiting = load(settings.format("apply"), "test")
    async with emulated(CLOUD, configuration=waiting) as world, world.scheduler():
        await settle_on_cloud(world, "web", 3)
        open_edge(world)
        await world.until(lambda: world.witness.of("detach"), 20)
        world.runtime.configuration.replace(settings.format("'off'"), "test", 0.0)
        await quiet(world)
        await asyncio.sleep(30)
        assert len(world.witness.of("detach")) == len(world.witness.of("evict")) == 1


async def test_new_pods_do_not_wait_for_moves_that_are_thought_about():
    async with migrating(LARGE_CLOUD) as world, world.scheduler() as runtime:
        await settle_on_cloud(world, "web", 2)
        planner = slow_migrations(runtime, 30.0)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: planner.asked, 30)
        await world.bring_up("api", 1, within=2)


async def overtaken(world, runtime, happens):
    """What is told when that happens while moves are thought about."""
    await settle_on_cloud(world, "web", 1)
    found = []

    def meanwhile(answer):
        if not answer.suggestion.moves:
            planner.meanwhile = meanwhile
            return
        found.extend(answer.suggestion.moves)
        happens(answer.suggestion.moves[0])

    planner = slow_migrations(runtime, 0.3, meanwhile=meanwhile)
    with capture_logs() as logs:
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: [x for x in logs if x["event"] == "suggestion overtaken"], 60)
    assert found
    return [line["event"] for line in logs]


@pytest.mark.parametrize("happens", [cordon_target, pause, switch_off])
async def test_a_stale_suggestion_migrates_no_pod(happens):
    async with migrating(LARGE_CLOUD) as world, world.scheduler() as runtime:
        said = await overtaken(world, runtime, lambda move: happens(world, move))
        assert "suggestion" not in said
        await asyncio.sleep(30)
        assert world.placed() == {"c1": 1}


async def test_without_an_answer_moves_are_looked_for_again():
    async with migrating(LARGE_CLOUD) as world, world.scheduler() as runtime:
        planner = slow_migrations(runtime, 0.1, silent=3)
        await settle_on_cloud(world, "web", 2)
        open_edge(world, SMALL_EDGE)
        await world.until(lambda: world.placed() == {"e1": 2}, 60)
        assert not planner.silent


async def test_victims_that_left_while_they_were_found_are_found_anew():
    calls = Evictions()
    async with preempting(faults=calls) as world, world.scheduler() as runtime:
        names = await filled(world)
        gone = []

        def meanwhile(answer):
            if answer.found is None or not answer.found.victims:
                planner.meanwhile = meanwhile
                return
            gone.extend(victim.name for victim in answer.found.victims)
            for name in gone:
                world.api.delete(PODS, "default", name)

        planner = slow_migrations(runtime, 3.0, meanwhile=meanwhile)
        runtime.preemptor.planner = planner
        urgent(world)
        await world.until(lambda: world.placed("urgent") == {"e1": 1}, 60)
        await asyncio.sleep(30)
        assert set(gone) < names
        assert not set(gone) & set(calls.asked)
        assert world.placed("low")["e1"] == 1

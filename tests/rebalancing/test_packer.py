"""Room made by moving others: when it is looked for, and how it is made, not in vain."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import pytest
from structlog.testing import capture_logs

from kubedsm.config.sections import SuggesterSettings
from kubedsm.config.settings import load
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.planner.requests import NoResponseError
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS
from kubedsm_lab.emulator.emulated_cluster import Timing
from support.asked import as_sent
from support.full_clusters import (
    APPLY,
    HIGH,
    Evictions,
    half_full,
    in_pieces,
    large,
    placed,
    settled,
)
from support.move_scenes import (
    ReadyPods,
    When,
    arrivals,
    becomes_unready,
    is_bound,
    is_detached,
    is_ready,
    shop_binds,
)
from support.printed import printed
from support.slow_planning import cordon_target, pause, slow_migrations, switch_off
from support.worlds import scheduled

STAYS = {"metadata": {"annotations": {"kubedsm.io/do-not-disrupt": "true"}}}


def of(logs, event):
    return [line for line in logs if line["event"] == event]


def annotated(world, app):
    """Let none of its pods be moved."""
    for pod in world.pods(app):
        world.patch(PODS, pod["metadata"]["name"], STAYS)


async def restless(world, seconds, every):
    for number in range(int(seconds / every)):
        world.patch(NODES, "n1", {"metadata": {"labels": {"change": str(number)}}})
        await asyncio.sleep(every)


async def test_it_is_asked_once_the_same_pods_have_waited_for_the_delay():
    patient = attrs.evolve(APPLY, optimiser=attrs.evolve(APPLY.optimiser, delay=20.0))
    async with in_pieces(configuration=patient) as world, world.scheduler() as runtime:
        planner = slow_migrations(runtime)
        await half_full(world)
        for number in range(12):
            large(world, f"large{number}")
            await asyncio.sleep(5)
            assert planner.asked == []
        await world.until(lambda: planner.asked, 45)


async def test_what_nothing_can_be_done_about_is_asked_once_and_said_once():
    async with in_pieces() as world, world.scheduler() as runtime:
        planner = slow_migrations(runtime)
        await half_full(world)
        annotated(world, "web")
        with capture_logs() as logs:
            large(world)
            await asyncio.sleep(620)
        assert len(planner.asked) == 1
        assert len(of(logs, "packing")) == 1
        assert placed(world) == 0
        before = world.invariants.writes
        await asyncio.sleep(280)
        assert world.invariants.writes <= before + 1  # that it still waits is counted


async def test_a_restless_cluster_is_asked_about_ever_less_often():
    async with in_pieces() as world, world.scheduler() as runtime:
        planner = slow_migrations(runtime)
        await half_full(world)
        annotated(world, "web")
        large(world)
        await restless(world, 300, 2)
        assert len(planner.asked) <= 11


async def test_the_time_of_a_packing_is_no_pause_of_the_suggester():
    both = attrs.evolve(APPLY, suggester=SuggesterSettings(period=1.0))
    async with in_pieces(configuration=both) as world, world.scheduler() as runtime:
        await half_full(world)
        annotated(world, "web")
        planner = slow_migrations(runtime, lambda: 20.0 * (planner.asked[-1].name == "packing"))
        large(world)
        await restless(world, 60, 0.5)
        assert sum(asked.name == "suggestion" for asked in planner.asked) > 20


async def test_no_more_than_a_tenth_of_the_time_is_spent_on_thinking():
    async with in_pieces() as world, world.scheduler() as runtime:
        planner = slow_migrations(runtime, 2.5)
        await half_full(world)
        annotated(world, "web")
        for number in range(40):
            large(world, f"large{number}")
            await asyncio.sleep(5)
        assert 5 <= len(planner.asked) <= 200 / 25 + 1


async def test_a_tenant_whose_pods_come_and_go_does_not_keep_others_moving():
    async with in_pieces() as world, world.scheduler():
        await half_full(world)
        with capture_logs() as logs:
            for _ in range(40):
                large(world)
                await asyncio.sleep(15)
                world.api.delete(DEPLOYMENTS, "default", "large")
                await asyncio.sleep(15)
        assert len(of(logs, "migration begun")) <= 4


@pytest.mark.parametrize(
    "settings",
    ["optimiser: {mode: off}", "suggester: {mode: off}", "migration: {mode: off}"],
)
async def test_nothing_is_moved_where_that_is_off(settings):
    async with in_pieces(configuration=load(settings, "test")) as world, world.scheduler():
        await half_full(world)
        large(world)
        await asyncio.sleep(60)
        assert placed(world) == 0
        assert not world.events("Migrated")


async def test_in_the_mode_suggest_it_is_only_said():
    settings = "{suggester: {mode: off}, optimiser: {mode: suggest}}"
    async with in_pieces(configuration=load(settings, "test")) as world:
        async with world.scheduler() as runtime:
            await half_full(world)
            with capture_logs() as logs:
                large(world)
                await asyncio.sleep(300)
            [line] = of(logs, "packing")
            assert (line["placed"], line["mode"], len(line["moves"])) == (1, "suggest", 1)
            [event] = world.events("PackingProposed")
            assert event["message"].startswith("Packing: 1 migration would free capacity on n")
            decisions = runtime.decisions
            [(uid, name)] = decisions.find_pods(world.pods("large")[0]["metadata"]["name"]).items()
            told = decisions.explain(decisions.recall(uid, name))
            assert told.packing.startswith("1 migration would free capacity on n")
            assert told.packing.endswith("; the mode is suggest")
            assert as_sent(told)["packing"] == told.packing
            assert f"Packing: {told.packing}" in printed(render_text(explain_pod(told)))
        assert placed(world) == 0


async def test_without_an_answer_it_is_asked_again():
    async with in_pieces() as world, world.scheduler() as runtime:
        silent = [3]

        def gone(_):
            if silent[0]:
                silent[0] -= 1
                planner.meanwhile = gone
                raise NoResponseError("it ended")

        planner = slow_migrations(runtime, meanwhile=gone)
        await half_full(world)
        large(world)
        await world.until(lambda: placed(world) == 1, 60)
        assert silent == [0]
        await asyncio.sleep(5)
        assert settled(world)


#: so that there is time for something else to happen
SLOW = Timing(start_delay=5.0, stop_delay=5.0)


@pytest.mark.parametrize("tier", ["edge", "cloud"])
async def test_two_pods_are_moved_together_for_a_third(tier):
    async with in_pieces(tier=tier) as world, world.scheduler():
        await half_full(world)
        ready = ReadyPods(world, "web").watch()
        with capture_logs() as logs:
            large(world)
            await world.until(lambda: placed(world) == 1, 30)
            await asyncio.sleep(5)
        assert sorted(world.placed("web").values()) == [2]
        assert ready.lowest == 2
        assert settled(world)
        [line] = of(logs, "packing")
        assert (line["stuck"], line["placed"], len(line["moves"])) == (1, 1, 1)
        assert line["certificate"][0] == "placed: 3 of at most 3 (gap 0.0 %)"
        [ended] = of(logs, "packing ended")
        assert (ended["migrated"], ended["placed"], ended["left"]) == (1, 1, 0)
        [event] = world.events("Packed")
        name = world.pods("large")[0]["metadata"]["name"]
        assert event["message"] == f"Packing: migrated 1 pod to free capacity for default/{name}"
        assert event["involvedObject"]["name"] == name
        [moved] = world.events("Migrated")
        assert f"to free capacity for default/{name}" in moved["message"]
        before = world.invariants.writes
        await asyncio.sleep(200)
        assert world.invariants.writes == before


async def test_overlapping_binds_of_others_do_not_keep_room_from_being_made():
    free = attrs.evolve(APPLY, migration=attrs.evolve(APPLY.migration, price=0.0))
    there = in_pieces(configuration=free, faults=shop_binds(2.5))
    async with scheduled(there) as world, arrivals(world, 0.5):
        await half_full(world)
        large(world)
        await world.until(lambda: placed(world) == 1, 40)


async def overtaken(world, runtime, happens):
    """What is logged when that happens while it is thought about room."""
    await half_full(world)
    slow_migrations(runtime, 0.3, meanwhile=lambda answer: happens(answer.suggestion))
    with capture_logs() as logs:
        large(world)
        await world.until(lambda: of(logs, "packing overtaken"), 20)
    assert not of(logs, "migration begun")
    return logs


def take_room(world, found):
    where = {"kubernetes.io/hostname": found.moves[0].target}
    world.deploy("quick", 1, nodeSelector=where)


#: what happens while the packing is solved, and makes its answer stale
MEANWHILE = {
    "pod to move gone": lambda world, found: world.api.delete(
        PODS, "default", found.moves[0].pod.name
    ),
    "pending pod gone": lambda world, found: world.api.delete(DEPLOYMENTS, "default", "large"),
    "target cordoned": lambda world, found: cordon_target(world, found.moves[0]),
    "capacity taken": take_room,
    "migrations paused": pause,
    "switched off": switch_off,
}


@pytest.mark.parametrize("happens", MEANWHILE.values(), ids=MEANWHILE)
async def test_a_stale_packing_migrates_no_pod(happens):
    async with in_pieces() as world, world.scheduler() as runtime:
        await overtaken(world, runtime, lambda found: happens(world, found))
        if happens is take_room:
            assert placed(world, "quick") == 1


async def test_a_bind_that_is_under_way_then_is_waited_for():
    async with in_pieces(nodes=3) as world, world.scheduler() as runtime:
        await half_full(world, 2)

        def more(found):
            [move], [awaited] = found.suggestion.moves, found.suggestion.awaited
            [apart] = {"n1", "n2", "n3"} - {move.target, awaited.target}
            world.deploy("quick", 1, nodeSelector={"kubernetes.io/hostname": apart})

        # It is known of the new pod, and it is not bound yet.
        slow_migrations(runtime, 0.015, meanwhile=more)
        world.deploy("fills", 1, cpu="2")
        await world.until(lambda: placed(world, "fills") == 1, 5)
        with capture_logs() as logs:
            large(world)
            await world.until(lambda: placed(world) == 1, 20)
        assert placed(world, "quick") == 1
        assert not of(logs, "packing overtaken")


@pytest.mark.parametrize("preemption", ["disabled", "enabled"])
async def test_the_room_is_held_for_the_pod_that_it_is_made_for(preemption):
    configuration = attrs.evolve(APPLY, preemption=preemption)
    async with scheduled(in_pieces(configuration=configuration, timing=SLOW)) as world:
        await half_full(world)
        await asyncio.sleep(5)
        large(world)
        await world.until(lambda: [p for p in world.pods("web") if is_detached(p)], 20)
        world.deploy("newer", 1, cpu="2")
        await world.until(lambda: placed(world) == 1, 30)
        assert placed(world, "newer") == 0
        await asyncio.sleep(30)
        assert settled(world)


async def test_room_is_not_held_against_a_pod_that_matters_more():
    async with in_pieces(timing=SLOW) as world, world.scheduler():
        await half_full(world)
        await asyncio.sleep(5)
        large(world)
        await world.until(lambda: [p for p in world.pods("web") if is_detached(p)], 20)
        large(world, "urgent", priorityClassName=HIGH)
        await world.until(lambda: placed(world, "urgent") == 1, 60)
        await asyncio.sleep(30)
        assert placed(world) == 0
        assert settled(world)


@asynccontextmanager
async def two_moves():
    """Two pods have to go for one that waits, one after the other; the first is on its way."""
    one_by_one = attrs.evolve(APPLY, migration=attrs.evolve(APPLY.migration, max_concurrent=1))
    async with scheduled(in_pieces(configuration=one_by_one, nodes=3, timing=SLOW)) as world:
        await world.bring_up("web", 6, within=3, cpu="1")
        await asyncio.sleep(8)
        assert sorted(world.placed("web").values()) == [2, 2, 2]
        world.deploy("large", 1, cpu="4")
        await world.until(lambda: [p for p in world.pods("web") if is_detached(p)], 60)
        yield world


async def test_what_is_left_is_not_done_when_a_move_has_failed():
    async with two_moves() as world:
        with capture_logs() as logs:
            [new] = [p for p in world.pods("web") if not is_ready(p)]
            becomes_unready(world, new)
            await world.until(lambda: world.events("PackingFailed"), 60)
        assert not of(logs, "migration begun")


async def test_moves_that_have_not_begun_are_not_made_for_a_pod_that_is_gone():
    async with two_moves() as world:
        world.api.delete(DEPLOYMENTS, "default", "large")
        await world.until(lambda: settled(world), 60)
        await world.until(lambda: len(world.events("Migrated")) == 1, 5)
        # That the other was not made is nobody's failure.
        assert not world.runtime.manager.migrations.resting()


async def test_a_move_that_fails_ends_it_and_the_room_is_given_back():
    async with in_pieces(timing=SLOW) as world, world.scheduler() as runtime:
        await half_full(world)
        await asyncio.sleep(5)
        known = {pod["metadata"]["uid"] for pod in world.pods()}
        new = lambda pod: pod["metadata"]["uid"] not in known and is_bound(pod)  # noqa: E731
        When(world, new, lambda pod: becomes_unready(world, pod))
        large(world)
        await world.until(lambda: world.events("PackingFailed"), 60)
        [event] = world.events("PackingFailed")
        assert event["type"] == "Warning"
        assert "Packing: no capacity was freed: " in event["message"]
        [waiting] = [pod for pod in runtime.mirror.pods() if pod.waits_for_node]
        told = runtime.decisions.record.packing_for(waiting.uid)
        assert f"Packing: {told}" == event["message"]
        await asyncio.sleep(10)
        ready = ReadyPods(world, "web")
        assert ready.count() == 2


async def test_room_that_others_took_all_the_same_is_given_up():
    """Other schedulers do not know for whom it is held."""
    async with in_pieces(timing=SLOW) as world, world.scheduler() as runtime:
        await half_full(world)
        await asyncio.sleep(5)
        large(world)
        await world.until(lambda: [p for p in world.pods("web") if is_detached(p)], 20)
        [moving] = [pod for pod in runtime.mirror.pods() if pod.detached]
        world.create_pod("other", "2", schedulerName="other", nodeName=moving.node_name)
        await world.until(lambda: world.events("PackingFailed"), 60)
        [event] = world.events("PackingFailed")
        assert event["message"] == "Packing: no capacity was freed: other pods took the capacity"
        assert placed(world) == 0
        await asyncio.sleep(1)
        assert settled(world)


async def test_a_packing_that_takes_too_long_is_given_up_with_its_room():
    """A pod that is moved does not go for longer than all of it may take."""
    endless = Timing(start_delay=0.5, stop_delay=5000.0)
    async with in_pieces(timing=endless) as world, world.scheduler():
        await half_full(world, terminationGracePeriodSeconds=6000)
        large(world)
        await world.until(lambda: world.events("PackingFailed"), 140)
        assert world.clock.monotonic() > 100
        [event] = world.events("PackingFailed")
        assert event["message"] == "Packing: no capacity was freed: deadline exceeded"
        runtime = world.runtime
        assert not runtime.preemptor.nominations
        assert not runtime.mirror.sum_nominations([runtime.mirror.pods()[-1].uid])


@pytest.mark.parametrize("protected", [False, True])
async def test_pods_of_lower_priority_go_for_others_only_by_leave_of_their_budgets(protected):
    """One of 3 is evicted from a node, one of 2 goes there, and one of 3 gets its room."""
    evicting = attrs.evolve(APPLY, optimiser=attrs.evolve(APPLY.optimiser, allow_evictions=True))
    calls = Evictions()
    async with scheduled(in_pieces(configuration=evicting, faults=calls)) as world:
        world.deploy("web", 1, cpu="2", priorityClassName=HIGH)
        world.deploy("low", 1, cpu="3")
        await world.until_bound(2, 3)
        await asyncio.sleep(2)
        if protected:
            world.budget("low", maxUnavailable=0)
            await asyncio.sleep(1)
        ready = ReadyPods(world, "web").watch()
        large(world, priorityClassName=HIGH)
        if protected:
            await world.until(lambda: world.events("PackingFailed"), 30)
            await asyncio.sleep(60)
            assert (placed(world), placed(world, "low"), len(calls.done)) == (0, 1, 0)
            for event in world.events("PackingFailed"):
                assert event["message"].startswith("Packing: no migration begins: ")
        else:
            await world.until(lambda: placed(world) == 1, 30)
            await asyncio.sleep(20)
            assert placed(world, "low") == 0
            assert len(world.events("Preempted")) == 1
        assert ready.lowest == 1
        assert settled(world)


async def test_what_comes_in_place_of_an_evicted_pod_does_not_get_its_room():
    """Both of the moves need it: the pods that are moved, and the one that waits."""
    evicting = attrs.evolve(APPLY, optimiser=attrs.evolve(APPLY.optimiser, allow_evictions=True))
    async with in_pieces(configuration=evicting, nodes=3) as world, world.scheduler():
        await half_full(world, 3, priorityClassName=HIGH)
        await world.bring_up("low", 2, within=3, cpu="1250m")
        await asyncio.sleep(2)
        ready = ReadyPods(world, "web").watch()
        with capture_logs() as logs:
            world.deploy("large", 1, cpu="3200m", priorityClassName=HIGH)
            await world.until(lambda: placed(world) == 1, 60)
        [line] = of(logs, "packing")
        assert (len(line["moves"]), len(line["evicted"])) == (1, 1)
        assert ready.lowest == 3
        await asyncio.sleep(20)
        assert placed(world, "low") == 1
        assert settled(world)

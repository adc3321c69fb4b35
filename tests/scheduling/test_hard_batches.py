"""Batches that are thought about while the world goes on: what still holds of the answers."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kubedsm.config.settings import load
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.model import node_index
from kubedsm.optimizer.placing.cloud import SampledNodes
from kubedsm.planner.worker import dump_response, load_response
from kubedsm.scheduling.planned_batches import Application
from kubedsm_lab.emulator.api.resources import NODES, PODS
from kubedsm_lab.emulator.paper import node
from support.asked import as_sent
from support.full_clusters import HIGH
from support.metered import Metered
from support.move_scenes import LARGE_CLOUD, SMALL_EDGE, migrating, open_edge, settle_on_cloud
from support.pod_rules import HOST, apart, term
from support.printed import printed
from support.sites import NORTH, two_sites
from support.slow_planning import hard, slow_batches, slow_migrations
from support.worlds import CLOUD, EDGE, emulated

#: seconds; long enough to be told from everything else
THOUGHT = 3.0
ROOM_FOR_ONE = node("e1", "edge", "1", "8Gi")
OFF = load('{suggester: {mode: "off"}, services: {Pod: {qos: 1}}}', "test")
ALONE = apart(term("a", HOST))


@pytest.fixture(autouse=True)
def hard_ones(monkeypatch):
    hard(monkeypatch)


def clouded(*nodes, configuration=OFF):
    return emulated(*(nodes or (EDGE, CLOUD)), configuration=configuration)


async def thought_about(world, planner, times=1):
    await world.until(lambda: len(planner.asked) >= times, 30)


class Mistaken:
    async def solve(self, question):
        raise ZeroDivisionError


async def bound_after(world, app, count, seconds=30):
    began = world.clock.monotonic()
    await world.until_bound(count, seconds, app)
    return world.clock.monotonic() - began


@asynccontextmanager
async def planning(*nodes, replicas=1, **hard_pods):
    """A scheduler whose planner is at work on a hard batch."""
    async with clouded(*nodes) as world, world.scheduler() as runtime:
        planner = slow_batches(runtime, THOUGHT)
        world.deploy("hard", replicas, **hard_pods)
        await thought_about(world, planner)
        yield world, planner


async def test_a_hard_batch_holds_up_nobody_elses_pods():
    async with planning(node("e1", "edge", "8", "16Gi"), replicas=3) as (world, planner):
        world.deploy("easy", 2)
        assert await bound_after(world, "easy", 2) < 1
        assert world.placed("hard") == {None: 3}
        assert await bound_after(world, "hard", 3) < THOUGHT + 1
        assert len(planner.asked) == 1


async def test_no_pod_takes_the_room_of_more_important_ones_that_are_thought_about():
    async with planning(ROOM_FOR_ONE, priorityClassName=HIGH) as (world, _planner):
        world.deploy("easy", 1)
        await world.until_bound(1, THOUGHT + 1)
        assert world.placed("hard") == {"e1": 1}


async def test_a_more_important_pod_does_not_wait_for_what_is_thought_about():
    async with planning() as (world, _planner):
        world.deploy("urgent", 1, priorityClassName=HIGH)
        assert await bound_after(world, "urgent", 1) < 1


async def test_a_pod_that_is_gone_costs_the_others_nothing():
    async with clouded() as world, world.scheduler() as runtime:
        planner = slow_batches(runtime, THOUGHT)
        for number in range(3):
            world.create_pod(f"hard-{number}")
        await thought_about(world, planner)
        world.api.delete(PODS, "default", "hard-1")
        await world.until_bound(2, THOUGHT + 1)
        assert len(planner.asked) == 1
        await asyncio.sleep(0.5)
        assert runtime.mirror.held == []


async def test_room_that_is_taken_meanwhile_is_not_promised_twice():
    async with planning(ROOM_FOR_ONE, CLOUD) as (world, planner):
        world.deploy("easy", 1)
        await world.until_bound(2, 2 * THOUGHT + 2)
        assert world.placed("easy") == {"e1": 1}
        assert world.placed("hard") == {"c1": 1}
        assert len(planner.asked) == 2


async def test_rules_are_kept_that_pods_placed_meanwhile_have():
    async with clouded() as world, world.scheduler() as runtime:
        planner = slow_batches(runtime, THOUGHT)
        world.create_pod("hard", labels={"app": "a"})
        await thought_about(world, planner)
        world.create_pod("easy", **ALONE)
        await world.until_bound(2, 2 * THOUGHT + 2)
        places = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in world.pods()}
        assert places["easy"] == "e1"
        assert places["hard"] == "c1"


async def test_a_refused_pod_is_told_why_by_the_nodes_as_they_are():
    async with planning(node("e1", "edge", "1", "1Gi"), cpu="2") as (world, _planner):
        tainted = node("e2", "edge", "4", "8Gi")
        tainted["spec"]["taints"] = [{"key": "x", "effect": "NoSchedule"}]
        world.api.create(NODES, tainted)
        await world.until(lambda: world.events("FailedScheduling"), THOUGHT + 1)
        (event,) = world.events("FailedScheduling")
        assert "0/2 nodes" in event["message"]
        # What it is told is what it waits for.
        untainted = {"spec": {"taints": None}}
        world.patch(NODES, "e2", untainted)
        assert await bound_after(world, "hard", 1) < THOUGHT + 2


async def test_what_was_decided_by_another_configuration_is_decided_anew():
    async with planning(replicas=2) as (world, planner):
        world.runtime.configuration.replace(
            '{suggester: {mode: "off"}, services: {"*": {qos: 0}}}', "test", 0.0
        )
        await asyncio.sleep(THOUGHT + 0.5)
        assert world.placed() == {None: 2}
        await world.until_bound(2, THOUGHT + 1)
        assert len(planner.asked) == 2


async def test_a_site_that_was_cut_off_meanwhile_gets_no_pod():
    async with two_sites(configuration=OFF) as world, world.scheduler() as runtime:
        planner = slow_batches(runtime, 85.0)
        world.deploy("hard", 6)
        await thought_about(world, planner)
        world.cluster.disconnect(*NORTH)
        await asyncio.sleep(60)
        world.cluster.reconnect(*NORTH)
        planner.seconds = 0.0
        # Its nodes take pods again when the answer is there, but its site is stabilising.
        await world.until_bound(6, 30)
        assert not set(world.placed()) & set(NORTH)


async def test_no_move_is_thought_about_beside_a_batch():
    configuration = load("{suggester: {period: 100ms}}", "test")
    async with clouded(configuration=configuration) as world, world.scheduler() as runtime:
        moves = slow_migrations(runtime)
        planner = slow_batches(runtime, 30.0)
        world.deploy("hard", 1)
        await thought_about(world, planner)
        moves.asked.clear()
        await asyncio.sleep(9)
        assert moves.asked == []
        await world.until(lambda: moves.asked, 2)


@pytest.mark.parametrize(("answer", "pause"), [(0.9, 0.5), (2.0, 3.25)])
async def test_a_tenant_whose_pods_are_always_planned_does_not_stop_migrations(answer, pause):
    """Batch after batch without a pause, or with pauses that a look once a period misses."""
    async with migrating(LARGE_CLOUD) as world, world.scheduler() as runtime:
        world.runtime.configuration.replace(
            "{suggester: {period: 3s}, migration: {price: 100ms, cooldown: 1s, drainDelay: 1s}}",
            "test",
            0.0,
        )
        planner = slow_batches(runtime, answer)
        await settle_on_cloud(world, "web", 2)
        for number in range(60):
            if number == 20:
                open_edge(world, SMALL_EDGE)
            world.deploy(f"hard-{number}", 1, nodeSelector={"kubernetes.io/hostname": "nowhere"})
            await asyncio.sleep(pause)
        assert len(planner.asked) > 20
        assert "e1" in world.placed("web")


async def test_without_an_answer_it_is_decided_in_haste():
    async with clouded() as world, world.scheduler() as runtime:
        planner = slow_batches(runtime, 0.0, silent=1)
        world.deploy("hard", 5)
        assert await bound_after(world, "hard", 5) < 1
        assert world.placed("hard") == {"e1": 4, "c1": 1}
        assert len(planner.asked) == 1


async def test_a_mistake_in_an_answer_costs_only_the_answer(caught):
    async with clouded() as world, world.scheduler() as runtime:
        runtime.planned_batches.planner = Mistaken()
        world.deploy("hard", 2)
        assert await bound_after(world, "hard", 2) < 1
    assert {type(error) for error in caught} == {ZeroDivisionError}
    caught.clear()


async def test_a_mistake_in_taking_an_answer_in_puts_its_pods_off(caught, monkeypatch):
    async with clouded() as world, world.scheduler() as runtime:
        slow_batches(runtime, 0.0)
        monkeypatch.setattr(Application, "_place", lambda *_: 1 / 0)
        world.deploy("hard", 2)
        await world.until(lambda: caught, 5)
        monkeypatch.undo()
        # After their back-off.
        assert 0.5 < await bound_after(world, "hard", 2) < 3
    assert {type(error) for error in caught} == {ZeroDivisionError}
    caught.clear()


async def test_room_that_is_being_left_is_waited_for():
    configuration = load('{suggester: {mode: "off"}, batch: {edgeWait: 20s}}', "test")
    there = clouded(ROOM_FOR_ONE, CLOUD, configuration=configuration)
    async with there as world, world.scheduler() as runtime:
        await world.bring_up("old", 1, within=5, terminationGracePeriodSeconds=10)
        await asyncio.sleep(2)
        planner = slow_batches(runtime, THOUGHT)
        world.scale("old", 0)
        await asyncio.sleep(0.1)
        world.deploy("hard", 1)
        await thought_about(world, planner)
        assert planner.asked[0].leaving
        await world.until_bound(1, 20, "hard")
        assert world.placed("hard") == {"e1": 1}


SOME = 'suggester: {mode: "off"}\ncloud: {percentageOfNodes: 10}'


@pytest.fixture
def small_clouds_are_large(monkeypatch):
    monkeypatch.setattr(node_index, "_FEWEST_NODES", 2)


def sampled(text=SOME):
    nodes = [node(f"c{at}", "cloud", "4", "8Gi") for at in range(5)]
    return emulated(*nodes, configuration=load(text, "test"))


def turn(runtime):
    return runtime.scheduler.sampling_start


def looked_at(runtime):
    """By each batch, the oldest first."""
    entries = list(runtime.decisions.record.newest_first())
    return [entry.looked_at for entry in reversed(entries)]


async def placed_in_turn(world, *names):
    for name in names:
        await world.bring_up(name, 1, within=5)


@pytest.mark.usefixtures("small_clouds_are_large")
async def test_each_batch_goes_on_where_the_last_one_looked():
    async with sampled() as world, world.scheduler() as runtime:
        await placed_in_turn(world, "a", "b", "c", "d")
        assert looked_at(runtime) == [SampledNodes(first, 2, 5) for first in (0, 2, 4, 1)]
        assert turn(runtime) == 3
        assert set(world.placed("a")) <= {"c0", "c1"}
        assert set(world.placed("b")) <= {"c2", "c3"}


@pytest.mark.usefixtures("small_clouds_are_large")
async def test_a_batch_that_is_thought_about_goes_on_from_where_it_was_asked():
    async with sampled() as world, world.scheduler() as runtime:
        answers = []
        planner = slow_batches(runtime, THOUGHT, meanwhile=answers.append)
        await placed_in_turn(world, "a", "hard-1", "b")
        assert [question.start for question in planner.asked] == [2]
        assert [each.first for each in looked_at(runtime)] == [0, 2, 4]
        # As a planner process sends it.
        answer = load_response(dump_response(answers[0]), runtime.mirror.pod)
        assert answer.decision.looked_at == SampledNodes(2, 2, 5)


@pytest.mark.usefixtures("small_clouds_are_large")
async def test_it_is_told_which_nodes_were_not_looked_at():
    async with sampled() as world:
        metered = Metered(world)
        with capture_logs() as logs:
            async with world.scheduler(instruments=metered.instruments) as runtime:
                await placed_in_turn(world, "a", "b")
                decisions = runtime.decisions
                ((uid, name),) = decisions.find_pods(world.pods("b")[0]["metadata"]["name"]).items()
                said = decisions.explain(decisions.recall(uid, name))
                entry = as_sent(next(decisions.record.newest_first()).facts())
    unseen = {each["node"] for each in as_sent(said)["nodes"] if not each["lookedAt"]}
    assert unseen == {"c0", "c1", "c4"}
    assert all(each.feasible and each.score is None for each in said.nodes if not each.looked_at)
    assert shown(said).count("not sampled: cloud.percentageOfNodes") == 3
    assert "2 of 5 cloud nodes sampled" in said.summary
    assert (entry["cloudNodes"], entry["proven"]) == ({"lookedAt": 2, "of": 5}, False)
    batches = [line for line in logs if line["event"] == "batch"]
    assert [line["cloud_nodes"] for line in batches] == [{"lookedAt": 2, "of": 5}] * 2
    assert metered("kubedsm_cloud_nodes_looked_at_sum") == 4


def shown(said):
    return printed(render_text(explain_pod(said)), 120)

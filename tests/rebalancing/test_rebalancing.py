"""Moves for even load, for pods that wait and for what pays, end to end, and then all stay."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import attrs
import pytest

from kubedsm.app.prometheus import Sample
from kubedsm.config.settings import load
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.emulated_cluster import Timing
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.move_scenes import ReadyPods, migrating, open_edge, quiet
from support.worlds import CLOUD, emulated, scheduled

E1, E2 = (node(name, "edge", "4", "8Gi") for name in ("e1", "e2"))
C1, C2 = (node(name, "cloud", "20", "40Gi") for name in ("c1", "c2"))


async def settle(world, app, replicas, seconds=3):
    await world.bring_up(app, replicas, within=seconds)
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    ("nodes", "other", "kind"), [((E1, C1), E2, "edge-to-edge"), ((C1,), C2, "cloud-to-cloud")]
)
async def test_one_of_three_goes_to_a_node_that_is_new_and_none_is_ever_missing(nodes, other, kind):
    async with migrating(*nodes) as world, world.scheduler():
        await settle(world, "web", 3)
        home, new = nodes[0]["metadata"]["name"], other["metadata"]["name"]
        assert world.placed("web") == {home: 3}
        ready = ReadyPods(world, "web").watch()
        world.api.create(NODES, other)
        await world.until(lambda: world.placed("web") == {home: 2, new: 1}, 30)
        await quiet(world)
        assert ready.lowest == 3
        [moved] = world.events("Migrated")
        assert moved["message"] == (f"Migrated to {new}, to spread default/web over nodes")
        await asyncio.sleep(5)
        [told] = world.events("Migrated", about="Deployment")
        assert f"({kind}), to spread default/web over nodes" in told["message"]
        # That was all there was to do.
        before = world.invariants.writes
        await asyncio.sleep(300)
        assert world.invariants.writes == before


async def test_it_is_worth_nothing_any_more_once_a_pod_is_elsewhere():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(C1, configuration=off) as world, world.scheduler() as runtime:
        await settle(world, "web", 2)
        world.api.create(NODES, C2)
        await asyncio.sleep(0.1)
        [move] = off.policy.suggest(runtime.mirror.snapshot(), lambda _: None).moves
        moves, has_benefit = [move], runtime.migrator.has_benefit
        assert has_benefit(moves)
        world.cordon("c1")
        world.scale("web", 3)
        await world.until(lambda: world.placed("web") == {"c1": 2, "c2": 1}, 5)
        assert not has_benefit(moves)


#: A pod of x alone gains less than its price for minutes; all eight together are worth much more.
SETTINGS = """
suggester: {{period: 1s, mode: {mode}}}
migration: {{price: 200s, drainDelay: 0s, deadline: 20s{more}}}
objective: {{gamma: 10, beta: 0}}
services: {{default/x: {{qos: 1}}, default/y: {{qos: 1, weight: 0.1}}}}
"""
WIDE = node("e1", "edge", "10", "40Gi")


async def fill(world):
    world.deploy("y", 10)
    await world.until(lambda: world.placed("y") == {"e1": 10}, 10)
    world.deploy("x", 8)
    await world.until(lambda: world.placed("x") == {"c1": 8}, 10)


async def test_a_target_is_reached_that_no_single_suggestion_reaches():
    # A plan may begin until 40 s, and goes on after that.
    window = ", windows: {schedule: 0 0 * * *, duration: 4m}"
    configuration = load(SETTINGS.format(mode="apply", more=window), "test")
    async with emulated(WIDE, CLOUD, configuration=configuration) as world, world.scheduler():
        await world.clock.sleep(37.5)
        await fill(world)
        await world.until(lambda: world.placed("x") == {"e1": 8}, 20)
        assert world.placed("y") == {"e1": 2, "c1": 8}
        entries = world.runtime.decisions.record.newest_first()
        made = [entry for entry in entries if entry.moves]
        assert len(made) >= 3
        purposes = [outcome.move.purpose for entry in made for outcome in entry.moves]
        assert any("of a plan of 16" in purpose for purpose in purposes)


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("suggest", ""),
        ("apply", ", cooldown: 20s"),
        ("apply", ", budget: {workloadPerHour: 6}"),
        ("apply", ", windows: {schedule: 0 0 * * *, duration: 1m}"),
    ],
)
async def test_no_plan_begins_that_may_remain_unfinished(mode, more):
    configuration = load(SETTINGS.format(mode=mode, more=more), "test")
    async with emulated(WIDE, CLOUD, configuration=configuration) as world, world.scheduler():
        await fill(world)
        for _ in range(20):
            await world.clock.sleep(3)
            assert world.runtime.migrator.proposed is None
            assert world.placed("y") == {"e1": 10}


ONE, TWO = node("e1", "edge", "1", "8Gi"), node("e1", "edge", "2", "8Gi")
SLOW = Timing(start_delay=0.5, stop_delay=1.0)


def at_price(price, **more):
    batch = "".join(f", {key}: {value}" for key, value in more.items())
    text = (
        f"{{suggester: {{period: 1s}}, migration: {{price: {price}}}, batch: {{idle: 5ms{batch}}}}}"
    )
    return load(text, "test")


async def test_a_move_that_does_not_pay_yet_is_made_once_its_workload_has_been_quiet_for_long():
    # A pod-second of the only pod lasts a minute, and as long again as it has been quiet: twice
    # that is expected after a minute, and the edge about it is known to be as quiet.
    async with emulated(CLOUD, configuration=at_price("100s")) as world, world.scheduler():
        world.deploy("other", 1)
        world.deploy("web", 1)
        await world.until_bound(2, 3)
        open_edge(world, TWO)
        await asyncio.sleep(20)
        assert world.placed("web") == {"c1": 1}
        await world.until(lambda: world.placed("web") == {"e1": 1}, 120)


@pytest.mark.parametrize("mode", ["apply", "off"])
async def test_nothing_is_moved_while_pods_are_about_to_start(mode):
    # One pod is at once where room comes free; the others start, and may need that room more.
    slow = Timing(start_delay=6.0, stop_delay=0.5)
    async with scheduled(emulated(CLOUD, configuration=at_price("10s"), timing=slow)) as world:
        await world.bring_up("old", 1, within=3)
        await asyncio.sleep(20)
        await world.bring_up("new", 1, within=3)
        open_edge(world, TWO)
        await asyncio.sleep(4)
        assert world.placed() == {"c1": 2}
        text = f"{{suggester: {{mode: {mode}, period: 1s}}, migration: {{price: 10s}}}}"
        world.runtime.configuration.replace(text, "test", 0.0)
        await asyncio.sleep(20)
        assert world.placed("old")["e1"] == (mode == "apply")


async def replaced(world):
    """A pod that leaves the only place on the edge at the moment in which another comes."""
    await world.bring_up("old", 1, within=3)
    await asyncio.sleep(3)
    world.scale("old", 0)
    world.deploy("new", 1)


async def test_a_new_pod_waits_for_room_that_is_being_left():
    async with scheduled(emulated(ONE, CLOUD, configuration=at_price("20s"), timing=SLOW)) as world:
        await replaced(world)
        await asyncio.sleep(0.5)
        assert world.placed("new") == {None: 1}
        await world.until(lambda: world.placed("new") == {"e1": 1}, 0.9)
        assert world.witness.of("evict") == []


@pytest.mark.parametrize("wait", ["0s", "500ms"])
async def test_it_waits_no_longer_than_it_may(wait):
    slow = Timing(start_delay=0.5, stop_delay=5.0)
    configuration = at_price("20s", edgeWait=wait)
    async with scheduled(emulated(ONE, CLOUD, configuration=configuration, timing=slow)) as world:
        await replaced(world)
        await asyncio.sleep(0.3)
        assert world.placed("new") == ({"c1": 1} if wait == "0s" else {None: 1})
        await asyncio.sleep(0.5)
        assert world.placed("new") == {"c1": 1}


#: cores, bytes
USES = {"hog": (1000.0, 0.0), "hoard": (0.0, 2.0 * 2**30)}


@attrs.define
class Metering:
    """A Prometheus that knows what each pod uses, and so each node."""

    clock: VirtualClock
    world: object = None

    async def ask(self, _whom, queries, _seconds, _most, then):
        return then({name: self._vector(name) for name in queries})

    def _vector(self, name):
        of, _, kind = name.partition("_")
        if kind not in ("cpu", "memory"):
            return ()
        sums = Counter({"e1": 0.0, "e2": 0.0})
        pods = {}
        for pod in self.world.pods():
            use = USES[pod["metadata"]["labels"]["app"].rstrip("012")][kind == "memory"]
            if pod["spec"].get("nodeName"):
                sums[pod["spec"]["nodeName"]] += use
                pods[pod["metadata"]["name"]] = use
        at = self.clock.wall()
        if of == "node":
            return tuple(Sample({"instance": f"{n}:9100"}, v, at) for n, v in sums.items())
        return tuple(Sample({"namespace": "default", "pod": n}, v, at) for n, v in pods.items())


@asynccontextmanager
async def uneven(move="true", mode="apply"):
    """Two that use cores are on e1, and on e2 two that use memory."""
    text = (
        f"loadAware: {{prometheus: 'http://p', period: 10s, window: 20s, move: {move}}}\n"
        f"suggester: {{mode: '{mode}'}}"
    )
    metering = Metering(VirtualClock())
    async with emulated(E1, configuration=load(text, "test"), prometheus=metering) as world:
        metering.world = world
        async with world.scheduler() as runtime:
            for name in ("hog1", "hog2"):
                world.deploy(name, 1, cpu="2")
            await world.until_bound(2, 5)
            world.api.create(NODES, E2)
            for name in ("hoard1", "hoard2"):
                world.deploy(name, 1, cpu="500m")
            await world.until_bound(4, 5)
            yield world, runtime


def kinds(world, name):
    return sorted(
        app.rstrip("012")
        for app in ("hog1", "hog2", "hoard1", "hoard2")
        if world.placed(app) == {name: 1}
    )


async def test_two_moves_even_it_out_and_then_it_is_quiet():
    async with uneven() as (world, _):
        assert (kinds(world, "e1"), kinds(world, "e2")) == (["hog", "hog"], ["hoard", "hoard"])
        await world.until(lambda: kinds(world, "e1") == ["hoard", "hog"], 200)
        names = sorted(pod["metadata"]["name"] for pod in world.pods())
        told = [event["message"] for event in world.events("Migrated")]
        assert any("to balance load: score 75 -> 88" in message for message in told)
        await world.clock.sleep(200)
        assert sorted(pod["metadata"]["name"] for pod in world.pods()) == names


async def test_a_move_is_worth_it_as_long_as_the_samples_say_so():
    async with uneven(mode="off") as (world, runtime):
        policy = runtime.configuration.current.policy
        await world.clock.sleep(60)
        suggestion = policy.suggest(runtime.mirror.snapshot(), lambda _: None)
        assert [move.evens for move in suggestion.moves] == [True]
        moves, has_benefit = suggestion.moves, runtime.migrator.has_benefit
        assert has_benefit(moves)
        runtime.mirror.apply(MeasuredApplied(NOTHING_MEASURED))
        assert not has_benefit(moves)

"""Moves as a viewer follows them: each step at its moment, what it is made for, how it ended."""

import asyncio

import attrs

from kubedsm.config.settings import load
from kubedsm.dashboard.terminal.browser import Browser
from kubedsm.explain.subjects import Subject
from kubedsm.observability.health_rules import REMEMBERED
from kubedsm_lab.emulator.api.resources import NODES
from support.answers import tell
from support.move_scenes import (
    CONFIGURATION,
    LARGE_CLOUD,
    ONE_PLACE,
    When,
    becomes_unready,
    migrating,
    open_edge,
    replacement,
    settle_on_cloud,
)
from support.viewing import viewing
from support.worlds import emulated

STEPS = [
    "its turn came, and capacity is reserved on e1",
    "{pod} was detached from its owner",
    "the owner created {new}",
    "{new} was bound to e1",
    "{new} was Ready",
    "{new} had stayed Ready",
    "{pod} was evicted",
    "{pod} was gone",
]


def settling(seconds):
    migration = attrs.evolve(CONFIGURATION.migration, drain_delay=seconds)
    return attrs.evolve(CONFIGURATION, migration=migration)


async def test_a_move_is_followed_from_its_decision_to_its_end():
    async with viewing(emulated(LARGE_CLOUD, configuration=settling(3.0))) as (world, viewer):
        await settle_on_cloud(world, "web", 1)
        open_edge(world, ONE_PLACE)
        steps, headlines, links = [], [], set()
        for _ in range(100):
            viewer.look()
            await asyncio.sleep(0.1)
            for row in viewer["moves"].values():
                steps.append(row.get("step"))
                headlines.append(viewer.status["headline"])
                links |= {n for n, pod in viewer["pods"].items() if pod.get("move")}
        [row] = viewer["moves"].values()
        [new] = viewer["pods"]
        pod = row["pod"]
        assert (row["state"], row["source"], row["target"]) == ("completed", "c1", "e1")
        assert row["purpose"] == "1 of 1 pod missing at the edge"
        assert row["replacement"] == new
        names = {"pod": pod, "new": new}
        assert "helped" not in row  # nothing is measured
        assert [text for _, text in row["story"]] == [s.format(**names) for s in STEPS]
        moments = [at for at, _ in row["story"]]
        assert moments == sorted(moments)
        assert row["at"] < row["began"] == moments[0] < moments[-1] == row["ended"]
        assert (row["done"], row["steps"]) == (8, 8)
        assert f"waiting for {new} to be Ready" in steps
        assert links == {pod, new}
        assert not any(row.get("move") for row in viewer["pods"].values())
        moving = f"migrating {pod} from c1 to e1"
        assert f"{moving}: waiting until {new} has stayed Ready for a while, 2 s" in headlines
        assert headlines[-1] == "idle: every QoS target is met"
        assert viewer.news("move") == [
            f"{moving}: 1 of 1 pod missing at the edge",
            f"migrated {pod} from c1 to e1: 1 of 1 pod missing at the edge",
        ]
        assert viewer.news("suggestion") == [f"decided to migrate {pod} from c1 to e1"]
        assert not viewer.news("event")  # which would say the same again
        assert (viewer.status["movesDone"], "moving" in viewer.status) == (1, False)


async def test_one_that_is_taken_back_says_why_and_is_a_trouble_for_a_while():
    async with viewing(migrating(LARGE_CLOUD)) as (world, viewer):
        await settle_on_cloud(world, "web", 1)
        When(world, replacement(world), lambda pod: becomes_unready(world, pod))
        open_edge(world, ONE_PLACE)
        await viewer.watch(20)
        [row] = [row for row in viewer["moves"].values() if row["state"] == "rolled back"]
        new = row["replacement"]
        assert row["reason"] == "the replacement was not Ready before the deadline"
        *_, lost, back = [text for _, text in row["story"]]
        why = "the replacement was not Ready before the deadline"
        assert lost == f"waiting for {new} to be Ready failed: {why}"
        assert back == f"{row['pod']} was restored to its owner"
        route = f"{row['pod']} from c1 to e1"
        [told] = [text for text in viewer.news("move") if text.startswith("migration rolled back")]
        assert told == f"migration rolled back: {route} ({row['reason']})"
        trouble = f"The migration of {route} was rolled back: {row['reason']}."
        assert trouble in viewer.status["notices"]
        wall = world.clock.wall()
        # The clock is set back, or the failure is long ago.
        for now in (wall - 2 * REMEMBERED, wall + REMEMBERED):
            viewer.scene.look(world.runtime, viewer.leadership, now)
            assert trouble not in viewer.scene.snapshot().rows["status"]["now"].notices


async def test_what_is_proposed_is_shown_as_long_as_it_stands():
    suggesting = load("{suggester: {period: 1s, mode: suggest}, migration: {price: 0s}}", "test")
    async with viewing(emulated(LARGE_CLOUD, configuration=suggesting)) as (world, viewer):
        await settle_on_cloud(world, "web", 2)
        open_edge(world)
        await viewer.watch(5)
        rows = viewer["moves"].values()
        assert [row["state"] for row in rows] == ["proposed", "proposed"]
        proposal = viewer.status["proposal"]
        assert viewer.status["headline"] == (f"2 migrations proposed: kubedsm approve {proposal}")
        browser = Browser("here")
        browser.observe(viewer.scene.snapshot())
        browser.show("migrations")
        browser.render(world.clock.wall(), 120, 40)
        link = browser.open()
        assert (link.kind, link.key in viewer["moves"]) == ("move", True)
        assert world.runtime.explanations.collect(Subject("migration", link.key))
        [news] = viewer.news("suggestion")
        assert news.startswith("would migrate 2 pods: default/web-")
        world.api.delete(NODES, "", "e1")
        await viewer.watch(5)
        assert not viewer["moves"]
        assert "proposal" not in viewer.status


async def test_what_it_brought_is_told_when_that_is_measured():
    async with viewing(migrating(LARGE_CLOUD)) as (world, viewer):
        await settle_on_cloud(world, "web", 2)
        tell(world, 40, 120, rates=(5.0, 15.0))
        await asyncio.sleep(1)
        open_edge(world, ONE_PLACE)
        await viewer.watch(20)
        [row] = viewer["moves"].values()
        expected = "expected 120 -> 80 ms"
        assert row["helped"] == f"{expected}; not measured: waiting for the next sample"
        await asyncio.sleep(31)
        viewer.look()
        tell(world, 50, 100, rates=(10.0, 10.0))
        viewer.look()
        [row] = viewer["moves"].values()
        assert row["helped"].startswith(f"{expected}; measured 100 -> 75 ms")
        web = viewer["workloads"]["default/web"]
        assert (web["edgeAnswers"], web["cloudAnswers"]) == (50.0, 100.0)

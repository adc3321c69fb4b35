"""When room is looked for by packing: not again and again, and not against the rules."""

import asyncio

import attrs
import pytest
from structlog.testing import capture_logs

from kubedsm.config.sections import SuggesterSettings
from kubedsm.config.settings import load
from kubedsm.explain.pod import explain_pod
from kubedsm.explain.rendering import render_text
from kubedsm.planner.requests import NoResponseError
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS
from support.asked import as_sent
from support.full_clusters import APPLY, half_full, in_pieces, large, placed, settled
from support.printed import printed
from support.slow_planning import slow_migrations

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

"""Requests to migrate pods, on a ConfigMap of the scheduler: once, by its leave, and answered."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
import structlog

from kubedsm.config.settings import Configuration, load
from kubedsm.kube.wire.annotations import ANSWER_ANNOTATION, MoveRequest, RequestedMove
from kubedsm.model.model import Tier
from kubedsm.model.sites import NOTHING_AWAY, Away
from kubedsm.rebalancing.migration_requests import list_requested_moves, validate_moves
from kubedsm.rebalancing.suggester import order_of
from kubedsm_lab.emulator.api.resources import PODS
from support.faults import OUTCOMES, Failing
from support.move_scenes import (
    LARGE_CLOUD,
    WITHOUT_A_PAUSE,
    ReadyPods,
    arrivals,
    open_edge,
    quiet,
    settle_on_cloud,
    shop_binds,
)
from support.placement_instances import node, resources, snapshot
from support.proposals import APPROVED, PROPOSING, Scene, config_map, proposing
from support.suggest_instances import running
from support.worlds import emulated


async def test_an_approved_proposal_is_carried_out_in_mode_suggest_and_nothing_else_is():
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        await asyncio.sleep(20)
        assert scene.world.placed("web") == {"c1": 2}
        ready = ReadyPods(scene.world, "web").watch()
        scene.ask(proposal=suggestion.id)
        answer = await scene.answer()
        assert answer.state == "ended"
        assert [move.outcome for move in answer.moves] == ["completed", "completed"]
        assert [each.state for each in scene.answers()] == ["taken", "ended"]
        await quiet(scene.world)
        assert scene.world.placed("web") == {"e1": 2}
        assert ready.lowest == 2
        assert scene.proposed is None


async def test_a_proposal_is_told_once_with_the_id_that_approves_it():
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        await asyncio.sleep(120)
        [line] = scene.lines("suggestion")
        assert line["proposal"] == suggestion.id
        events = scene.world.events("MigrationProposed")
        assert len(events) == 2
        assert all(e["message"].endswith(f"kubedsm approve {suggestion.id}") for e in events)
        assert not any(e.get("series") for e in events)


async def test_moves_that_are_said_are_made_in_mode_off_as_far_as_they_hold():
    off = load("{suggester: {mode: 'off'}, migration: {price: 0s, drainDelay: 1s}}", "test")
    async with proposing(off) as scene:
        world = scene.world
        await asyncio.sleep(1)
        suggestion = PROPOSING.policy.suggest(world.runtime.mirror.snapshot(), lambda _: None)
        first, second = list_requested_moves(suggestion)
        world.api.delete(PODS, "default", second.pod.partition("/")[2], grace_seconds=0)
        await asyncio.sleep(1)
        scene.ask(moves=(first, second))
        answer = await scene.answer()
        assert answer.state == "ended"
        assert [(m.outcome, m.reason) for m in answer.moves] == [
            ("completed", ""),
            ("dropped", "the pod is gone"),
        ]
        each = "; ".join(map(str, answer.moves))
        assert answer.text == f"1 of 2 migrations completed: {each}"


STALE = {
    "another uid": ({"uid": "11111111-2222-3333-4444-555555555555"}, "the pod is gone"),
    "another name": ({"pod": "default/other"}, "the pod is gone"),
    "not there": ({"source": "e1"}, "it is on c1 now, not on e1"),
    "no node": ({"target": "e9"}, "node e9 is gone"),
    "circle": ({"needs": ("default/x",)}, "legs wait for each other"),
}


@pytest.mark.parametrize(("changes", "why"), STALE.values(), ids=STALE)
async def test_what_does_not_hold_any_more_is_refused_and_said(changes, why):
    async with proposing(pods=1) as scene:
        [move] = list_requested_moves(await scene.until_proposed())
        scene.ask(moves=[msgspec.structs.replace(move, **changes)])
        answer = await scene.answer()
        assert (answer.state, answer.cause) == ("refused", "stale")
        assert answer.moves[0].reason.startswith(why)
        assert not scene.world.witness.of("detach")


async def test_a_request_gives_no_right_to_disrupt_a_pod_that_forbids_it():
    async with proposing(pods=1) as scene:
        [move] = list_requested_moves(await scene.until_proposed())
        patch = {"metadata": {"annotations": {"kubedsm.io/do-not-disrupt": "true"}}}
        scene.world.patch(PODS, move.pod.partition("/")[2], patch)
        await asyncio.sleep(1)
        scene.ask(moves=[move])
        answer = await scene.answer()
        assert (answer.state, answer.cause) == ("refused", "stale")
        assert "do-not-disrupt" in answer.moves[0].reason


async def test_a_suggester_that_is_switched_off_has_no_current_proposal():
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        scene.world.runtime.configuration.replace("suggester: {mode: 'off'}", "test", 0.0)
        scene.ask(proposal=suggestion.id)
        answer = await scene.answer()
        assert (answer.state, answer.cause) == ("refused", "stale")
        assert answer.text.endswith("there is no current proposal")


async def test_a_second_request_waits_for_nobody_and_a_third_is_taken_after_the_first():
    async with proposing() as scene:
        moves = list_requested_moves(await scene.until_proposed())
        scene.ask("r1", moves=moves[:1])
        await scene.world.until(lambda: scene.answers("r1"), 5)
        scene.ask("r2", moves=moves[1:])
        answer = await scene.answer("r2")
        assert (answer.state, answer.cause) == ("refused", "busy")
        assert (await scene.answer("r1")).state == "ended"
        scene.ask("r3", moves=moves[1:])
        assert (await scene.answer("r3")).state == "ended"
        assert scene.world.placed("web") == {"e1": 2}


@pytest.mark.parametrize(("period", "seconds"), WITHOUT_A_PAUSE.values(), ids=WITHOUT_A_PAUSE)
async def test_a_request_is_executed_while_pods_are_bound_again_and_again(period, seconds):
    async with proposing(faults=shop_binds(seconds)) as scene, arrivals(scene.world, period):
        moves = list_requested_moves(await scene.until_proposed())
        await asyncio.sleep(5)
        scene.ask(moves=moves)
        answer = await scene.answer()
        assert answer.state == "ended"
        assert [move.outcome for move in answer.moves] == ["completed", "completed"]


@pytest.mark.parametrize("change", ["new pods", "configuration"])
async def test_nothing_but_a_user_cancels_requested_migrations_that_wait_for_their_turn(change):
    text = "{{suggester: {{mode: off}}, migration: {{price: 0s, maxConcurrent: {}}}}}"
    async with proposing(load(text.format(1), "test")) as scene:
        world = scene.world
        await asyncio.sleep(1)
        suggestion = PROPOSING.policy.suggest(world.runtime.mirror.snapshot(), lambda _: None)
        scene.ask(moves=list_requested_moves(suggestion))
        await world.until(lambda: world.witness.of("detach"), 10)
        if change == "new pods":
            world.create_pod("new", "1m")
        else:
            world.runtime.configuration.replace(text.format(2), "test", 0.0)
        answer = await scene.answer()
        assert [move.outcome for move in answer.moves] == ["completed", "completed"]


async def test_what_is_no_request_is_said_once_and_what_is_old_is_left_alone():
    async with proposing() as scene:
        suggestion = await scene.until_proposed()
        scene.put('{"id": 5}')
        await asyncio.sleep(5)
        scene.paused("false")  # the ConfigMap changes, the request does not
        scene.put("x" * 200_000)
        await asyncio.sleep(5)
        scene.ask("old", age=600.0, proposal=suggestion.id)
        await asyncio.sleep(20)
        assert len(scene.lines("migration request unreadable")) == 2
        assert not scene.answers("old")
        assert scene.world.placed("web") == {"c1": 2}


async def test_an_approval_names_a_proposal_and_no_moves():
    async with proposing(pods=1) as scene:
        moves = list_requested_moves(await scene.until_proposed())
        scene.put(str(MoveRequest("r1", scene.world.clock.wall(), "", tuple(moves))), APPROVED)
        answer = await scene.answer()
        assert (answer.state, answer.cause) == ("refused", "unreadable")
        assert answer.text.endswith("list migrations on ConfigMap kubedsm/kubedsm")
        await asyncio.sleep(20)
        assert not scene.world.witness.of("detach")


def is_answer(request):
    """Return whether a request writes an Event with an answer."""
    metadata = request.body.get("metadata", {}) if isinstance(request.body, dict) else {}
    return ANSWER_ANNOTATION in (metadata.get("annotations") or {})


@pytest.mark.parametrize(("outcome", "tries"), [("403", 1), ("503", 5)])
async def test_if_it_cannot_be_written_that_a_request_is_taken_nothing_is_moved(outcome, tries):
    faults = Failing(is_answer, OUTCOMES[outcome])
    async with proposing(faults=faults) as scene:
        scene.ask(moves=list_requested_moves(await scene.until_proposed()))
        await asyncio.sleep(60)
        assert faults.count == tries
        assert not scene.world.witness.of("detach")


@pytest.mark.parametrize(("ahead", "taken"), [(110.0, True), (130.0, False)])
async def test_a_request_of_a_clock_that_is_more_than_two_minutes_ahead_is_left_alone(ahead, taken):
    async with proposing() as scene:
        scene.ask(age=-ahead, moves=list_requested_moves(await scene.until_proposed()))
        await asyncio.sleep(9)
        assert bool(scene.answers()) is taken


@pytest.mark.parametrize(("characters", "taken"), [(100_000, True), (100_001, False)])
async def test_a_request_of_more_than_100000_characters_is_not_read(characters, taken):
    async with proposing() as scene:
        moves = tuple(list_requested_moves(await scene.until_proposed()))
        request = str(MoveRequest("r1", scene.world.clock.wall(), "", moves))
        scene.put(request.ljust(characters))
        await asyncio.sleep(9)
        assert bool(scene.answers()) is taken


async def test_who_leads_next_neither_repeats_a_request_nor_forgets_it():
    async with emulated(LARGE_CLOUD, configuration=PROPOSING) as world:
        config_map(world)
        with structlog.testing.capture_logs() as said:
            scene = Scene(world, said)
            async with world.scheduler():
                await settle_on_cloud(world, "web", 2)
                open_edge(world)
                scene.ask(moves=list_requested_moves(await scene.until_proposed()))
                await world.until(scene.answers, 5)
            async with world.scheduler():
                answer = await scene.answer()
                assert answer.state == "lost"
                await asyncio.sleep(60)
                assert [each.state for each in scene.answers()] == ["taken", "lost"]
                assert not scene.lines("migrations requested")[1:]


POD = running("web-1", "web", resources(1), "c1")
OTHER = running("log-1", "log", resources(2), "e1")
CLUSTER = snapshot(
    [node("e1", Tier.EDGE, 2, 9), node("c1", Tier.CLOUD, 9, 9), node("c2", Tier.CLOUD, 9, 9)],
    [POD, OTHER],
)
MOVE = RequestedMove(str(POD), POD.uid, "c1", "c2", group=7, gain=0.5)
AWAY = RequestedMove(str(OTHER), OTHER.uid, "e1", "c1", group=7)


def validated(*moves, away=NOTHING_AWAY):
    return validate_moves(moves, CLUSTER, Configuration(), away)


def test_a_valid_move_is_executed_as_it_was_requested():
    [leg] = validated(MOVE).legs
    assert (leg.source, leg.target, leg.needs) == ("c1", "c2", frozenset())
    assert (leg.move.pod, leg.move.group, leg.move.gain) == (POD, 7, 0.5)
    assert leg.move.stopover is None
    told = {"rebalances": True, "preferred": True, "load_scores": (9.0, 4.0)}
    [leg] = validated(msgspec.structs.replace(MOVE, **told)).legs
    assert {name: getattr(leg.move, name) for name in told} == told


def test_a_detour_has_two_legs():
    first, second = validated(msgspec.structs.replace(MOVE, stopover="c2", target="e1")).legs
    assert (first.source, first.target) == ("c1", "c2")
    assert (second.source, second.target) == ("c2", "e1")
    assert first.move is second.move
    assert first.move.stopover == "c2"
    # Which pod the second leg moves is known once the first has its replacement.
    orders = [order_of("plan-1", leg, Configuration()) for leg in (first, second)]
    assert [order.pod for order in orders] == [POD.uid, ""]
    assert [order.second_leg_of for order in orders] == ["", orders[0].id]
    assert not orders[1].needs


def test_room_that_another_leg_frees_is_not_looked_for_yet():
    full = msgspec.structs.replace(MOVE, target="e1")
    found = validated(full)
    assert not found.legs
    assert found.refused == {POD.uid: "e1: Insufficient cpu"}
    [leg] = validated(AWAY).legs
    waiting = msgspec.structs.replace(full, needs=(leg.name,))
    found = validated(AWAY, waiting)
    assert [leg.target for leg in found.legs] == ["c1", "e1"]
    assert not found.refused
    suggested = SimpleNamespace(legs=found.legs, moves=[each.move for each in found.legs])
    assert [each.needs for each in list_requested_moves(suggested)] == [(), (leg.name,)]


def test_a_move_to_a_site_that_is_partitioned_is_refused():
    found = validated(MOVE, away=Away({"north": frozenset({"c2"})}))
    assert not found.legs
    assert "site" in found.refused[POD.uid]


@pytest.mark.parametrize("uids", [(POD.uid, "gone"), ("gone", POD.uid)])
def test_a_group_is_executed_as_a_whole(uids):
    asked = [msgspec.structs.replace(MOVE, uid=uid) for uid in uids]
    found = validated(*asked)
    assert not found.legs
    assert found.refused == {
        "gone": "the pod is gone",
        POD.uid: f"it belongs to the group of {POD}, which is not migrated",
    }

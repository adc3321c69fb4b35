"""Changes as viewers are told of them, and the recording that keeps them."""

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import pytest

from kubedsm.dashboard import recording as films
from kubedsm.dashboard.recording import Recording
from kubedsm.dashboard.rows import Changes, Snapshot, StatusRow
from kubedsm.dashboard.server.stream import AT_ONCE, GLANCE, LOOK, SILENCE
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.told_scene import ToldScene, stream_of


@asynccontextmanager
async def looking(scene):
    stream = stream_of(scene, VirtualClock())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stream.run())
        yield stream
        running.cancel()


async def told(viewer):
    line = await anext(viewer)
    return json.loads(line) if line else None


def headline(message):
    return message["rows"]["status"]["now"]["headline"]


async def test_a_viewer_is_told_all_and_then_what_changes_or_that_nothing_does():
    scene = ToldScene()
    async with looking(scene) as stream, aclosing(stream.messages(None)) as viewer:
        begun = await told(viewer)
        kind = (begun["type"], begun["run"], headline(begun))
        assert kind == ("snapshot", stream.run_id, "begun")
        scene.say("more")
        more = await told(viewer)
        assert (more["type"], more["version"], headline(more)) == ("changes", 2, "more")
        for number in range(5):
            scene.say(f"v{number}")
            await asyncio.sleep(2 * LOOK)
        # Whoever reads slowly finds more in one message.
        missed = await told(viewer)
        assert (missed["type"], missed["version"], headline(missed)) == ("changes", 7, "v4")
        began = asyncio.get_running_loop().time()
        assert await told(viewer) is None
        assert await told(viewer) is None
        assert asyncio.get_running_loop().time() - began == pytest.approx(2 * SILENCE, abs=2.0)


async def test_what_is_told_is_encoded_once_for_all(monkeypatch):
    encoded = []
    scene = ToldScene()
    async with looking(scene) as stream:
        monkeypatch.setattr(
            "kubedsm.dashboard.server.stream.encode_message",
            lambda message: encoded.append(message) or b"{}",
        )
        viewers = [stream.messages(None) for _ in range(50)]
        for viewer in viewers:
            await told(viewer)
        assert len(encoded) == 1
        assert stream.viewers == 50
        for viewer in viewers:
            await viewer.aclose()
        assert stream.viewers == 0


async def test_a_look_that_fails_costs_the_page_no_more_than_that_look(caught, monkeypatch):
    scene = ToldScene()
    async with looking(scene) as stream, aclosing(stream.messages(None)) as viewer:
        await told(viewer)
        monkeypatch.setattr(scene, "_rows", lambda: 1 / 0)
        scene.say("odd")
        await asyncio.sleep(1.5 * LOOK)
        assert [type(error) for error in caught] == [ZeroDivisionError]
        caught.clear()
        monkeypatch.undo()
        scene.say("well again")
        assert headline(await told(viewer)) == "well again"


async def test_a_clock_that_is_set_back_begins_another_recording():
    scene = ToldScene(begins=5_000.0)
    async with looking(scene) as stream, aclosing(stream.messages(None)) as viewer:
        await told(viewer)
        for begins, said in ((1_000.0, "set back"), (999.0, "a little")):
            scene.begins = begins
            scene.say(said)
            message = await told(viewer)
            assert headline(message) == said
        assert message["type"] == "changes"
        lines = [json.loads(line) for line in stream.recording.lines()]
        assert [(each["type"], headline(each)) for each in lines] == [
            ("snapshot", "set back"),
            ("changes", "a little"),
        ]


async def test_what_may_soon_be_over_is_seen_with_nobody_viewing():
    scene = ToldScene()
    async with looking(scene) as stream:
        await asyncio.sleep(GLANCE + 0.5)
        scene.say("short")
        scene.stirred.set()
        await asyncio.sleep(0)
        await asyncio.sleep(AT_ONCE)
        scene.say("over")
        await asyncio.sleep(2 * GLANCE)
        said = [headline(json.loads(line)) for line in stream.recording.lines()]
        assert said == ["begun", "short", "over"]


@pytest.mark.parametrize(
    ("viewers", "stirring", "looks"),
    [(0, False, 10 / GLANCE), (3, False, 10 / LOOK), (0, True, 10 / AT_ONCE)],
)
async def test_between_two_looks_is_a_pause_even_if_something_always_stirs(
    viewers, stirring, looks
):
    scene, seen = ToldScene(), []
    look = scene.look
    scene.look = lambda: seen.append(look()) or (scene.stirred.set() if stirring else None)
    async with looking(scene) as stream:
        stream.viewers, seen[:] = viewers, []
        await asyncio.sleep(10)
        assert len(seen) == pytest.approx(looks, abs=1)


def changes(version, **rows):
    """At the moment of its version; a row is its headline, or None."""
    status = {key: said and StatusRow(said) for key, said in rows.items()}
    return Changes(version, float(version), {"status": status})


def film(**bounds):
    return Recording(Snapshot(1, 1.0, {"status": {"now": StatusRow("first")}}, run="r"), **bounds)


def test_what_was_missed_comes_at_one_go_if_it_is_kept(monkeypatch):
    kept = film()
    for each in (changes(2, now="a", gone="b"), changes(3, now="c"), changes(4, gone=None)):
        kept.add(each)
    assert kept.since(1) == changes(4, now="c", gone=None)
    assert kept.since(3) == changes(4, gone=None)
    assert kept.since(4) is None
    assert kept.since(5) is None
    kept = film(span=10.0)
    for version in range(2, 30):
        kept.add(changes(version, now=f"v{version}"))
    assert kept.since(1) is None
    assert kept.since(25) is not None
    monkeypatch.setattr(films, "MISSED", 3)
    kept = film()
    for version in range(2, 7):
        kept.add(changes(version, now=f"v{version}"))
    assert kept.since(2) is None
    assert kept.since(3) == changes(6, now="v6")


def test_who_has_a_part_of_it_is_told_the_rest_line_by_line():
    kept = film(span=20.0)
    for version in range(2, 30):
        kept.add(changes(version, now=f"v{version}"))
    begins, *rest = kept.lines()
    assert list(kept.lines(25)) == rest[-4:]
    assert list(kept.lines(29)) == []
    # Its end is no more kept.
    assert list(kept.lines(1)) == list(kept.lines(77)) == [begins, *rest]


def test_the_oldest_are_forgotten_and_the_film_still_says_how_things_stood():
    kept = film(room=2_000)
    for version in range(2, 200):
        kept.add(changes(version, now=f"v{version}", odd="odd" if version % 2 else None))
    first, *rest = map(json.loads, kept.lines())
    assert 1_500 < sum(map(len, kept.lines())) < 2_500
    assert (first["type"], first["run"]) == ("snapshot", "r")
    assert first["rows"]["status"]["now"] == {"headline": f"v{first['version']}"}
    assert ("odd" in first["rows"]["status"]) is bool(first["version"] % 2)
    assert [each["version"] for each in rest] == list(range(first["version"] + 1, 200))

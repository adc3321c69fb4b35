"""Viewers are told what has changed as fast as they read, in virtual time."""

import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import pytest

from kubedsm.dashboard.server.stream import AT_ONCE, GLANCE, LOOK, SILENCE
from kubedsm.process.clock import VirtualClock
from support.told_scene import ToldScene, stream_of

pytestmark = pytest.mark.looptime


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

"""The pause switch: what is read, and that what cannot be seen stops all moves."""

import asyncio
import random
from contextlib import asynccontextmanager

import attrs
import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.app.pause_switch import PauseSwitch
from kubedsm.kube.client.port import ObjectName, OutcomeUnknown, Response, Unreachable
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.process.log_throttle import LogThrottle
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, NAMESPACES
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec, EmulatedCluster
from kubedsm_lab.emulator.front import Delivery, EmulatedFront, Faults, RequestFault
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.move_scenes import MERGE

NAME = ObjectName("kube-system", "kubedsm")


class Troubles(Faults):
    """What is answered to requests, and whether watches break at their next line."""

    def __init__(self):
        self.answer = None
        self.to_lists_only = False
        self.broken = False
        self.asked = []

    def on_request(self, request):
        self.asked.append(request)
        spared = self.to_lists_only and "watch" in request.query
        return None if spared or self.answer is None else RequestFault(self.answer)

    def on_line(self, request, line):
        return Delivery((), end="broken") if self.broken else None


@attrs.frozen
class Scene:
    api: object
    troubles: Troubles
    paused: PauseSwitch
    refused: list

    def write(self, **data):
        found = {"metadata": {"name": "kubedsm"}, "data": data}
        return self.api.create(CONFIGMAPS, found, namespace="kube-system")

    def set(self, value):
        self.api.patch(CONFIGMAPS, *attrs.astuple(NAME), {"data": {"paused": value}}, MERGE)


@asynccontextmanager
async def switch():
    clock, troubles = VirtualClock(), Troubles()
    async with EmulatedCluster(ClusterSpec(()), clock, random.Random(0)) as cluster:
        if not cluster.api.exists(NAMESPACES, "", "kube-system"):
            cluster.api.create(NAMESPACES, {"metadata": {"name": "kube-system"}})
        front = EmulatedFront(cluster.routes, clock, faults=troubles)
        followed = FollowedConfigMap(front, NAME, clock, random.Random(0))
        following = asyncio.ensure_future(followed.run())
        refused = []
        paused = PauseSwitch(followed, LogThrottle(clock), lambda _, why: refused.append(why))
        yield Scene(cluster.api, troubles, paused, refused)
        following.cancel()


@pytest.mark.parametrize(
    ("data", "paused"),
    [
        ({"paused": "true"}, True),
        ({"paused": " True\n"}, True),
        *(({"paused": said}, True) for said in ("YES", "on", "1", "\tOn ")),
        ({"paused": "false"}, False),
        *(({"paused": said}, False) for said in ("No", "OFF", "0", " ", "")),
        ({"paused": "flase"}, True),
        ({"other": "true"}, False),
        (None, False),
    ],
)
async def test_the_switch_is_what_the_config_map_says(data, paused):
    async with switch() as scene:
        if data is not None:
            scene.write(**data)
        await asyncio.sleep(1)
        assert scene.paused() is paused


async def test_a_change_is_seen_at_once_and_so_is_its_end():
    async with switch() as scene:
        await asyncio.sleep(1)
        scene.write(paused="true")
        await asyncio.sleep(0.1)
        assert scene.paused()
        scene.set("false")
        await asyncio.sleep(0.1)
        assert not scene.paused()
        scene.set("true")
        await asyncio.sleep(0.1)
        scene.api.delete(CONFIGMAPS, *attrs.astuple(NAME))
        await asyncio.sleep(0.1)
        assert not scene.paused()


async def test_each_change_is_logged_and_what_is_refused_is_told_once():
    async with switch() as scene:
        with capture_logs() as logs:
            scene.write(paused="off")
            await asyncio.sleep(1)
            assert logs == []
            for value in ("on", "true", "maybe", "no", "0", "yes"):
                scene.set(value)
                scene.api.patch(CONFIGMAPS, *attrs.astuple(NAME), {"data": {"x": value}}, MERGE)
                await asyncio.sleep(0.1)
            scene.api.delete(CONFIGMAPS, *attrs.astuple(NAME))
            await asyncio.sleep(0.1)
        told = [log["event"] for log in logs]
        assert told == ["paused", "pause switch refused", "resumed", "paused", "resumed"]
        assert scene.refused == [
            "paused: 'maybe' is neither true nor false; migrations are paused until it is"
        ]


def unreadable(version):
    metadata = {"name": "kubedsm", "namespace": "kube-system", "resourceVersion": version}
    items = [{"metadata": metadata, "data": ["true"]}]
    return Response(200, orjson.dumps({"metadata": {"resourceVersion": version}, "items": items}))


NOT_KNOWN = [
    answer(401, "Unauthorized"),
    answer(403, "Forbidden"),
    answer(429, "TooManyRequests"),
    answer(500, "InternalError"),
    Response(200, b"<html>"),
    unreadable("1"),
    Unreachable("refused"),
    OutcomeUnknown("timed out"),
]


@pytest.mark.parametrize("answer", NOT_KNOWN)
async def test_nothing_moves_unless_it_is_known_that_it_may(answer):
    async with switch() as scene:
        scene.write(paused="false")
        scene.troubles.answer = answer
        with capture_logs() as logs:
            assert scene.paused()
            assert logs == []  # it is read at the start of each scheduler
            await asyncio.sleep(10)
            assert scene.paused()
        assert "pause switch unknown, migrations paused" in [log["event"] for log in logs]


async def test_nothing_moves_while_what_is_found_cannot_be_read():
    async with switch() as scene:
        version = scene.write(paused="false")["metadata"]["resourceVersion"]
        scene.troubles.answer, scene.troubles.to_lists_only = unreadable(version), True
        await asyncio.sleep(10)
        assert scene.paused()
        scene.set("no")
        await asyncio.sleep(1)
        assert not scene.paused()


async def test_nothing_moves_once_the_switch_cannot_be_seen_any_more():
    async with switch() as scene:
        scene.write(paused="false")
        await asyncio.sleep(1)
        assert not scene.paused()
        scene.troubles.broken, scene.troubles.answer = True, Unreachable("refused")
        scene.set("off")
        await asyncio.sleep(1)
        assert scene.paused()
        scene.troubles.broken, scene.troubles.answer = False, None
        await asyncio.sleep(60)
        assert not scene.paused()

"""Hundreds of pods that no node takes: what they cost while they wait, and who is served first."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import attrs
import pytest

from kubedsm.scheduling.scheduling_queue import FLUSH_INTERVAL, FLUSH_LIMIT
from kubedsm_lab.emulator.api.resources import NODES, PODS
from support.waiting_pods import Counting, Waiting, pod, zoned
from support.worlds import emulated

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

CROWD = 300
#: cores of each; pods of a class are alike
CLASSES = ("2", "3", "2500m")
MINUTES = 10


@attrs.define
class Writes:
    """What is written, by method and kind."""

    seen: Counter = attrs.field(factory=Counter)

    def on_request(self, request):
        if request.method != "GET":
            kind = "events" if "/events" in request.path else request.path.split("/")[-1]
            self.seen[request.method, kind] += 1

    def on_line(self, _request, _line):
        return None


@attrs.define
class Crowd(Waiting):
    writes: Writes

    def bound(self):
        """The names of those that are on a node."""
        pods = (p for p in self.world.pods("web") if "nodeName" in p["spec"])
        return [pod["metadata"]["name"] for pod in pods]

    async def churn(self, minutes):
        """Pods of others come, start and go, and nodes come; no room is to be had by all that."""
        for number in range(minutes * 12):
            self.put(pod(f"passer-{number}", cpu="100m"), on="e1")
            await asyncio.sleep(5)
            self.remove(f"passer-{number}")
            if number % 12 == 0:  # the waiting are told another number of nodes
                self.world.api.create(NODES, zoned(f"c{number}", "x", unschedulable=True))


@asynccontextmanager
async def crowd(classes=CLASSES):
    """A node that is almost full, and a crowd that has been told so."""
    writes, policy = Writes(), Counting()
    async with emulated(zoned("e1", "x", cpu="8")) as world:
        scene = Crowd(world, policy, writes)
        for name in ("one", "two", "three"):
            scene.put(pod(name, cpu="2500m"), on="e1")
        async with world.scheduler(faults=writes, policy=policy):
            for number in range(CROWD):
                made = pod(f"p{number:03}", classes[number % len(classes)], {"app": "web"})
                world.api.create(PODS, made, namespace="default")
            await asyncio.sleep(FLUSH_INTERVAL / 2)
            yield scene


async def test_a_crowd_is_told_once_and_then_left_alone():
    async with crowd() as scene:
        assert scene.writes.seen == {("PATCH", "status"): CROWD, ("POST", "events"): CROWD}
        scene.policy.pods = 0
        scene.writes.seen.clear()
        await scene.churn(MINUTES)
        # Some of each class are tried each minute, in case.
        assert scene.policy.pods <= MINUTES * FLUSH_LIMIT * len(CLASSES)
        assert scene.writes.seen.total() <= 2 * scene.policy.pods
        assert not scene.bound()

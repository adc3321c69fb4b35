"""Scheduler that proposes migrations, and its requests and replies on the ConfigMap."""

from contextlib import asynccontextmanager

import attrs
import structlog

from kubedsm.config.settings import load
from kubedsm.kube.client.port import APPROVALS
from kubedsm.kube.wire.annotations import (
    ANSWER_ANNOTATION,
    REQUEST_ANNOTATION,
    MoveRequest,
    answer_in,
)
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, EVENTS
from support.move_scenes import LARGE_CLOUD, open_edge, settle_on_cloud
from support.worlds import emulated

PROPOSING = load(
    "{suggester: {mode: suggest, period: 1s}, migration: {price: 0s, drainDelay: 1s}}", "test"
)
OWN = "kubedsm"
APPROVED = OWN + APPROVALS


@attrs.define
class Scene:
    world: object
    said: list

    @property
    def proposed(self):
        return self.world.runtime.migrator.proposed

    async def until_proposed(self):
        await self.world.until(lambda: self.proposed, 20)
        return self.proposed

    def ask(self, id_="r1", age=0.0, proposal="", moves=()):
        at = self.world.clock.wall() - age
        self.put(str(MoveRequest(id_, at, proposal, tuple(moves))), OWN if moves else APPROVED)

    def put(self, text, name=OWN):
        patch = {"metadata": {"annotations": {REQUEST_ANNOTATION: text}}}
        self.world.patch(CONFIGMAPS, name, patch, namespace=OWN)

    def paused(self, value):
        self.world.patch(CONFIGMAPS, OWN, {"data": {"paused": value}}, namespace=OWN)

    def answers(self, id_="r1"):
        events = sorted(self.world.api.list(EVENTS, OWN), key=lambda event: event["eventTime"])
        said = [answer_in(e["metadata"]["annotations"][ANSWER_ANNOTATION]) for e in events]
        return [answer for answer in said if answer.request == id_]

    async def answer(self, id_="r1", seconds=60):
        def last():
            return [answer for answer in self.answers(id_) if answer.state != "taken"]

        await self.world.until(last, seconds)
        [answer] = last()
        return answer

    def lines(self, event):
        return [line for line in self.said if line["event"] == event]


def config_map(world):
    world.config_map()
    world.create(CONFIGMAPS, APPROVED, OWN)


@asynccontextmanager
async def proposing(configuration=PROPOSING, pods=2, faults=None, **pod_spec):
    """Run a scheduler that only proposes, with pods in the cloud and free edge capacity."""
    async with emulated(LARGE_CLOUD, configuration=configuration, faults=faults) as world:
        config_map(world)
        with structlog.testing.capture_logs() as said:
            async with world.scheduler():
                await settle_on_cloud(world, "web", pods, **pod_spec)
                open_edge(world)
                yield Scene(world, said)

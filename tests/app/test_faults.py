"""An API server that is away for a while, and somebody else who binds our pods."""

import asyncio

import attrs

from kubedsm.config.settings import load
from kubedsm.kube.client.port import Unreachable
from kubedsm_lab.emulator.front import Delivery, Faults, RequestFault
from support.worlds import CLOUD, EDGE, emulated


class Away:
    """An API server that cannot be reached for a while."""

    away = False

    def on_request(self, request):
        return RequestFault(Unreachable("connection refused")) if self.away else None

    def on_line(self, request, line):
        return Delivery((), end="broken") if self.away else None


async def test_a_minute_without_an_api_server():
    faults = Away()
    async with emulated(EDGE, CLOUD) as world, world.scheduler(faults=faults):
        world.deploy("web", 2)
        await world.until_bound(2, 2)
        faults.away = True
        world.scale("web", 6)
        world.deploy("late", 1)
        await asyncio.sleep(60)
        assert world.placed() == {"e1": 2, None: 5}
        faults.away = False
        await world.until_bound(7, 45)
        assert world.placed() == {"e1": 4, "c1": 3}


@attrs.define
class Thief(Faults):
    """Another scheduler, which binds our pods before we do."""

    world: object
    taken: int = 0

    def on_request(self, request):
        if request.path.endswith("/binding") and self.taken < 2:
            self.taken += 1
            name = request.path.split("/")[-2]
            target = {"metadata": {}, "target": {"kind": "Node", "name": "c1"}}
            self.world.api.bind("default", name, target)


async def test_pods_bound_by_somebody_else_are_left_where_they_are():
    off = load("suggester: {mode: 'off'}", "test")
    async with emulated(EDGE, CLOUD, configuration=off) as world:
        async with world.scheduler(faults=Thief(world)):
            world.deploy("web", 6)
            await world.until_bound(6, 30)
            await asyncio.sleep(30)
            assert world.placed() == {"c1": 4, "e1": 2}
        assert len(world.events("Scheduled")) == 4

"""Several scheduler replicas on one emulated cluster, each as a simulated process."""

import asyncio
from contextlib import asynccontextmanager

import attrs

from kubedsm.app.leader_election import LeaseTimes
from kubedsm.config.settings import Configuration
from kubedsm_lab.chaos.ledger import Ledger, LedgerCluster
from kubedsm_lab.chaos.process import LEASE, Process
from kubedsm_lab.emulator.front import EmulatedFront
from support.worlds import CLOUD, EDGE, emulated

TIMES = LeaseTimes()


class Replica(Process):
    """Scheduler replica with its own connection to the shared API server."""

    def __init__(self, name, world, ledger, tasks, rate=1.0, times=TIMES, configuration=None):
        front = EmulatedFront(world.cluster.routes, world.clock, latency=0.01)
        super().__init__(
            name,
            LedgerCluster(front, ledger, name),
            tasks,
            configuration or Configuration(),
            rate=rate,
            times=times,
        )


@attrs.define
class Replicas:
    world: object
    ledger: Ledger
    tasks: asyncio.TaskGroup
    load: asyncio.Task

    def start(self, name, grace=25.0, **settings):
        replica = Replica(name, self.world, self.ledger, self.tasks, **settings)
        replica.start(grace)
        return replica

    async def until_led_by(self, replica, seconds):
        await self.world.until(lambda: self.ledger.holder == replica.name, seconds)

    async def until_written_by(self, replica, seconds):
        """Wait until a replica sends another write."""
        before = len(self.ledger.by(replica.name))
        await self.world.until(lambda: len(self.ledger.by(replica.name)) > before, seconds)


@asynccontextmanager
async def replicas(*nodes, busy=True, **settings):
    """Run a cluster for replicas; `busy` creates continuous work for them."""
    async with (
        emulated(*(nodes or (EDGE, CLOUD)), **settings) as world,
        asyncio.TaskGroup() as tasks,
    ):
        world.namespace(LEASE.namespace)
        load = tasks.create_task(_load(world) if busy else asyncio.sleep(0))
        several = Replicas(world, Ledger(world.api, TIMES.duration), tasks, load)
        yield several
        for task in tasks._tasks:
            task.cancel()


async def _load(world):
    world.deploy("web", 2)
    wanted = 2
    while True:
        await asyncio.sleep(0.7)
        wanted = 8 - wanted
        world.scale("web", wanted)

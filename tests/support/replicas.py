"""Several schedulers on one emulated cluster, each a process of its own as far as it can tell.

What arrives at the API server is noted with who sent it.
"""

import asyncio
from contextlib import asynccontextmanager

import attrs

from kubedsm.chaos.process import LEASE, Process
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import LEASES, NAMESPACES
from kubedsm.emulator.front import EmulatedFront
from kubedsm.emulator.paper import node
from kubedsm.runtime.leader_election import LeaseTimes
from support.worlds import emulated

EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
TIMES = LeaseTimes()
READS = ("GET", "HEAD")


@attrs.frozen
class Arrival:
    """A write that reached the API server: when, on the loop's clock, and from whom."""

    at: float
    who: str
    method: str
    path: str


class Ledger:
    """All writes but those of Leases, and who held the Lease since when."""

    def __init__(self, api):
        self.arrivals = []
        self.terms = [(0.0, "")]
        #: when it was last renewed, by holder
        self.renewals = {}
        self.releases = []
        api.store.subscribe(self._notice)

    def _notice(self, change):
        if change.resource is not LEASES or change.type == "DELETED":
            return
        now, holder = asyncio.get_running_loop().time(), change.object["spec"]["holderIdentity"]
        self.renewals.setdefault(holder, []).append(now)
        if holder != self.terms[-1][1]:
            self.terms.append((now, holder))

    @property
    def holder(self):
        return self.terms[-1][1]

    def holder_at(self, moment):
        return next(holder for since, holder in reversed(self.terms) if since <= moment)

    def since(self, who):
        """When it began to hold the Lease, the last time."""
        return next(since for since, holder in reversed(self.terms) if holder == who)

    def by(self, who):
        return [arrival for arrival in self.arrivals if arrival.who == who]

    def check(self, lasts=TIMES.duration):
        """Every write came from the one who held the Lease, soon enough after its renewal."""
        for arrival in self.arrivals:
            assert arrival.who == self.holder_at(arrival.at), arrival
            renewed = max(at for at in self.renewals[arrival.who] if at <= arrival.at)
            assert arrival.at < renewed + lasts, arrival


class Signed:
    """The API server's routes, as one client has them."""

    def __init__(self, routes, who, ledger):
        self._routes, self._who, self._ledger = routes, who, ledger

    def handle(self, request):
        if request.method not in READS and "/leases" not in request.path:
            now = asyncio.get_running_loop().time()
            self._ledger.arrivals.append(Arrival(now, self._who, request.method, request.path))
        return self._routes.handle(request)


class Replica(Process):
    """A process on an API server that it shares with others."""

    def __init__(self, name, world, ledger, tasks, rate=1.0, times=TIMES, configuration=None):
        routes = Signed(world.cluster.routes, name, ledger)
        front = EmulatedFront(routes, world.clock, latency=0.01)
        super().__init__(
            name, front, tasks, configuration or Configuration(), rate=rate, times=times
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
        """Something new, from now on."""
        before = len(self.ledger.by(replica.name))
        await self.world.until(lambda: len(self.ledger.by(replica.name)) > before, seconds)


@asynccontextmanager
async def replicas(*nodes, busy=True, **settings):
    """A cluster, where there is always something to write if it is `busy`."""
    async with (
        emulated(*(nodes or (EDGE, CLOUD)), **settings) as world,
        asyncio.TaskGroup() as tasks,
    ):
        world.api.create(NAMESPACES, {"metadata": {"name": LEASE.namespace}})
        load = tasks.create_task(_load(world) if busy else asyncio.sleep(0))
        several = Replicas(world, Ledger(world.api), tasks, load)
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

"""Several schedulers on one emulated cluster, each a process of its own as far as it can tell.

Each has its own clock, which may run too fast or too slow, and its own way to the API server, which
may be cut or slow; it may be killed, or stopped and continued. What arrives at the API server is
noted with who sent it.
"""

import asyncio
import random
from contextlib import asynccontextmanager

import attrs

from kubedsm.cluster.calls.leases import LeaseName
from kubedsm.cluster.client.port import ClusterError, Unreachable, not_sent
from kubedsm.cluster.client.write_gate import WriteGate
from kubedsm.configuration.settings import Configuration
from kubedsm.emulator.api.resources import LEASES, NAMESPACES
from kubedsm.emulator.front import EmulatedFront
from kubedsm.emulator.paper import node
from kubedsm.runtime import leadership
from kubedsm.runtime.assembly import Runtime
from kubedsm.runtime.leader_election import Elector, LeaseTimes
from support.worlds import emulated

EDGE, CLOUD = node("e1", "edge", "4", "8Gi"), node("c1", "cloud", "20", "40Gi")
LEASE = LeaseName("kubedsm", "kubedsm")
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


@attrs.define
class ProcessClock:
    """Runs at `rate`; nothing that waits for it goes on while its process is stopped."""

    rate: float
    running: asyncio.Event

    def monotonic(self):
        return asyncio.get_running_loop().time() * self.rate

    def wall(self):
        return 1_767_225_600.0 + asyncio.get_running_loop().time()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds / self.rate)
        await self.running.wait()


class Signed:
    """The API server's routes, as one client has them."""

    def __init__(self, routes, who, ledger):
        self._routes, self._who, self._ledger = routes, who, ledger

    def handle(self, request):
        if request.method not in READS and "/leases" not in request.path:
            now = asyncio.get_running_loop().time()
            self._ledger.arrivals.append(Arrival(now, self._who, request.method, request.path))
        return self._routes.handle(request)


class Replica:
    """A process: `kubedsm run`, on an API server that it shares with others."""

    def __init__(self, name, world, ledger, rate=1.0, times=TIMES, configuration=None, elects=True):
        self.name = name
        self._running = asyncio.Event()
        self._running.set()
        self.clock = ProcessClock(rate, self._running)
        self._front = EmulatedFront(
            Signed(world.cluster.routes, name, ledger), world.clock, latency=0.01
        )
        self._cut = False
        #: seconds before what the watch of pods says is heard
        self.late = 0.0
        #: called with each request that is about to be sent
        self.at_send = lambda request: None
        #: which requests get lost
        self.hangs = lambda request: False
        self._changed = asyncio.Event()
        gate = WriteGate(self, self.clock) if elects else self
        self.elector = Elector(self, gate, self.clock, LEASE, times, name) if elects else None
        self.stopping = asyncio.Event()
        rng = random.Random(name)
        self.runtime = Runtime(gate, configuration or Configuration(), self.clock, rng)
        self._task = self._network = None
        #: how it ended, if by an error of the election
        self.ended = None

    def start(self, tasks, grace=25.0):
        self._network = tasks
        self._task = tasks.create_task(self._run(grace))

    async def _run(self, grace):
        try:
            await leadership.serve(self.runtime, self.elector, self.stopping, grace)
        except ExceptionGroup as group:
            self.ended = group

    @property
    def over(self):
        return self._task.done()

    def kill(self):
        """As SIGKILL does: nothing more leaves it."""
        self._cut = True
        self._changed.set()
        self._task.cancel()

    def freeze(self):
        self._running.clear()

    def thaw(self):
        self._running.set()

    def cut_off(self):
        """Nothing goes through any more, neither way."""
        self._cut = True
        self._changed.set()

    def heal(self):
        self._cut = False

    async def request(self, request, *, timeout):
        self.at_send(request)
        await self._running.wait()
        if not request.may_leave():
            raise not_sent(request)
        if self._cut or self.hangs(request):
            await asyncio.sleep(timeout / self.clock.rate)
            await self._running.wait()
            raise Unreachable(f"{request.path}: cut off")
        answer = await self._sent(request, timeout / self.clock.rate)
        await self._running.wait()
        return answer

    async def _sent(self, request, timeout):
        """What has left arrives, even if nobody waits for the answer any more."""
        sending = self._network.create_task(self._outcome(request, timeout))
        outcome = await asyncio.shield(sending)
        if isinstance(outcome, ClusterError):
            raise outcome
        return outcome

    async def _outcome(self, request, timeout):
        try:
            return await self._front.request(request, timeout=timeout)
        except ClusterError as error:
            return error

    @asynccontextmanager
    async def stream(self, request, *, timeout):
        if self._cut:
            await asyncio.sleep(timeout / self.clock.rate)
            raise Unreachable(f"{request.path}: cut off")
        async with self._front.stream(request, timeout=timeout) as lines:
            yield self._heard(lines, of_pods=request.path.endswith("/pods"))

    async def _heard(self, lines, *, of_pods):
        async for line in lines:
            if self.late and of_pods:
                await asyncio.sleep(self.late)
            await self._running.wait()
            if self._cut:
                raise Unreachable("cut off")
            yield line


@attrs.define
class Replicas:
    world: object
    ledger: Ledger
    tasks: asyncio.TaskGroup
    load: asyncio.Task

    def start(self, name, grace=25.0, **settings):
        replica = Replica(name, self.world, self.ledger, **settings)
        replica.start(self.tasks, grace)
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

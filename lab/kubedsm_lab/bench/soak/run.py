"""A long run over HTTP: many tenants that come and go, an odd one, and what becomes of the others.

The cluster is emulated, in a process of its own, and so is each scheduler. First they are left
alone with the ordinary tenants, which shows what is usual; then the odd tenant comes, and stays. If
they are harmed, that begins together with it, and ends a while before the tenants rest.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import attrs

from kubedsm.kube.calls import leases
from kubedsm.kube.calls.leases import LeaseName
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import NODES, PODS, Watched
from kubedsm.model.events import ClusterEvent
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import TIMEOUT, Api
from kubedsm_lab.bench.soak.harm import Harm
from kubedsm_lab.bench.soak.left import Leavings
from kubedsm_lab.bench.soak.line import Line
from kubedsm_lab.bench.soak.oddities import ODDITIES
from kubedsm_lab.bench.soak.pod_watch import PodWatch
from kubedsm_lab.bench.soak.processes import LogCount, Scheduler
from kubedsm_lab.bench.soak.tenants import OddTenant, OrdinaryTenants
from kubedsm_lab.bench.soak.verdict import SoakResult

#: four small edge nodes, which are never enough, and room for all in the cloud
CLUSTER: tuple[dict[str, Any], ...] = (
    *({"name": f"e{n}", "tier": "edge", "cpu": 2, "memory": "4Gi"} for n in range(4)),
    *(
        {"name": f"c{n}", "tier": "cloud", "cpu": 64, "memory": "256Gi", "pods": 1000}
        for n in range(2)
    ),
)
#: seconds that a namespace lives, unless the soak is short
LIFETIME = 120.0
#: that the odd tenant makes at once in each of its ways
ODD_PODS = 48
#: of the time, before the odd tenant comes; with harm, less: so many seconds at most
CALM, CALM_SECONDS = 0.2, 90.0
#: seconds until a scheduler knows the cluster
PATIENCE = 90.0


@attrs.frozen(slots=True)
class SoakShape:
    """How long, and how much of everything."""

    seconds: float
    #: new Deployments a second, and how many there are at most
    rate: float = 2.0
    workloads: int = 60
    #: seconds that a namespace lives
    lifetime: float = LIFETIME
    #: Deployments that come at once, now and then
    burst: int = 1
    #: how the odd tenant is odd, in no way if there is none, and how many pods it makes so at once
    odd: Collection[str] = tuple(ODDITIES)
    odd_pods: int = ODD_PODS
    #: seconds from one kill to the next, and from one cut of the lines; 0 for never
    kill_every: float = 0.0
    cut_every: float = 0.0

    @property
    def harmed(self) -> bool:
        return bool(self.kill_every or self.cut_every)

    @property
    def calm(self) -> float:
        """Seconds before anything odd or harmful happens, and after the last harm."""
        calm = CALM * self.seconds
        return min(calm, CALM_SECONDS) if self.harmed else calm


async def run(
    cluster: Cluster,
    schedulers: Sequence[Scheduler],
    lines: Sequence[Line],
    clock: Clock,
    rng: random.Random,
    shape: SoakShape,
) -> SoakResult:
    """Let the tenants do as they do for that long, then let them rest, and look at what is left.

    `lines`: by which the schedulers reach the cluster, to be cut. Nothing else may be at work in
    it. Raises ClusterError.
    """
    api, watch = Api(cluster), PodWatch(clock)
    ordinary = OrdinaryTenants(
        api, clock, rng, shape.rate, shape.workloads, shape.lifetime, shape.burst
    )
    odd = OddTenant(api, clock, rng, shape.odd, shape.odd_pods, CLUSTER[-1]["name"])
    harm = Harm(schedulers, lines, clock, rng, shape.kill_every, shape.cut_every)
    async with asyncio.TaskGroup() as tasks:
        watching = await _follow(tasks, cluster, clock, rng, watch)
        scheduling = [tasks.create_task(each.run()) for each in schedulers]
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                for each in schedulers:
                    await each.log.synced.wait()
        started = clock.monotonic()
        coming = [tasks.create_task(ordinary.run())]
        await clock.sleep(shape.calm)
        odd_since = clock.monotonic()
        if shape.odd:
            coming.append(tasks.create_task(odd.run()))
        harming = tasks.create_task(harm.run())
        await clock.sleep(started + shape.seconds - shape.calm * shape.harmed - clock.monotonic())
        harming.cancel()
        unharmed_since = clock.monotonic()
        await clock.sleep(started + shape.seconds - clock.monotonic())
        ended = clock.monotonic()
        for tenant in coming:
            tenant.cancel()
        left = await Leavings(api, watch, schedulers, clock).found()
        lease = await leases.read(cluster, LeaseName(), timeout=TIMEOUT)
        seconds_to_stop = max(await asyncio.gather(*(each.stop() for each in schedulers)))
        await asyncio.wait(scheduling)
        for following in watching:
            following.cancel()
    return SoakResult(
        started=started,
        odd_since=odd_since,
        unharmed_since=unharmed_since,
        ended=ended,
        workloads=ordinary.created,
        namespaces_deleted=ordinary.namespaces_deleted,
        waits=tuple(watch.waits),
        events=watch.events,
        amiss=tuple(watch.amiss),
        left=attrs.evolve(left, processes=sum(len(each.left_over()) for each in schedulers)),
        most_odd=watch.most_odd,
        asked_odd=odd.asked,
        replicas=len(schedulers),
        harm=harm.done,
        leaders=lease.term.transitions + 1,
        ends=sum(each.ends for each in schedulers),
        log=LogCount.of_all(each.log for each in schedulers),
        memory=tuple(look for each in schedulers for look in each.memory),
        seconds_to_stop=seconds_to_stop,
    )


async def _follow(
    tasks: asyncio.TaskGroup, cluster: Cluster, clock: Clock, rng: random.Random, watch: PodWatch
) -> list[asyncio.Task[NoReturn]]:
    """Tell the watch of all nodes, then of all pods."""
    following = []
    kinds: tuple[Watched[Any, ClusterEvent], ...] = (NODES, PODS)
    for watched in kinds:
        synced = asyncio.Event()
        reflector = Reflector(
            cluster, watched, clock, rng, watch.handle, synced.set, lambda _: None
        )
        following.append(tasks.create_task(reflector.run()))
        await synced.wait()
    return following

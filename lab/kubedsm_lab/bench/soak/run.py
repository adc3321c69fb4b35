"""`kubedsm bench soak`: ordinary tenants alone, then with an odd tenant and fault injection next to
them.

The emulated API server and each scheduler are separate processes. At first only ordinary tenants
run, to measure usual waiting times. Then the odd tenant and fault injection start. Fault injection
ends before the tenants stop.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import attrs

from kubedsm.kube.calls import leases
from kubedsm.kube.client.port import Cluster, ObjectName
from kubedsm.kube.wire.decoding import NODES, PODS
from kubedsm.process.clock import Clock, SystemClock
from kubedsm_lab.bench.api import TIMEOUT, Api, follow_cluster
from kubedsm_lab.bench.processes import LogCount, Scheduler, emulated_cluster, run_command
from kubedsm_lab.bench.soak.harm import FaultInjector, scheduler_options
from kubedsm_lab.bench.soak.leftovers import LeftoverCheck
from kubedsm_lab.bench.soak.line import Line
from kubedsm_lab.bench.soak.pod_watch import PodWatch
from kubedsm_lab.bench.soak.tenants import OddTenant, OrdinaryTenants
from kubedsm_lab.bench.soak.verdict import SoakResult

#: Four small edge nodes, permanently full, and a cloud with capacity for every pod.
CLUSTER: tuple[dict[str, Any], ...] = (
    *({"name": f"e{n}", "tier": "edge", "cpu": 2, "memory": "4Gi"} for n in range(4)),
    *(
        {"name": f"c{n}", "tier": "cloud", "cpu": 64, "memory": "256Gi", "pods": 1000}
        for n in range(2)
    ),
)
#: Longest lifetime of a namespace in seconds, and as a part of the duration.
_LIFETIME, _LIFETIME_PART = 120.0, 0.25
#: Part of the duration before the odd tenant; most seconds with fault injection.
_CALM, _CALM_SECONDS = 0.2, 90.0
#: Most Deployments of ordinary tenants, and Deployments of a burst under fault injection.
_WORKLOADS, _BURST = 60, 10
#: Seconds until a scheduler has synced.
_SYNC_TIMEOUT = 90.0


@attrs.frozen(slots=True, kw_only=True)
class SoakShape:
    """Parameters of a soak: duration in seconds, load of both tenants, and fault periods."""

    seconds: float
    #: new Deployments a second
    rate: float
    #: keys of ODDITIES; without any there is no odd tenant
    odd: Collection[str]
    odd_pods: int
    replicas: int
    #: seconds between kills, and between faults of the connections; 0 for never
    kill_every: float = 0.0
    cut_every: float = 0.0

    @property
    def is_harmed(self) -> bool:
        return bool(self.kill_every or self.cut_every)

    @property
    def calm(self) -> float:
        """Return the seconds without injected faults at the beginning of the soak, and again at its
        end.
        """
        calm = _CALM * self.seconds
        return min(calm, _CALM_SECONDS) if self.is_harmed else calm


async def run(shape: SoakShape, seed: int) -> SoakResult:
    """Start the API server and schedulers, and run the soak. Raises ClusterError."""
    clock = SystemClock()
    async with (
        emulated_cluster(CLUSTER) as (path, cluster),
        AsyncExitStack() as stack,
    ):
        lines = [
            await stack.enter_async_context(Line(cluster.server, clock))
            for _ in range(shape.replicas if shape.cut_every else 0)
        ]
        paths = [
            line.write_kubeconfig(path, path.with_name(f"line-{number}"))
            for number, line in enumerate(lines)
        ] or [path] * shape.replicas
        options = scheduler_options(path.parent) if shape.is_harmed else ()
        schedulers = [
            Scheduler(run_command(each, *options), clock, restarts=True) for each in paths
        ]
        return await _run_soak(cluster, schedulers, lines, clock, random.Random(seed), shape)


async def _run_soak(
    cluster: Cluster,
    schedulers: Sequence[Scheduler],
    lines: Sequence[Line],
    clock: Clock,
    rng: random.Random,
    shape: SoakShape,
) -> SoakResult:
    api, watch = Api(cluster), PodWatch(clock)
    lifetime = min(_LIFETIME, shape.seconds * _LIFETIME_PART)
    burst = _BURST if shape.is_harmed else 1
    ordinary = OrdinaryTenants(api, clock, rng, shape.rate, _WORKLOADS, lifetime, burst)
    odd = OddTenant(api, clock, rng, shape.odd, shape.odd_pods, CLUSTER[-1]["name"])
    harm = FaultInjector(schedulers, lines, clock, rng, shape.kill_every, shape.cut_every)
    async with (
        follow_cluster(cluster, clock, watch.handle, NODES, PODS),
        asyncio.TaskGroup() as tasks,
    ):
        scheduling = [tasks.create_task(each.run()) for each in schedulers]
        with suppress(TimeoutError):
            async with asyncio.timeout(_SYNC_TIMEOUT):
                for each in schedulers:
                    await each.log.synced.wait()
        started = clock.monotonic()
        tenants = [tasks.create_task(ordinary.run())]
        await clock.sleep(shape.calm)
        odd_since = clock.monotonic()
        if shape.odd:
            tenants.append(tasks.create_task(odd.run()))
        harming = tasks.create_task(harm.run())
        harm_ends = started + shape.seconds - shape.calm * shape.is_harmed
        await clock.sleep(harm_ends - clock.monotonic())
        harming.cancel()
        unharmed_since = clock.monotonic()
        await clock.sleep(started + shape.seconds - clock.monotonic())
        ended = clock.monotonic()
        for tenant in tenants:
            tenant.cancel()
        left = await LeftoverCheck(api, watch, schedulers, clock).find()
        lease = await leases.read(cluster, ObjectName(), timeout=TIMEOUT)
        seconds_to_stop = max(await asyncio.gather(*(each.stop() for each in schedulers)))
        await asyncio.wait(scheduling)
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
        left=attrs.evolve(left, processes=sum(len(each.orphans()) for each in schedulers)),
        most_odd=watch.most_odd,
        asked_odd=odd.asked,
        replicas=len(schedulers),
        harm=harm.done,
        leaders=0 if lease is None else lease.term.transitions + 1,
        ends=sum(each.ends for each in schedulers),
        log=LogCount.sum(each.log for each in schedulers),
        memory=tuple(sample for each in schedulers for sample in each.memory),
        pods=tuple(watch.pods),
        seconds_to_stop=seconds_to_stop,
    )

"""A long run over HTTP: many tenants that come and go, an odd one, and what becomes of the others.

The cluster is emulated, in a process of its own, and so is the scheduler. First it is left alone
with the ordinary tenants, which shows what is usual; then the odd tenant comes, and stays.
"""

import asyncio
import random
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import attrs

from kubedsm.bench.api import Api
from kubedsm.bench.soak.oddities import ODDITIES
from kubedsm.bench.soak.processes import Scheduler
from kubedsm.bench.soak.tenants import ODD_NAMESPACE, OddTenant, OrdinaryTenants
from kubedsm.bench.soak.verdict import SoakResult, Wait
from kubedsm.clock import Clock
from kubedsm.cluster.client.port import Cluster
from kubedsm.cluster.watching.reflector import Reflector
from kubedsm.cluster.watching.watched import PODS
from kubedsm.cluster.wire.move_mark import MOVE_ANNOTATION
from kubedsm.core.world.events import ClusterEvent, PodApplied, PodDeleted
from kubedsm.core.world.model import MIGRATING_LABEL, Uid

SCHEDULER_NAME = "kubedsm"
#: four small edge nodes, which are never enough, and room for all in the cloud
NODES: tuple[dict[str, Any], ...] = (
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
#: of the time, before the odd tenant comes
CALM = 0.2
#: seconds that the scheduler has for what is left when the tenants rest, moves included
SETTLING = 90.0


@attrs.frozen(slots=True)
class SoakShape:
    """How long, and how much of everything."""

    seconds: float
    #: new Deployments a second, and how many there are at most
    rate: float = 2.0
    workloads: int = 60
    #: seconds that a namespace lives
    lifetime: float = LIFETIME
    #: how the odd tenant is odd, in no way if there is none, and how many pods it makes so at once
    odd: Collection[str] = tuple(ODDITIES)
    odd_pods: int = ODD_PODS


class PodWatch:
    """When pods of our scheduler were first seen, and first seen bound."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Uid, float] = {}
        self._odd: set[Uid] = set()
        self._bound: set[Uid] = set()
        #: of all pods but the odd tenant's
        self.waits: list[Wait] = []
        self.most_odd = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def handle(self, event: ClusterEvent) -> None:
        now = self._clock.monotonic()
        match event:
            case PodDeleted(uid):
                self._waited(uid, now, bound=False)
                self._odd.discard(uid)
                self._bound.discard(uid)
            case PodApplied(pod) if pod.namespace == ODD_NAMESPACE:
                self._odd.add(pod.uid)
                self.most_odd = max(self.most_odd, len(self._odd))
            case PodApplied(pod) if pod.scheduler_name == SCHEDULER_NAME:
                if pod.node_name is None and not pod.terminating:
                    self._waiting.setdefault(pod.uid, now)
                elif pod.node_name is None:
                    self._waited(pod.uid, now, bound=False)
                elif pod.uid not in self._bound:
                    self._bound.add(pod.uid)
                    self._waited(pod.uid, now, bound=True)

    def _waited(self, uid: Uid, now: float, *, bound: bool) -> None:
        created = self._waiting.pop(uid, now if bound else None)
        if created is not None:
            self.waits.append(Wait(created, now - created, bound))


async def run(
    cluster: Cluster, scheduler: Scheduler, clock: Clock, rng: random.Random, shape: SoakShape
) -> SoakResult:
    """Let the tenants do as they do for that long, then let them rest, and look at what is left.

    Nothing else may be at work in the cluster. Raises ClusterError.
    """
    api, watch = Api(cluster), PodWatch(clock)
    ordinary = OrdinaryTenants(api, clock, rng, shape.rate, shape.workloads, shape.lifetime)
    odd = OddTenant(api, clock, rng, shape.odd, shape.odd_pods, NODES[-1]["name"])
    synced = asyncio.Event()
    reflector = Reflector(cluster, PODS, clock, rng, watch.handle, synced.set, lambda _: None)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(reflector.run())
        await synced.wait()
        scheduling = tasks.create_task(scheduler.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await scheduler.log.synced.wait()
        started = clock.monotonic()
        coming = [tasks.create_task(ordinary.run())]
        await clock.sleep(CALM * shape.seconds)
        odd_since = clock.monotonic()
        if shape.odd:
            coming.append(tasks.create_task(odd.run()))
        await clock.sleep(started + shape.seconds - clock.monotonic())
        ended = clock.monotonic()
        for tenant in coming:
            tenant.cancel()
        marked = await _settle(api, watch, clock)
        seconds_to_stop = await scheduler.stop()
        await scheduling
        watching.cancel()
    return SoakResult(
        started=started,
        odd_since=odd_since,
        ended=ended,
        workloads=ordinary.created,
        namespaces_deleted=ordinary.namespaces_deleted,
        waits=tuple(watch.waits),
        left_waiting=watch.waiting,
        left_marked=marked,
        most_odd=watch.most_odd,
        asked_odd=odd.asked,
        scheduler_ends=scheduler.ends,
        log=scheduler.log,
        memory=tuple(scheduler.memory),
        seconds_to_stop=seconds_to_stop,
    )


async def _settle(api: Api, watch: PodWatch, clock: Clock) -> tuple[str, ...]:
    """Wait until nothing waits and no pod is marked. Returns the pods that are marked still."""
    due = clock.monotonic() + SETTLING
    while True:
        marked = tuple(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in await api.pods()
            if _is_marked(pod) and pod["metadata"]["namespace"] != ODD_NAMESPACE
        )
        if (not marked and not watch.waiting) or clock.monotonic() > due:
            return marked
        await clock.sleep(1.0)


def _is_marked(pod: dict[str, Any]) -> bool:
    metadata = pod["metadata"]
    return MIGRATING_LABEL in (metadata.get("labels") or {}) or MOVE_ANNOTATION in (
        metadata.get("annotations") or {}
    )

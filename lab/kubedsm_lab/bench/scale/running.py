"""`kubedsm run` as a process at a size: its memory, its CPU while pods come and go, its loop's lag.

The API server is emulated, in a process of its own, and all pods are bound when the scheduler
begins. One pod after the other comes or goes; then bursts come beside that; then all is quiet, for
suggestions.
"""

import asyncio
import itertools
import random
from typing import Any

import aiohttp
import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import PODS
from kubedsm.model.events import ClusterEvent, PodApplied
from kubedsm.model.model import Pod
from kubedsm.process.clock import Clock
from kubedsm_lab.bench import footprint
from kubedsm_lab.bench.api import APPS, CORE, Api
from kubedsm_lab.bench.scale.lag import Lag, lag_in
from kubedsm_lab.bench.scale.world import Size
from kubedsm_lab.bench.soak.processes import (
    Scheduler,
    cpu_seconds,
    emulated_cluster,
    family,
    resident,
)
from kubedsm_lab.bench.telling import figure, many, span

NAMESPACE = "bench"
PODS_OF_A_WORKLOAD = 50
#: about pods, while they come and go
EVENTS_PER_SECOND = 200
#: in flight, before the scheduler begins
BINDS = 16
BURST_PODS = 200
#: seconds from one burst to the next, unless all is to take less
BURST_EVERY = 5.0
#: that nothing here takes
PATIENCE = 1800.0
_LOOK = 0.005
_MB = 10**6


@attrs.frozen(slots=True)
class RunningResult:
    #: seconds from the scheduler's beginning until it knows the cluster
    to_know: float
    #: bytes at the end, of `kubedsm run` and of its children together
    resident: int
    children_resident: int
    events_per_second: float
    #: of one core, while pods come and go
    cpu_percent: float
    children_cpu_percent: float
    #: from the first pod that comes or goes to the end
    lag: Lag
    suggestions: int

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "secondsToSync": round(self.to_know, 1),
            "residentMB": round(self.resident / _MB, 1),
            "childrenResidentMB": round(self.children_resident / _MB, 1),
            "churn": {
                "podEventsPerSecond": round(self.events_per_second, 1),
                "cpuPercentOfACore": round(self.cpu_percent, 1),
                "childrenCpuPercentOfACore": round(self.children_cpu_percent, 1),
            },
            "suggestions": self.suggestions,
            "loopLag": self.lag.as_json(),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"`kubedsm run` beside an emulated API server knew it all after"
                f" {span(self.to_know)}. While pods come and go, for"
                f" {self.events_per_second:,.0f} pod events a second, it takes"
                f" {figure(self.cpu_percent, 2)} % of a core, its children"
                f" {figure(self.children_cpu_percent, 2)} %; at the end it has"
                f" {self.resident / _MB:,.0f} MB, and they {self.children_resident / _MB:,.0f} MB."
            ),
            f"{self.lag.sentence} Bursts and {many(self.suggestions, 'suggestion')} included.",
            "Nothing was run beside it: these are no ratios, and go by the machine.",
        ]


@attrs.define
class _Pods:
    """Binds those that come to any node until a scheduler does, and counts what is told of them."""

    api: Api
    nodes: list[str]
    rng: random.Random
    events: int = attrs.field(default=0, init=False)
    _waiting: asyncio.Queue[Pod] = attrs.field(factory=asyncio.Queue, init=False)
    _asked: set[str] = attrs.field(factory=set, init=False)
    bound: int = attrs.field(default=0, init=False)

    def handle(self, event: ClusterEvent) -> None:
        self.events += 1
        if not isinstance(event, PodApplied) or event.pod.uid in self._asked:
            return
        if event.pod.waits_for_node:
            self._asked.add(event.pod.uid)
            self._waiting.put_nowait(event.pod)

    async def bind(self) -> None:
        """Until cancelled."""
        while True:
            pod = await self._waiting.get()
            body = {
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"kind": "Node", "name": self.rng.choice(self.nodes)},
            }
            path = f"{CORE}/namespaces/{pod.namespace}/pods/{pod.name}/binding"
            await self.api.call("POST", path, body, passing=())
            self.bound += 1


@attrs.define
class _Run:
    api: Api
    clock: Clock
    scheduler: Scheduler
    pods: _Pods
    size: Size

    async def fill(self, settling: float) -> list[str]:
        """Have so many pods bound, and their Deployments' names."""
        await self.api.create_namespace(NAMESPACE)
        names = []
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            binding = [tasks.create_task(self.pods.bind()) for _ in range(BINDS)]
            for first in range(0, self.size.pods, PODS_OF_A_WORKLOAD):
                count = min(PODS_OF_A_WORKLOAD, self.size.pods - first)
                names.append(f"web-{first}")
                body = footprint.workload(names[-1], count)
                await self.api.create(NAMESPACE, "deployments", body, APPS)
            while self.pods.bound < self.size.pods:
                await self.clock.sleep(0.5)
            for each in binding:
                each.cancel()
        await self.clock.sleep(settling)
        return names

    async def measured(self, names: list[str], seconds: float, settling: float) -> RunningResult:
        began = self.clock.monotonic()
        async with asyncio.timeout(PATIENCE):
            await self.scheduler.log.synced.wait()
        to_know = self.clock.monotonic() - began
        await self.clock.sleep(settling)
        before, cpu, events = await self._metrics(), self._cpu(), self.pods.events
        took = await self._churn(names, seconds)
        cpu_after, events_after = self._cpu(), self.pods.events
        async with asyncio.TaskGroup() as tasks:
            every = min(BURST_EVERY, seconds)
            bursts = max(1, round(seconds / 2 / every))
            tasks.create_task(self._churn(names, bursts * every))
            tasks.create_task(self._bursts(bursts, every))
        await self.clock.sleep(seconds)
        after = await self._metrics()
        main, *children = family(self.scheduler.pid)
        return RunningResult(
            to_know,
            resident(main),
            sum(map(resident, children)),
            (events_after - events) / took,
            100 * (cpu_after[0] - cpu[0]) / took,
            100 * (cpu_after[1] - cpu[1]) / took,
            lag_in(before, after),
            round(_suggestions(after) - _suggestions(before)),
        )

    async def _churn(self, names: list[str], seconds: float) -> float:
        """Have pods come and go, for so many events a second. Returns the seconds it took."""
        began, told = self.clock.monotonic(), self.pods.events
        # One Deployment after the other goes down by a pod, next time up again.
        replicas = itertools.cycle(
            (name, PODS_OF_A_WORKLOAD - down) for down in (1, 0) for name in names
        )
        while (now := self.clock.monotonic() - began) < seconds:
            if self.pods.events - told < EVENTS_PER_SECOND * now:
                await self.api.scale(NAMESPACE, *next(replicas))
            else:
                await self.clock.sleep(_LOOK)
        return now

    async def _bursts(self, bursts: int, every: float) -> None:
        for number in range(bursts):
            body = footprint.workload(f"burst-{number}", BURST_PODS)
            await self.api.create(NAMESPACE, "deployments", body, APPS)
            await self.clock.sleep(every)

    def _cpu(self) -> tuple[float, float]:
        main, *children = family(self.scheduler.pid)
        return cpu_seconds(main), sum(map(cpu_seconds, children))

    async def _metrics(self) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.scheduler.log.metrics}/metrics", raise_for_status=True) as response,
        ):
            return await response.text()


async def run(size: Size, clock: Clock, rng: random.Random, seconds: float) -> RunningResult:
    """Have pods come and go for so long, then bursts, then quiet for as long.

    Raises ClusterError, TimeoutError if what is waited for does not come.
    """
    nodes = footprint.nodes(size.nodes)
    async with (
        emulated_cluster(nodes) as path,
        await KubernetesCluster.connect(path) as cluster,
    ):
        api, synced = Api(cluster), asyncio.Event()
        pods = _Pods(api, [node["metadata"]["name"] for node in nodes], rng)
        following = Reflector(cluster, PODS, clock, rng, pods.handle, synced.set, lambda _: None)
        run = _Run(api, clock, Scheduler(path, clock), pods, size)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(following.run())
            await synced.wait()
            settling = min(footprint.AFTERGLOW, seconds)
            names = await run.fill(settling)
            tasks.create_task(run.scheduler.run())
            measured = await run.measured(names, seconds, settling)
            await run.scheduler.stop()
            watching.cancel()
    return measured


def _suggestions(metrics: str) -> float:
    return sum(
        sample.value
        for found in text_string_to_metric_families(metrics)
        for sample in found.samples
        if sample.name.endswith("_count") and "suggestion" in sample.labels.values()
    )

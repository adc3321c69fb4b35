"""Cost of a `kubedsm run` process at one cluster size: memory, CPU under churn, event loop lag.

The API server is emulated, in a separate process, and all pods are bound before the scheduler
starts. Three phases follow: single pods are created and deleted, then also bursts, then an idle
period with suggestions.
"""

import asyncio
import itertools
import math
import random
from collections.abc import Iterator

import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.kube.wire.decoding import PODS
from kubedsm.model.events import ClusterEvent, PodApplied
from kubedsm.model.model import Pod
from kubedsm.process.clock import SystemClock
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench import footprint
from kubedsm_lab.bench.api import APPS, Api, deployment, follow_cluster
from kubedsm_lab.bench.footprint import NAMESPACE, PODS_OF_A_WORKLOAD
from kubedsm_lab.bench.processes import Scheduler, emulated_cluster, run_command
from kubedsm_lab.bench.report import MACHINE_NOTE, Report, format_duration
from kubedsm_lab.bench.scale.world import Size

#: Pod events while pods come and go.
EVENTS_PER_SECOND = 200
#: Binds in flight, before the scheduler starts.
BINDS = 16
BURST_PODS = 200
#: Seconds between bursts, unless the measurement is shorter.
BURST_PERIOD = 5.0
#: Time limit in seconds.
TIMEOUT = 1800.0
LAG = "kubedsm_event_loop_lag_seconds"
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
_POLL_PERIOD = 0.005


async def run(size: Size, seconds: float) -> Report:
    """Measure a scheduler process in three phases of `seconds` each: pod churn, bursts, idle.

    Raises ClusterError, and TimeoutError if pods are not bound or the scheduler does not sync.
    """
    clock, rng = SystemClock(), random.Random(0)
    nodes = footprint.node_objects(size.nodes)
    async with emulated_cluster(nodes) as (path, cluster):
        api = Api(cluster)
        binder = _Binder(api, [node["metadata"]["name"] for node in nodes], rng)
        scheduler = Scheduler(run_command(path), clock)
        measurement = _Measurement(api, clock, scheduler, binder, size, seconds)
        async with follow_cluster(cluster, clock, binder.handle, PODS):
            names = await measurement.fill_cluster()
            async with measurement.scheduler.running():
                report = await measurement.measure_scheduler(names)
    return report


@attrs.define
class _Binder:
    """Binds pending pods to random nodes until the scheduler starts, and counts pod events."""

    api: Api
    nodes: list[str]
    rng: random.Random
    events: int = attrs.field(default=0, init=False)
    bound: int = attrs.field(default=0, init=False)
    _pending: asyncio.Queue[Pod] = attrs.field(factory=asyncio.Queue, init=False)
    _seen: set[str] = attrs.field(factory=set, init=False)

    def handle(self, event: ClusterEvent) -> None:
        self.events += 1
        if not isinstance(event, PodApplied) or event.pod.uid in self._seen:
            return
        if event.pod.waits_for_node:
            self._seen.add(event.pod.uid)
            self._pending.put_nowait(event.pod)

    async def bind_pods(self) -> None:
        """Bind pending pods to random nodes until cancelled."""
        while True:
            pod = await self._pending.get()
            await self.api.bind(pod.namespace, pod.name, pod.uid, self.rng.choice(self.nodes))
            self.bound += 1


@attrs.define
class _Measurement:
    api: Api
    clock: SystemClock
    scheduler: Scheduler
    binder: _Binder
    size: Size
    seconds: float

    @property
    def settling(self) -> float:
        return min(footprint.AFTERGLOW, self.seconds)

    async def fill_cluster(self) -> list[str]:
        """Create Deployments and bind their pods; return the Deployments' names."""
        async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as tasks:
            binding = [tasks.create_task(self.binder.bind_pods()) for _ in range(BINDS)]
            names = await footprint.create_workloads(self.api, self.size.pods)
            while self.binder.bound < self.size.pods:
                await self.clock.sleep(0.5)
            for each in binding:
                each.cancel()
        await self.clock.sleep(self.settling)
        return names

    async def measure_scheduler(self, names: list[str]) -> Report:
        scheduler, began = self.scheduler, self.clock.monotonic()
        async with asyncio.timeout(TIMEOUT):
            await scheduler.log.synced.wait()
        to_sync = self.clock.monotonic() - began
        await self.clock.sleep(self.settling)
        before, events = await scheduler.read_metrics(), self.binder.events
        cpu = scheduler.cpu_seconds()
        took = await self._change_pods(names, self.seconds)
        used = [100 * (b - a) / took for a, b in zip(cpu, scheduler.cpu_seconds(), strict=True)]
        rate = (self.binder.events - events) / took
        churned = await scheduler.read_metrics()
        async with asyncio.TaskGroup() as tasks:
            period = min(BURST_PERIOD, self.seconds)
            bursts = max(1, round(self.seconds / 2 / period))
            tasks.create_task(self._change_pods(names, bursts * period))
            tasks.create_task(self._create_bursts(bursts, period))
        await self.clock.sleep(self.seconds)
        after = await scheduler.read_metrics()
        suggestions = round(_count_suggestions(after) - _count_suggestions(before))
        greatest = max(sample.resident for sample in scheduler.memory)
        resident = [scheduler.sample_memory().resident / 1e6, greatest / 1e6]
        lags = {
            f"{rate:,.0f} pod events a second": lag_between(before, churned),
            "bursts and idle": lag_between(churned, after),
        }
        return _build_report(to_sync, resident, rate, used, lags, suggestions)

    async def _change_pods(self, names: list[str], seconds: float) -> float:
        """Create and delete pods at EVENTS_PER_SECOND; return the duration in seconds."""
        began, events = self.clock.monotonic(), self.binder.events
        # Deployments are scaled down by one pod in turn, then up again.
        replicas = itertools.cycle(
            (name, PODS_OF_A_WORKLOAD - down) for down in (1, 0) for name in names
        )
        while (now := self.clock.monotonic() - began) < seconds:
            if self.binder.events - events < EVENTS_PER_SECOND * now:
                await self.api.scale(NAMESPACE, *next(replicas))
            else:
                await self.clock.sleep(_POLL_PERIOD)
        return now

    async def _create_bursts(self, bursts: int, period: float) -> None:
        for number in range(bursts):
            body = deployment(f"burst-{number}", BURST_PODS)
            await self.api.create(NAMESPACE, "deployments", body, APPS)
            await self.clock.sleep(period)


def _build_report(
    to_sync: float,
    resident: list[float],
    events_per_second: float,
    cpu_percent: list[float],
    lags: dict[str, dict[str, float]],
    suggestions: int,
) -> Report:
    """Build the report on the scheduler process; `cpu_percent` lists the process first, then its
    children, `resident` the MB of all, at the end and at most, and `lags` the quantiles by phase.
    """
    megabytes = [f"{amount:,.0f}" for amount in resident]
    figures = {
        "emulated": True,
        "secondsToSync": round(to_sync, 1),
        "residentMB": round(resident[0], 1),
        "greatestResidentMB": round(resident[1], 1),
        "churn": {
            "podEventsPerSecond": round(events_per_second, 1),
            "cpuPercentOfACore": round(cpu_percent[0], 1),
            "childrenCpuPercentOfACore": round(cpu_percent[1], 1),
        },
        "suggestions": suggestions,
        "loopLag": [
            {
                "during": during,
                "looks": lag["looks"],
                **{f"{name}AtMostMs": round(1000 * lag[name], 1) for name in QUANTILES},
            }
            for during, lag in lags.items()
        ],
    }
    processes = ("% of a core", "synced after", "MB of all at the end", "at most")
    rows = [
        ("kubedsm run", f"{cpu_percent[0]:.1f}", format_duration(to_sync), *megabytes),
        ("its planner and solver", f"{cpu_percent[1]:.1f}", "", "", ""),
    ]
    late = [
        (during, *(_format_lag(lag[name]) for name in QUANTILES)) for during, lag in lags.items()
    ]
    return Report(
        figures,
        [
            table(("process, emulated API server", *processes), rows, numbers=processes),
            table(("event loop lag at most", *QUANTILES), late, numbers=tuple(QUANTILES)),
        ],
        [
            (
                f"CPU is at {events_per_second:,.0f} pod events a second. Lag is of"
                f" {sum(lag['looks'] for lag in lags.values()):,} samples, with"
                f" {suggestions} suggestions. {MACHINE_NOTE}"
            )
        ],
    )


def _format_lag(seconds: float) -> str:
    return format_duration(seconds) if math.isfinite(seconds) else "above the last bucket"


def lag_between(before: str, after: str) -> dict[str, float]:
    """Return quantiles of the event loop lag between two scrapes, in seconds.

    Each quantile is the upper bound of a histogram bucket; infinite above the last bucket.
    """
    earlier = dict(_lag_buckets(before))
    counts = [(bound, count - earlier.get(bound, 0.0)) for bound, count in _lag_buckets(after)]
    samples = dict(counts).get(math.inf, 0.0)
    return {
        "looks": round(samples),
        **{
            name: min(bound for bound, count in counts if count >= part * samples)
            for name, part in QUANTILES.items()
        },
    }


def _lag_buckets(metrics: str) -> Iterator[tuple[float, float]]:
    for found in text_string_to_metric_families(metrics):
        if found.name == LAG:
            for sample in found.samples:
                if sample.name == f"{LAG}_bucket":
                    yield float(sample.labels["le"]), sample.value


def _count_suggestions(metrics: str) -> float:
    return sum(
        sample.value
        for found in text_string_to_metric_families(metrics)
        for sample in found.samples
        if sample.name.endswith("_count") and "suggestion" in sample.labels.values()
    )

"""`kubedsm bench board`: `kubedsm run` with little CPU, in comparison with an idle machine.

Each run has an emulated cluster of its own, in a separate process without limit. Pods wait before
the scheduler starts; then a burst arrives; then capacity of the edge is released, so that pods
migrate to the edge. The quality of the placement must be equal in all runs, only later.
"""

import asyncio
import math
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import fmean
from typing import Any

import attrs
from rich.console import RenderableType

from kubedsm.kube.wire.decoding import PODS
from kubedsm.model.events import ClusterEvent, PodApplied, PodDeleted
from kubedsm.model.model import Pod
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.api import APPS, Api, deployment, follow_cluster
from kubedsm_lab.bench.footprint import NAMESPACE, create_workloads, node_objects
from kubedsm_lab.bench.processes import Scheduler, emulated_cluster, end_process, run_command
from kubedsm_lab.bench.quota import SIGNALS, Quota, quota
from kubedsm_lab.bench.report import Report, format_duration, format_number

#: Pods of the Deployment that is deleted before the suggestion.
LEAVING = 20
#: Time limit of a phase in seconds.
TIMEOUT = 300.0
IDLE = "idle"
_PHASES = ("first bind", "waiting pods bound", "burst bound", "edge refilled")
_BUSY = "while True: pass"


@attrs.frozen
class Shape:
    nodes: int
    #: pods that wait for the scheduler, and pods of the burst
    pods: int
    burst: int
    #: shares of a core
    quotas: tuple[float, ...]
    #: processes that compute next to the scheduler, in the last run; 0: no such run
    load: int


@attrs.frozen
class Quality:
    """Placement at the end of a phase."""

    placed: int
    at_edge: int
    #: least edge share of a Deployment
    least_share: float
    #: mean number of nodes of a Deployment
    spread: float


@attrs.frozen
class Run:
    """Measurements of one run: seconds of each phase, inf beyond the time limit; quality after the
    last three phases; and CPU seconds of the scheduler with its planner and solver processes.
    """

    seconds: tuple[float, ...]
    quality: tuple[Quality, ...]
    cpu: float
    method: str = ""


async def run(shape: Shape, advance: Callable[[], object]) -> dict[str, Run]:
    """Measure all runs, by name. Raises ClusterError, TimeoutError, ChildProcessError."""
    runs = {IDLE: await _measure(shape)}
    advance()
    for share in shape.quotas:
        async with quota(share) as limit:
            runs[f"{share:.0%} of a core"] = await _measure(shape, limit)
        advance()
    if shape.load:
        async with _load(shape.load):
            runs[f"next to {shape.load} busy processes"] = await _measure(shape)
        advance()
    return runs


def list_deviations(runs: Mapping[str, Run]) -> list[str]:
    """Return the runs that exceeded the time limit, or whose placement is not that of the first.

    The number of nodes of a Deployment is not compared: migrations depend on the order of events.
    """

    def rate(each: Run) -> list[tuple[int, int, float]]:
        return [(of.placed, of.at_edge, of.least_share) for of in each.quality]

    return [
        name
        for name, each in runs.items()
        if math.inf in each.seconds or rate(each) != rate(runs[IDLE])
    ]


@asynccontextmanager
async def _load(processes: int) -> AsyncIterator[None]:
    """Run processes that compute without end during the block."""
    async with AsyncExitStack() as running:
        for _ in range(processes):
            busy = await asyncio.create_subprocess_exec(sys.executable, "-c", _BUSY)
            running.push_async_callback(end_process, busy)
        yield


@attrs.define
class _Pods:
    """Deployment and node of each pod of the emulated cluster, followed by a watch."""

    clock: Clock
    placed: dict[str, tuple[str, str]] = attrs.field(factory=dict, init=False)
    first_bind: float = attrs.field(default=0.0, init=False)

    def handle(self, event: ClusterEvent) -> None:
        match event:
            case PodApplied(pod) if pod.node_name and not pod.terminating:
                self.placed[pod.uid] = pod.labels["app"], pod.node_name
                self.first_bind = self.first_bind or self.clock.monotonic()
            case PodApplied(Pod(uid=uid)) | PodDeleted(uid):
                self.placed.pop(uid, None)

    async def until(self, is_reached: Callable[[], bool]) -> float:
        """Wait until the condition holds; return the seconds, inf beyond the time limit."""
        began = self.clock.monotonic()
        while not is_reached():
            if self.clock.monotonic() - began > TIMEOUT:
                return float("inf")
            await self.clock.sleep(0.05)
        return self.clock.monotonic() - began

    def quality(self, edge: frozenset[str]) -> Quality:
        totals = Counter(app for app, _ in self.placed.values())
        at_edge = Counter(app for app, node in self.placed.values() if node in edge)
        nodes = Counter(app for app, _ in set(self.placed.values()))
        shares = [at_edge[app] / total for app, total in totals.items()]
        return Quality(totals.total(), at_edge.total(), min(shares), fmean(nodes.values()))


async def _measure(shape: Shape, limit: Quota | None = None) -> Run:
    clock, nodes = SystemClock(), node_objects(shape.nodes)
    edge = frozenset(
        node["metadata"]["name"]
        for node in nodes
        if node["metadata"]["labels"]["kubedsm.io/tier"] == "edge"
    )
    async with emulated_cluster(nodes, "--seed", "1") as (path, cluster):
        api, pods = Api(cluster), _Pods(clock)
        await create_workloads(api, shape.pods - LEAVING)
        await _deploy(api, "leaving", LEAVING)
        while len(await api.list_pods()) < shape.pods:
            await clock.sleep(0.1)
        prefix = () if limit is None else limit.prefix
        scheduler = Scheduler(run_command(path), clock, prefix=prefix)
        async with (
            follow_cluster(cluster, clock, pods.handle, PODS),
            scheduler.running() as tasks,
        ):
            began = clock.monotonic()
            enforcing = [tasks.create_task(limit.enforce(scheduler))] if limit else []
            seconds = [await pods.until(lambda: len(pods.placed) >= shape.pods)]
            seconds.insert(0, pods.first_bind - began)
            quality = [pods.quality(edge)]
            await _deploy(api, "burst", shape.burst)
            full = shape.pods + shape.burst
            seconds.append(await pods.until(lambda: len(pods.placed) >= full))
            quality.append(pods.quality(edge))
            await api.delete(NAMESPACE, "deployments", "leaving", APPS)
            await pods.until(lambda: pods.quality(edge).at_edge < quality[-1].at_edge)
            # After the last migration: until then a replacement is a further pod.
            left = full - LEAVING
            least = min(quality[-1].at_edge, left)
            seconds.append(
                await pods.until(
                    lambda: len(pods.placed) == left and pods.quality(edge).at_edge >= least
                )
            )
            quality.append(pods.quality(edge))
            cpu = sum(scheduler.cpu_seconds())
            for each in enforcing:
                each.cancel()
    return Run(tuple(seconds), tuple(quality), cpu, limit.method if limit else "")


async def _deploy(api: Api, name: str, replicas: int) -> None:
    await api.create(NAMESPACE, "deployments", deployment(name, replicas), APPS)


def build_report(shape: Shape, runs: Mapping[str, Run]) -> Report:
    """Return times as ratios to the first run, quality, and the runs that deviate."""
    figures: dict[str, Any] = {
        name: {
            # null: not within the time limit
            "seconds": {
                phase: round(seconds, 2) if math.isfinite(seconds) else None
                for phase, seconds in zip(_PHASES, each.seconds, strict=True)
            },
            "quality": [attrs.asdict(quality) for quality in each.quality],
            "cpuSeconds": round(each.cpu, 2),
            "method": each.method,
        }
        for name, each in runs.items()
    }
    deviations = list_deviations(runs)
    verdict = "Pods placed, pods at the edge and the least edge share are equal in all runs."
    if deviations:
        verdict = f"Placement differs, or took too long: {', '.join(deviations)}."
    method = next((each.method for each in runs.values() if each.method), "")
    about = (
        f"{shape.nodes} nodes, {shape.pods:,} waiting pods, a burst of {shape.burst}, then"
        f" {LEAVING} pods leave. Times of the first run, and ratios to these of the others."
    )
    notes = [
        verdict,
        about,
        *([f"The CPU is limited by {method}."] if method else []),
        *(["This limit is stricter on a busy machine."] if method == SIGNALS else []),
    ]
    return Report(
        {"emulated": True, "runs": figures, "deviations": deviations},
        [_time_table(runs), _quality_table(runs)],
        notes,
    )


def _format_time(seconds: float, unit: float) -> str:
    """Return the ratio to `unit`, or the seconds where the first run has none (0 or inf)."""
    if math.isinf(seconds):
        return f"not in {TIMEOUT:g} s"
    if not unit or math.isinf(unit):
        return format_duration(seconds)
    return format_number(seconds / unit, 2)


def _time_table(runs: Mapping[str, Run]) -> RenderableType:
    first = runs[IDLE]
    rows = [
        (
            name,
            *(
                _format_time(seconds, 0.0 if each is first else unit)
                for seconds, unit in zip(each.seconds, first.seconds, strict=True)
            ),
            format_duration(each.cpu) if each is first else format_number(each.cpu / first.cpu, 2),
        )
        for name, each in runs.items()
    ]
    headings = (*_PHASES, "CPU time")
    return table(("time", *headings), rows, numbers=headings)


def _quality_table(runs: Mapping[str, Run]) -> RenderableType:
    def join(values: Sequence[str]) -> str:
        return " / ".join(values)

    rows = [
        (
            name,
            join([str(quality.placed) for quality in each.quality]),
            join([str(quality.at_edge) for quality in each.quality]),
            join([f"{quality.least_share:.0%}" for quality in each.quality]),
            join([f"{quality.spread:.1f}" for quality in each.quality]),
        )
        for name, each in runs.items()
    ]
    headings = ("pods placed", "at the edge", "least edge share", "nodes of a Deployment")
    return table(("after start / burst / suggestion", *headings), rows)

"""`kubedsm bench footprint`: start-up time, and idle CPU and memory, of a `kubedsm run` process.

The API server is emulated, in a separate process. Nodes report their status as kubelets do: without
changes every five minutes. (Kubelets also renew Leases, ignored by the scheduler.)
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import attrs
from rich.console import RenderableType

from kubedsm.kube.client.port import Cluster
from kubedsm.kube.wire.decoding import PODS
from kubedsm.model.events import ClusterEvent, PodApplied
from kubedsm.process.clock import Clock, SystemClock, rfc3339
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment, follow_cluster
from kubedsm_lab.bench.processes import Scheduler, emulated_cluster, run_command
from kubedsm_lab.bench.quota import quota
from kubedsm_lab.bench.report import MACHINE_NOTE, Report, format_duration, format_number
from kubedsm_lab.emulator.paper import node, paper_cluster

#: Seconds between scrapes of /metrics.
SCRAPE = 15.0
EDGE_PERCENT = 10
PODS_OF_A_WORKLOAD = 50
#: Replicas of the Deployment that is pending before a scheduler starts.
WAITING = 4
#: Images in a kubelet's report (nodeStatusMaxImages).
IMAGES = 50
#: Seconds of stabilisation after the last bind, unless the measurement is shorter.
AFTERGLOW = 5.0
_MEMORY_NOTE = (
    "Memory: the scheduler with its planner and solver processes, median while idle, and at most"
    " since the start. RSS counts a shared page for each process, PSS once."
)
#: Time limit in seconds.
TIMEOUT = 300.0
NAMESPACE = "bench"
_YARDSTICK = "import kubedsm.cli.scheduler_process"
_STARTS = {
    "toFirstBind": "`kubedsm run` to its first bind",
    "onOneCore": "with a quota of one core",
    "cpu": "its CPU time until then",
    "import": f"`python -c '{_YARDSTICK}'`",
}


@attrs.frozen
class Shape:
    """Size of the emulated cluster, and duration of the measurement in seconds."""

    nodes: int
    pods: int
    seconds: float
    #: seconds between two reports of a node
    heartbeat: float
    #: number of scheduler starts
    rounds: int


async def run(shape: Shape) -> Report:
    """Measure start-up time, idle CPU and memory of `kubedsm run`. Raises ClusterError,
    TimeoutError, ChildProcessError.
    """
    clock = SystemClock()
    async with emulated_cluster(paper_cluster().nodes) as (path, cluster):
        start, start_table = await _measure_starts(cluster, path, clock, shape.rounds)
    async with emulated_cluster(node_objects(shape.nodes)) as (path, cluster):
        api, scheduler = Api(cluster), Scheduler(run_command(path), clock)
        await create_workloads(api, shape.pods)
        async with scheduler.running() as tasks:
            await _until_bound(api, shape.pods, clock)
            await clock.sleep(min(AFTERGLOW, shape.seconds))
            idle, idle_table = await _measure_idle(api, scheduler, clock, tasks, shape)
    return Report(
        {"emulated": True, "start": start, "idle": idle},
        [start_table, idle_table],
        [_MEMORY_NOTE, f"Idle: {MACHINE_NOTE}"],
    )


Part = tuple[dict[str, Any], RenderableType]


async def _measure_starts(cluster: Cluster, kubeconfig: Path, clock: Clock, rounds: int) -> Part:
    """Measure the seconds from process start to the first bind in each round, on all cores and on
    one, the CPU seconds until then, and the seconds of a process that only imports kubedsm.
    """
    api = Api(cluster)
    times: dict[str, list[float]] = {name: [] for name in _STARTS}
    await api.create_namespace(NAMESPACE)
    async with quota(1.0) as one_core:
        for _ in range(rounds):
            times["import"].append(await _import_seconds(clock))
            for name, prefix in (("toFirstBind", ()), ("onOneCore", one_core.prefix)):
                scheduler = Scheduler(run_command(kubeconfig), clock, prefix=prefix)
                await api.create(NAMESPACE, "deployments", deployment("web", WAITING), APPS)
                async with _limit_time():
                    while len(await api.list_pods()) < WAITING:
                        await clock.sleep(0.1)
                    seconds, cpu = await _first_bind_seconds(cluster, scheduler, clock)
                    await api.delete(NAMESPACE, "deployments", "web", APPS)
                    while await api.list_pods():
                        await clock.sleep(0.1)
                times[name].append(seconds)
            times["cpu"].append(cpu)
    figures = {
        name: {"medianSeconds": round(median(of), 3), "worstSeconds": round(max(of), 3)}
        for name, of in times.items()
    }
    headings = ("median", "worst", "times as long as importing it")
    rows = []
    for name, of in times.items():
        pairs = zip(of, times["import"], strict=True)
        ratio = median(seconds / yardstick for seconds, yardstick in pairs)
        rows.append((_STARTS[name], *_format_spread(of), format_number(ratio, 2)))
    shown = table(("start", *headings), rows, numbers=headings)
    return {"rounds": rounds, **figures}, shown


def _format_spread(seconds: list[float]) -> tuple[str, str]:
    return format_duration(median(seconds)), format_duration(max(seconds))


async def _first_bind_seconds(
    cluster: Cluster, scheduler: Scheduler, clock: Clock
) -> tuple[float, float]:
    """Run the scheduler until a pod is bound; return the seconds, and the CPU seconds."""
    bound = asyncio.Event()

    def notice(event: ClusterEvent) -> None:
        if isinstance(event, PodApplied) and event.pod.node_name:
            bound.set()

    async with follow_cluster(cluster, clock, notice, PODS):
        began = clock.monotonic()
        async with scheduler.running():
            await bound.wait()
            return clock.monotonic() - began, sum(scheduler.cpu_seconds())


async def _import_seconds(clock: Clock) -> float:
    began = clock.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _YARDSTICK)
    if await process.wait():
        raise ChildProcessError(f"{_YARDSTICK} failed")
    return clock.monotonic() - began


async def _measure_idle(
    api: Api, scheduler: Scheduler, clock: Clock, tasks: asyncio.TaskGroup, shape: Shape
) -> Part:
    """Measure CPU and memory of the scheduler once all pods are bound."""
    reporting = tasks.create_task(_report_status(api, clock, shape))
    before, began = sum(scheduler.cpu_seconds()), clock.monotonic()
    scrapes = await _scrape_metrics(scheduler, clock, shape.seconds)
    used, took = sum(scheduler.cpu_seconds()) - before, clock.monotonic() - began
    at_rest = [sample for sample in scheduler.memory if sample.at >= began]
    memory = {
        "RSS": median(sample.each for sample in at_rest) / 1e6,
        "PSS": median(sample.resident for sample in at_rest) / 1e6,
        "RSS at most": max(sample.each for sample in scheduler.memory) / 1e6,
        "PSS at most": max(sample.resident for sample in scheduler.memory) / 1e6,
    }
    reports = await reporting
    figures = {
        "nodes": shape.nodes,
        "pods": shape.pods,
        "seconds": round(took, 1),
        "heartbeatsPerSecond": round(reports / took, 1),
        "cpuPercentOfACore": round(100 * used / took, 2),
        "memoryMB": {name: round(size, 1) for name, size in memory.items()},
        "scrapes": len(scrapes),
        "scrapeMedianMs": round(1000 * median(scrapes), 1),
        "scrapeWorstMs": round(1000 * max(scrapes), 1),
    }
    headings = ("% of a core", *memory, "node reports a second", "scrape, median", "worst")
    row = (
        f"{shape.nodes:,} nodes, {shape.pods:,} pods, for {format_duration(took)}",
        format_number(100 * used / took, 2),
        *(f"{size:,.0f} MB" for size in memory.values()),
        format_number(reports / took),
        *_format_spread(scrapes),
    )
    return figures, table(("idle", *headings), [row], numbers=headings)


async def _report_status(api: Api, clock: Clock, shape: Shape) -> int:
    """Patch the status of each node once per heartbeat interval, in rotation; return the number of
    patches sent.
    """
    began, sent = clock.monotonic(), 0
    while (due := began + sent * shape.heartbeat / shape.nodes) < began + shape.seconds:
        await clock.sleep(max(0.0, due - clock.monotonic()))
        path = f"{CORE}/nodes/{_node_name(sent % shape.nodes)}/status"
        await api.call("PATCH", path, {"status": {"conditions": _healthy_conditions()}})
        sent += 1
    return sent


async def _scrape_metrics(scheduler: Scheduler, clock: Clock, seconds: float) -> list[float]:
    """Scrape the scheduler's /metrics at Prometheus' default interval; return the duration of each
    scrape in seconds.
    """
    due, took = clock.monotonic() + seconds, []
    while (left := due - clock.monotonic()) > 0:
        await clock.sleep(min(left, SCRAPE))
        began = clock.monotonic()
        await scheduler.read_metrics()
        took.append(clock.monotonic() - began)
    return took


async def create_workloads(api: Api, pods: int) -> list[str]:
    """Create Deployments with `pods` replicas altogether; return their names."""
    await api.create_namespace(NAMESPACE)
    names = []
    for first in range(0, pods, PODS_OF_A_WORKLOAD):
        names.append(f"web-{first}")
        body = deployment(names[-1], min(PODS_OF_A_WORKLOAD, pods - first))
        await api.create(NAMESPACE, "deployments", body, APPS)
    return names


async def _until_bound(api: Api, pods: int, clock: Clock) -> None:
    async with _limit_time():
        while sum("nodeName" in pod["spec"] for pod in await api.list_pods()) != pods:
            await clock.sleep(0.1)


@asynccontextmanager
async def _limit_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TIMEOUT):
            yield
    except TimeoutError:
        raise TimeoutError(f"not all pods were bound within {TIMEOUT:g} s") from None


def node_objects(count: int) -> list[dict[str, Any]]:
    """Return Node manifests of realistic size."""
    nodes = []
    for number in range(count):
        is_edge = number * EDGE_PERCENT % 100 < EDGE_PERCENT
        one = node(_node_name(number), "edge" if is_edge else "cloud", "8", "32Gi")
        names = (f"registry.example.com/team/app-{image}" for image in range(IMAGES))
        one["status"] |= {
            "conditions": _healthy_conditions(),
            "images": [
                {"names": [f"{name}@sha256:{'0' * 64}", f"{name}:v1"], "sizeBytes": 10**8}
                for name in names
            ],
        }
        nodes.append(one)
    return nodes


def _node_name(number: int) -> str:
    return f"n{number}"


def _healthy_conditions() -> list[dict[str, Any]]:
    """Return the conditions reported by a healthy kubelet; only timestamps change."""
    now = rfc3339(time.time(), micro=False)
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": now,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": "as it was",
        }
        for kind, status in (
            ("MemoryPressure", "False"),
            ("DiskPressure", "False"),
            ("PIDPressure", "False"),
            ("Ready", "True"),
        )
    ]

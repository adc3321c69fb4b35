"""`kubedsm run` as a process: what it costs while nothing is to be done, and how soon it begins.

The API server is emulated, in a process of its own. Nodes say what kubelets' reports are known to
say, and as often: a kubelet that has no news sends its node's status each five minutes
(nodeStatusReportFrequency); what it renews each ten seconds is a Lease, which nobody here reads.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import attrs
import orjson

from kubedsm.kube.client.port import Cluster, Request
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment, pod_spec
from kubedsm_lab.bench.soak.processes import Scheduler, cpu_seconds, family, resident
from kubedsm_lab.bench.telling import figure, many, span, times_as_long
from kubedsm_lab.emulator.paper import node

#: seconds between two reports of a node that has no news, and between two scrapes
HEARTBEAT = 300.0
SCRAPE = 15.0
#: of a hundred nodes, how many are on the edge
EDGE_PERCENT = 10
PODS_OF_A_WORKLOAD = 50
#: of the Deployment that waits for a scheduler to begin
WAITING = 4
#: images that a kubelet's report names (nodeStatusMaxImages)
IMAGES = 50
#: for which a node has room
PODS_OF_A_NODE = 50
#: seconds for what follows on the last bind to be over, unless all is to take less
AFTERGLOW = 5.0
#: seconds that nothing here takes
PATIENCE = 300.0
NAMESPACE = "bench"
_YARDSTICK = "import kubedsm.cli.scheduler_process"


@attrs.frozen(slots=True)
class IdleResult:
    nodes: int
    pods: int
    seconds: float
    heartbeats: int
    #: of one core, of `kubedsm run`
    cpu_percent: float
    #: bytes, at the end
    resident: int
    #: seconds that each took
    scrapes: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "nodes": self.nodes,
            "pods": self.pods,
            "seconds": round(self.seconds, 1),
            "heartbeatsPerSecond": round(self.heartbeats / self.seconds, 1),
            "cpuPercentOfACore": round(self.cpu_percent, 2),
            "residentMB": round(self.resident / 1e6, 1),
            "scrapes": len(self.scrapes),
            "scrapeMedianMs": round(1000 * median(self.scrapes), 1),
            "scrapeWorstMs": round(1000 * max(self.scrapes), 1),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"With nothing to do, `kubedsm run` takes {figure(self.cpu_percent, 2)} % of a core"
                f" and {self.resident / 1e6:,.0f} MB: {many(self.nodes, 'node')}, emulated, which"
                f" report their status {figure(self.heartbeats / self.seconds)} times a second, and"
                f" {many(self.pods, 'pod')}, for {span(self.seconds)}."
            ),
            (
                f"A scrape of /metrics takes {span(median(self.scrapes))} (at worst"
                f" {span(max(self.scrapes))}, of {len(self.scrapes)})."
            ),
            "Nothing was run beside it: these are no ratios, and go by the machine.",
        ]


@attrs.frozen(slots=True)
class StartResult:
    """Seconds of each round."""

    to_first_bind: tuple[float, ...]
    to_import: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "rounds": len(self.to_first_bind),
            "toFirstBind": {
                "medianSeconds": round(median(self.to_first_bind), 3),
                "worstSeconds": round(max(self.to_first_bind), 3),
            },
            f"python -c '{_YARDSTICK}'": {
                "medianSeconds": round(median(self.to_import), 3),
                "worstSeconds": round(max(self.to_import), 3),
            },
            "ratio": round(self.ratio, 2),
        }

    @property
    def ratio(self) -> float:
        """Of a round, the median."""
        rounds = zip(self.to_first_bind, self.to_import, strict=True)
        return median(bind / yardstick for bind, yardstick in rounds)

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"From starting `kubedsm run` to its first bind, beside an emulated API server:"
                f" {span(median(self.to_first_bind))} ({span(max(self.to_first_bind))} at worst);"
                f" `python -c '{_YARDSTICK}'` takes {span(median(self.to_import))}"
                f" ({span(max(self.to_import))} at worst): the first bind takes"
                f" {times_as_long(self.ratio)}."
            ),
            f"Medians of {many(len(self.to_import), 'round')}, in each of which both were run.",
        ]


def nodes(count: int) -> list[dict[str, Any]]:
    """Node objects as large as real ones."""
    made = []
    for number in range(count):
        edge = number * EDGE_PERCENT % 100 < EDGE_PERCENT
        one = node(f"n{number}", "edge" if edge else "cloud", "8", "32Gi")
        names = (f"registry.example.com/team/app-{image}" for image in range(IMAGES))
        one["status"] |= {
            "conditions": _conditions(),
            "images": [
                {"names": [f"{name}@sha256:{'0' * 64}", f"{name}:v1"], "sizeBytes": 10**8}
                for name in names
            ],
        }
        made.append(one)
    return made


async def idle(
    cluster: Cluster, scheduler: Scheduler, clock: Clock, *, pods: int, seconds: float, beat: float
) -> IdleResult:
    """Have the scheduler bind so many pods, then watch it for so long.

    `beat`: seconds between two reports of a node. The cluster must have nodes, and nothing else
    may be at work in it. Raises ClusterError, TimeoutError if pods are not bound, and
    ChildProcessError if the scheduler does not stay.
    """
    api = Api(cluster)
    names = [each["metadata"]["name"] for each in (await api.get(f"{CORE}/nodes"))["items"]]
    await fill(api, pods)
    async with running(scheduler) as tasks:
        await until_bound(api, pods, clock)
        await clock.sleep(min(AFTERGLOW, seconds))
        beating = tasks.create_task(_beat(api, names, clock, seconds, beat))
        processes = family(scheduler.pid)
        before, began = sum(map(cpu_seconds, processes)), clock.monotonic()
        scrapes = await _scraped(scheduler.log.metrics, clock, seconds)
        used = sum(map(cpu_seconds, processes)) - before
        took = clock.monotonic() - began
        # Now: when it has been told to end, it holds less and less.
        held = sum(map(resident, processes))
        sent = await beating
        if scheduler.ends:
            raise ChildProcessError("kubedsm run ended before it was told to")
    return IdleResult(
        nodes=len(names),
        pods=pods,
        seconds=took,
        heartbeats=sent,
        cpu_percent=100 * used / took,
        resident=held,
        scrapes=scrapes,
    )


async def start(cluster: Cluster, kubeconfig: Path, clock: Clock, *, rounds: int) -> StartResult:
    """Begin anew so many times, each time with a Deployment that waits.

    Raises ClusterError, and TimeoutError if nothing is bound.
    """
    api, binds, imports = Api(cluster), [], []
    await api.create_namespace(NAMESPACE)
    for _ in range(rounds):
        imports.append(await _import_seconds(clock))
        await api.create(NAMESPACE, "deployments", workload("web", WAITING), APPS)
        async with patience():
            while len(await api.pods()) < WAITING:
                await clock.sleep(0.1)
            binds.append(await _first_bind_seconds(cluster, Scheduler(kubeconfig, clock), clock))
            await api.delete(NAMESPACE, "deployments", "web", APPS)
            while await api.pods():
                await clock.sleep(0.1)
    return StartResult(tuple(binds), tuple(imports))


async def _first_bind_seconds(cluster: Cluster, scheduler: Scheduler, clock: Clock) -> float:
    pods = f"{CORE}/pods"
    listed = await Api(cluster).get(pods)
    query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
    async with cluster.stream(Request("GET", pods, query), timeout=PATIENCE) as lines:
        began = clock.monotonic()
        async with running(scheduler):
            async for line in lines:
                if orjson.loads(line)["object"]["spec"].get("nodeName"):
                    break
            return clock.monotonic() - began


async def _import_seconds(clock: Clock) -> float:
    began = clock.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _YARDSTICK)
    await process.wait()
    return clock.monotonic() - began


async def fill(api: Api, pods: int) -> dict[str, int]:
    """Have Deployments of so many pods together; by their names, of how many each is."""
    counts = {
        f"web-{first}": min(PODS_OF_A_WORKLOAD, pods - first)
        for first in range(0, pods, PODS_OF_A_WORKLOAD)
    }
    await api.create_namespace(NAMESPACE)
    for name, count in counts.items():
        await api.create(NAMESPACE, "deployments", workload(name, count), APPS)
    return counts


async def until_bound(api: Api, pods: int, clock: Clock) -> None:
    """Raises TimeoutError."""
    async with patience():
        while not await all_bound(api, pods):
            await clock.sleep(0.1)


@asynccontextmanager
async def patience() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError:
        raise TimeoutError(f"not all pods were bound within {PATIENCE:g} s") from None


@asynccontextmanager
async def running(scheduler: Scheduler) -> AsyncIterator[asyncio.TaskGroup]:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run())
        yield tasks
        await scheduler.stop()


async def all_bound(api: Api, count: int) -> bool:
    return sum("nodeName" in pod["spec"] for pod in await api.pods()) == count


async def _beat(api: Api, names: list[str], clock: Clock, seconds: float, beat: float) -> int:
    """Report each node's status once a `beat`, one node after the other. Returns how many."""
    began, sent = clock.monotonic(), 0
    while (due := began + sent * beat / len(names)) < began + seconds:
        await clock.sleep(max(0.0, due - clock.monotonic()))
        path = f"{CORE}/nodes/{names[sent % len(names)]}/status"
        await api.call("PATCH", path, {"status": {"conditions": _conditions()}})
        sent += 1
    return sent


async def _scraped(url: str, clock: Clock, seconds: float) -> tuple[float, ...]:
    """Ask for metrics as Prometheus does. Returns the seconds that each answer took."""
    due, took = clock.monotonic() + seconds, []
    async with aiohttp.ClientSession() as session:
        while (left := due - clock.monotonic()) > 0:
            await clock.sleep(min(left, SCRAPE))
            began = clock.monotonic()
            async with session.get(f"{url}/metrics", raise_for_status=True) as response:
                await response.read()
            took.append(clock.monotonic() - began)
    return tuple(took)


def workload(name: str, replicas: int) -> dict[str, Any]:
    """A Deployment of small pods for our scheduler."""
    return deployment(name, replicas, pod_spec({"cpu": "100m", "memory": "64Mi"}))


def _conditions() -> list[dict[str, Any]]:
    """What a kubelet reports of a node that is well; only the moment is new."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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

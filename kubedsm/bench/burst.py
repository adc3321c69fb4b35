"""A burst of pods over real HTTP: KubeDSM beside a bare loop that only posts binds.

Both see the pods of one Deployment come through a watch and bind them to the same nodes, on the
same server, through the same HTTP client. The bare loop decides nothing, reserves nothing and
verifies nothing, so its rate is what the API server and the client allow.
"""

import asyncio
import itertools
import random
import statistics
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import orjson

from kubedsm.bench.api import APPS, CORE, TIMEOUT, Api, deployment, pod_spec
from kubedsm.bench.soak.processes import emulated_cluster
from kubedsm.clock import Clock
from kubedsm.cluster.client.port import Cluster, Request, Response
from kubedsm.configuration.settings import Configuration
from kubedsm.replay.summaries import Latency
from kubedsm.runtime.assembly import Runtime
from kubedsm.runtime.placement_manager import Limits

NODE_COUNT = 4
#: for the watch to show the last binds
AFTERGLOW = 0.5
#: no burst that this bench makes takes longer
PATIENCE = 120.0


@attrs.frozen(slots=True)
class Burst:
    """One side of the comparison: medians over the rounds; latencies are from created to bound."""

    binds_per_second: float
    latency: Latency

    def as_json(self) -> dict[str, Any]:
        return {
            "bindsPerSecond": round(self.binds_per_second, 1),
            "createdToBoundMs": self.latency.milliseconds(),
        }


@attrs.frozen(slots=True)
class BurstResult:
    pods: int
    rounds: int
    kubedsm: Burst
    bare_loop: Burst
    #: of binds a second, the median over the rounds: each pairs two bursts of the same moment
    ratio: float

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "pods": self.pods,
            "rounds": self.rounds,
            "kubedsm": self.kubedsm.as_json(),
            "bareLoop": self.bare_loop.as_json(),
            "ratio": round(self.ratio, 3),
        }


class Timed:
    """A Cluster that notes when binds were sent and answered, and when each watch line came."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sent: list[float] = []
        self._answered: list[float] = []
        self._lines: list[tuple[float, bytes]] = []

    async def request(self, request: Request, *, timeout: float) -> Response:
        if not request.path.endswith("/binding"):
            return await self._cluster.request(request, timeout=timeout)
        self._sent.append(self._clock.monotonic())
        response = await self._cluster.request(request, timeout=timeout)
        self._answered.append(self._clock.monotonic())
        return response

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._cluster.stream(request, timeout=timeout) as lines:
            yield self._noted(lines)

    async def _noted(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            self._lines.append((self._clock.monotonic(), line))
            yield line

    @property
    def answered(self) -> int:
        return len(self._answered)

    def summary(self) -> Burst:
        created: dict[str, float] = {}
        bound: dict[str, float] = {}
        for at, line in self._lines:
            event = orjson.loads(line)
            pod = event["object"]
            if pod.get("kind") == "Pod" and event["type"] != "BOOKMARK":
                uid = pod["metadata"]["uid"]
                created.setdefault(uid, at)
                if pod["spec"].get("nodeName"):
                    bound.setdefault(uid, at)
        latency = Latency.of([bound[uid] - created[uid] for uid in bound])
        if latency is None:
            raise RuntimeError("no pod was bound")
        return Burst(len(self._answered) / (max(self._answered) - min(self._sent)), latency)


#: one of the two: binds what comes until cancelled; sets the event when it watches
Side = Callable[[Timed, asyncio.Event], Coroutine[Any, Any, None]]


async def run(
    cluster: Cluster, clock: Clock, rng: random.Random, *, pods: int = 200, rounds: int = 11
) -> BurstResult:
    """Let both sides bind `pods` pods, in turn, `rounds` times.

    The cluster must have nodes, with room for them, and nothing else binding for `kubedsm`.
    Raises ClusterError, and TimeoutError if a round does not end.
    """
    nodes = await Api(cluster).get(f"{CORE}/nodes")
    names = [node["metadata"]["name"] for node in nodes["items"]]

    async def bare(timed: Timed, ready: asyncio.Event) -> None:
        await _bare_loop(timed, names, ready)

    async def ours(timed: Timed, ready: asyncio.Event) -> None:
        runtime = Runtime(timed, Configuration(), clock, rng)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(runtime.run())
            await runtime.synced.wait()
            ready.set()

    bursts: dict[Side, list[Burst]] = {bare: [], ours: []}
    for number in range(rounds):
        for side, measured in bursts.items():
            measured.append(await _round(cluster, clock, side, pods, f"burst-{number}"))
    ratios = [
        mine.binds_per_second / theirs.binds_per_second
        for mine, theirs in zip(bursts[ours], bursts[bare], strict=True)
    ]
    return BurstResult(
        pods, rounds, _median(bursts[ours]), _median(bursts[bare]), statistics.median(ratios)
    )


async def _round(cluster: Cluster, clock: Clock, side: Side, pods: int, namespace: str) -> Burst:
    api, timed = Api(cluster), Timed(cluster, clock)
    burst = deployment("burst", pods, pod_spec({"cpu": "10m", "memory": "16Mi"}))
    await api.create_namespace(namespace)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        ready = asyncio.Event()
        running = tasks.create_task(side(timed, ready))
        await ready.wait()
        await api.create(namespace, "deployments", burst, APPS)
        while timed.answered < pods:
            await clock.sleep(0.05)
        await clock.sleep(AFTERGLOW)
        running.cancel()
    async with asyncio.timeout(PATIENCE):
        await api.delete_namespace(namespace)
        while await api.get(f"{CORE}/namespaces/{namespace}") is not None:
            await clock.sleep(0.05)
    return timed.summary()


async def _bare_loop(cluster: Cluster, nodes: list[str], ready: asyncio.Event) -> None:
    api, pods = Api(cluster), f"{CORE}/pods"
    slots = asyncio.Semaphore(Limits().binds_in_flight)
    turn = itertools.cycle(nodes)

    async def bind(namespace: str, name: str, uid: str, node: str) -> None:
        async with slots:
            path = f"{CORE}/namespaces/{namespace}/pods/{name}/binding"
            body = {
                "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"kind": "Node", "name": node},
            }
            await api.call("POST", path, body, passing=())

    listed = await api.get(pods)
    query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
    async with (
        asyncio.TaskGroup() as tasks,
        cluster.stream(Request("GET", pods, query), timeout=TIMEOUT) as lines,
    ):
        ready.set()
        async for line in lines:
            event = orjson.loads(line)
            if event["type"] == "ADDED":
                pod = event["object"]["metadata"]
                tasks.create_task(bind(pod["namespace"], pod["name"], pod["uid"], next(turn)))


def _median(bursts: list[Burst]) -> Burst:
    return Burst(
        statistics.median(b.binds_per_second for b in bursts),
        Latency(
            statistics.median(b.latency.mean for b in bursts),
            statistics.median(b.latency.p50 for b in bursts),
            statistics.median(b.latency.p99 for b in bursts),
        ),
    )


@asynccontextmanager
async def server(pods: int) -> AsyncIterator[Path]:
    """Run `kubedsm emulate` in a process of its own, with room for that many pods.

    Gives the path of its kubeconfig.
    """
    share = -(-pods // NODE_COUNT)
    nodes = [
        {
            "name": f"n{number}",
            "tier": "edge" if number else "cloud",
            "cpu": f"{share * 20 + 1000}m",
            "memory": f"{share * 32 + 1024}Mi",
            "pods": pods + 10,
        }
        for number in range(NODE_COUNT)
    ]
    async with emulated_cluster(nodes) as kubeconfig:
        yield kubeconfig

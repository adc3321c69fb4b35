"""A burst of pods over HTTPS: `kubedsm run` beside a bare loop that only posts binds.

Each side is a process of its own, and so is the API server. Both wait through the silence, and see
the pods of one Deployment come through a watch; while one binds, the other stands still. What is
measured is seen from a third place, by one watch for both.
"""

import asyncio
import os
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import orjson

from kubedsm.bench import bare_loop
from kubedsm.bench.api import APPS, CORE, TIMEOUT, Api, deployment, pod_spec
from kubedsm.bench.soak.processes import Scheduler, emulated_cluster, ended
from kubedsm.clock import Clock
from kubedsm.cluster.client.port import Cluster, Request
from kubedsm.replay.summaries import Latency

NODE_COUNT = 4
#: seconds for what follows on the last bind: kubelets' reports, Events
AFTERGLOW = 1.0
#: no burst that this bench makes takes longer
PATIENCE = 120.0


@attrs.frozen(slots=True)
class Burst:
    """Latencies are from created to bound."""

    #: of binds, from the first pod created
    per_second: float
    latency: Latency

    def as_json(self) -> dict[str, Any]:
        return {
            "bindsPerSecond": round(self.per_second, 1),
            "createdToBoundMs": self.latency.milliseconds(),
        }


@attrs.frozen(slots=True)
class BurstResult:
    pods: int
    #: seconds before each round
    silence: float
    #: one each round
    kubedsm: tuple[Burst, ...]
    bare_loop: tuple[Burst, ...]

    def ratio(self, of: Callable[[Burst], float]) -> float:
        """The median over the rounds: each pairs two bursts of about the same moment."""
        pairs = zip(self.kubedsm, self.bare_loop, strict=True)
        return statistics.median(of(ours) / of(theirs) for ours, theirs in pairs)

    def as_json(self) -> dict[str, Any]:
        return {
            "emulated": True,
            "pods": self.pods,
            "rounds": len(self.kubedsm),
            "silenceSeconds": self.silence,
            "kubedsm": _median(self.kubedsm).as_json(),
            "bareLoop": _median(self.bare_loop).as_json(),
            "ratio": {
                "mean": round(self.ratio(lambda burst: burst.latency.mean), 3),
                "p99": round(self.ratio(lambda burst: burst.latency.p99), 3),
                "bindsPerSecond": round(self.ratio(lambda burst: burst.per_second), 3),
            },
        }


@attrs.frozen(slots=True)
class _Side:
    scheduler_name: str
    #: of its process
    pid: Callable[[], int]


async def run(
    cluster: Cluster,
    kubeconfig: Path,
    clock: Clock,
    *,
    pods: int = 200,
    rounds: int = 11,
    silence: float = 30.0,
    keepalive: float = bare_loop.FOREVER,
) -> BurstResult:
    """Let both sides bind `pods` pods, in turns, `rounds` times, each after a silence.

    keepalive: seconds after which the bare loop lets go of a connection that is idle.
    The cluster must have nodes, with room for them, and no other scheduler. Raises ClusterError,
    and TimeoutError if a round does not end.
    """
    scheduler = Scheduler(kubeconfig, clock)
    async with _bare_loop(kubeconfig, keepalive) as bare, asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run())
        async with asyncio.timeout(PATIENCE):
            await scheduler.log.synced.wait()
        ours = _Side("kubedsm", lambda: scheduler.pid)
        theirs = _Side(bare_loop.NAME, lambda: bare.pid)
        bursts: dict[_Side, list[Burst]] = {ours: [], theirs: []}
        for number in range(rounds):
            await clock.sleep(silence)
            sides = (ours, theirs) if number % 2 else (theirs, ours)
            for side, other in zip(sides, sides[::-1], strict=True):
                with _standing_still(other.pid()):
                    burst = await _burst(cluster, clock, side, pods, f"burst-{number}")
                bursts[side].append(burst)
                await _cleared(cluster, clock, f"burst-{number}")
        await scheduler.stop()
    return BurstResult(pods, silence, tuple(bursts[ours]), tuple(bursts[theirs]))


async def _burst(cluster: Cluster, clock: Clock, side: _Side, pods: int, namespace: str) -> Burst:
    api = Api(cluster)
    spec = pod_spec({"cpu": "10m", "memory": "16Mi"}, schedulerName=side.scheduler_name)
    await api.create_namespace(namespace)
    watch = Request("GET", f"{CORE}/namespaces/{namespace}/pods", {"watch": "1"})
    created: dict[str, float] = {}
    bound: dict[str, float] = {}
    async with asyncio.timeout(PATIENCE), cluster.stream(watch, timeout=TIMEOUT) as lines:
        await api.create(namespace, "deployments", deployment("burst", pods, spec), APPS)
        async for line in lines:
            at, pod = clock.monotonic(), orjson.loads(line)["object"]
            created.setdefault(pod["metadata"]["uid"], at)
            if pod["spec"].get("nodeName"):
                bound.setdefault(pod["metadata"]["uid"], at)
            if len(bound) == pods:
                break
    await clock.sleep(AFTERGLOW)
    latency = Latency.of([at - created[uid] for uid, at in bound.items()])
    if latency is None:
        raise RuntimeError("the watch ended before a pod was bound")
    return Burst(len(bound) / (max(bound.values()) - min(created.values())), latency)


async def _cleared(cluster: Cluster, clock: Clock, namespace: str) -> None:
    api = Api(cluster)
    async with asyncio.timeout(PATIENCE):
        await api.delete_namespace(namespace)
        while await api.get(f"{CORE}/namespaces/{namespace}") is not None:
            await clock.sleep(0.05)


@asynccontextmanager
async def _bare_loop(
    kubeconfig: Path, keepalive: float
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", bare_loop.__name__, str(kubeconfig), str(keepalive)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout is None or not await process.stdout.readline():
            raise ChildProcessError("the bare loop ended before it watched")
        yield process
    finally:
        await ended(process)


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    """So that what a process makes of the other's pods takes no time from the other."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _median(bursts: tuple[Burst, ...]) -> Burst:
    return Burst(
        statistics.median(b.per_second for b in bursts),
        Latency(
            statistics.median(b.latency.mean for b in bursts),
            statistics.median(b.latency.p50 for b in bursts),
            statistics.median(b.latency.p99 for b in bursts),
        ),
    )


@asynccontextmanager
async def server(pods: int) -> AsyncIterator[Path]:
    """Run `kubedsm emulate --tls` in a process of its own, with room for that many pods.

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
    async with emulated_cluster(nodes, "--tls") as kubeconfig:
        yield kubeconfig

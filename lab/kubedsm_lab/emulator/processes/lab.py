"""Assembly of an emulated cluster whose pods run as processes: Service proxies, files
and metrics.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry

from kubedsm.model.model import Tier, Tiers
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import EMULATED, listen
from kubedsm.terminal.whole_files import write_whole
from kubedsm_lab.emulator.api.object_state import labels_of
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.processes.forked import Forked, ForkedProcess
from kubedsm_lab.emulator.processes.pod_processes import PodProcess, PodProcesses
from kubedsm_lab.emulator.processes.service_proxies import Forwarding, ServiceProxies
from kubedsm_lab.emulator.processes.usage import Accounts, LabMetrics
from loadgen.server import exposition

TARGETS, SERVICES = "targets.json", "services.json"
#: labels with the name of the application; the first present one counts
_APP = ("app", "app.kubernetes.io/name")


def prometheus_targets(
    running: Iterable[tuple[PodProcess, ForkedProcess]], tier_of: Callable[[str], Tier | None]
) -> list[dict[str, Any]]:
    """Return the pods' scrape targets in Prometheus' file_sd format, one entry per process."""
    return [
        {
            "targets": [urlsplit(process.url).netloc],
            "labels": {
                "job": "pods",
                "namespace": pod.name[0],
                "pod": pod.name[1],
                "node": pod.node,
                "tier": tier_of(pod.node) or "",
                "app": next((v for n in _APP if (v := labels_of(pod.pod).get(n))), ""),
            },
        }
        for pod, process in running
    ]


def write_json(path: Path, content: object) -> None:
    """Replace a file atomically by the JSON form of a value. Raises OSError."""
    write_whole(path, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


#: seconds between two measurements
_LOOK = 1.0


@asynccontextmanager
async def pod_processes(folder: Path, clock: Clock) -> AsyncIterator[PodProcesses]:
    """Run the process-based container runtime, with logs in the directory. Raises OSError."""
    async with Forked(folder / "logs") as processes, PodProcesses(processes, clock) as pods:
        yield pods


@asynccontextmanager
async def reachable(
    store: Store,
    pods: PodProcesses,
    clock: Clock,
    rng: random.Random,
    folder: Path,
    network: Mapping[Tier, float],
    address: tuple[str, int] | None = None,
) -> AsyncIterator[str]:
    """Run the Service proxies and measure the pods' consumption during the block; yield the URL of
    the metrics, which `address` serves if given.

    `folder` gets the addresses of pods and Services; `network` has round-trip latencies in seconds,
    by tier. Raises OSError, AddressUnavailableError.
    """

    def tier_of(name: str) -> Tier | None:
        node = store.get(NODES, "", name)
        return None if node is None else Tiers().of(labels_of(node))

    accounts, registry, changed = Accounts(), CollectorRegistry(), asyncio.Event()
    metrics = LabMetrics(store, pods, accounts)
    registry.register(metrics)
    pods.noticed = changed.set

    async def keep_files() -> None:
        while True:
            write_json(folder / TARGETS, prometheus_targets(pods.running(), tier_of))
            urls = {"/".join(name): url for name, url in sorted(proxies.urls.items())}
            write_json(folder / SERVICES, urls)
            await changed.wait()
            changed.clear()

    async def keep_looking() -> None:
        while True:
            metrics.look()
            forwarding.forget_others({pod.uid for pod, _ in pods.running()})
            await clock.sleep(_LOOK)

    async with (
        Forwarding(clock, accounts, network, tier_of, registry) as forwarding,
        ServiceProxies(store, pods, forwarding, rng, changed.set) as proxies,
        _serve(registry, address) as url,
        asyncio.TaskGroup() as tasks,
    ):
        pods.environment = proxies.environment
        keeping = [tasks.create_task(each()) for each in (keep_files, keep_looking, proxies.follow)]
        try:
            yield url
        finally:
            for task in keeping:
                task.cancel()


@asynccontextmanager
async def _serve(
    registry: CollectorRegistry, address: tuple[str, int] | None
) -> AsyncIterator[str]:
    if address is None:
        yield ""
        return

    async def written(_: web.Request) -> web.Response:
        return exposition(registry)

    app = web.Application()
    app.router.add_get("/metrics", written)
    runner = web.AppRunner(app, access_log=None)
    try:
        yield await listen(runner, *address, EMULATED)
    finally:
        await runner.cleanup()

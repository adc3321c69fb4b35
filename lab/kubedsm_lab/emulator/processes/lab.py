"""Pods that run, assembled: their processes, proxies, files and metrics."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
from aiohttp import web
from prometheus_client import CollectorRegistry

from kubedsm.model.model import Tier, Tiers
from kubedsm.process.clock import Clock
from kubedsm.process.http_limits import EMULATED, listen
from kubedsm_lab.emulator.actors.pod_state import labels_of
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.emulator.api.store import Store
from kubedsm_lab.emulator.processes import lab_files
from kubedsm_lab.emulator.processes.accounts import Accounts
from kubedsm_lab.emulator.processes.forked import Forked
from kubedsm_lab.emulator.processes.forwarding import Forwarding
from kubedsm_lab.emulator.processes.lab_metrics import LabMetrics
from kubedsm_lab.emulator.processes.pod_processes import PodProcesses
from kubedsm_lab.emulator.processes.service_proxies import ServiceProxies
from loadgen.server import exposition

#: seconds from one look at the processes to the next
_LOOK = 1.0


@attrs.frozen
class Lab:
    """Where pods that run are to be found."""

    #: of the files that say so, and of the logs
    folder: Path
    #: seconds there and back, by tier
    network: Mapping[Tier, float]
    #: of the metrics, if they are to be served
    address: tuple[str, int] | None = None


@asynccontextmanager
async def pod_processes(folder: Path, clock: Clock) -> AsyncIterator[PodProcesses]:
    """The container runtime of a lab in that folder. Raises OSError."""
    async with Forked(folder / "logs") as processes, PodProcesses(processes, clock) as pods:
        yield pods


@asynccontextmanager
async def reachable(
    store: Store, pods: PodProcesses, clock: Clock, rng: random.Random, lab: Lab
) -> AsyncIterator[str]:
    """Have the pods of a cluster be reached, and measured; gives the URL of the metrics, if served.

    Raises OSError if the folder takes no files, AddressUnavailableError.
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
            lab_files.write(
                lab.folder / lab_files.TARGETS, lab_files.targets(pods.running(), tier_of)
            )
            lab_files.write(lab.folder / lab_files.SERVICES, lab_files.services(proxies.urls))
            await changed.wait()
            changed.clear()

    async def keep_looking() -> None:
        while True:
            metrics.look()
            forwarding.forget_others({pod.uid for pod, _ in pods.running()})
            await clock.sleep(_LOOK)

    async with (
        Forwarding(clock, accounts, lab.network, tier_of, registry) as forwarding,
        ServiceProxies(store, pods, forwarding, rng, changed.set) as proxies,
        _served(registry, lab.address) as url,
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
async def _served(
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

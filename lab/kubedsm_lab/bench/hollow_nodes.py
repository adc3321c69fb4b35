"""Hollow nodes on any cluster: Node objects whose kubelet is this program.

All have the name of a run as label and taint, so the pods of others avoid them.
"""

import asyncio
import multiprocessing
import random
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import ClusterError
from kubedsm.process.clock import Clock, SystemClock, rfc3339
from kubedsm_lab.bench.api import CORE, MERGE, Api
from kubedsm_lab.bench.watched_api import WatchedApiServer, connect_blocking, path_to
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Requeue, Timing
from kubedsm_lab.emulator.actors.kubelet import ContainerRuntime, Kubelet
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import is_ready
from kubedsm_lab.emulator.api.resources import LEASES, NODES, PODS, Object
from kubedsm_lab.emulator.paper import node

#: label and taint of hollow nodes, with the run's name as value
RUN = "lab.kubedsm.io/run"
#: namespace of the kubelets' Leases, and seconds between two renewals
NODE_LEASES, _HEARTBEAT = "kube-node-lease", 10.0
_TIMING = Timing(start_delay=0.5, stop_delay=0.5)
#: seconds until all nodes of a process are Ready
_READY_WITHIN = 120.0


def build_node(name: str, cpu: str, run: str, tier: Mapping[str, str]) -> Object:
    """Return a hollow Node of the run, with the tier as labels."""
    built = node(name, "", cpu, "16Gi")
    built["metadata"]["labels"] |= {RUN: run, **tier}
    built["spec"] = {"taints": [{"key": RUN, "value": run, "effect": "NoSchedule"}]}
    return built


def on_hollow_nodes(run: str) -> dict[str, Any]:
    """Return the fields of a pod's spec that keep it on the run's hollow nodes."""
    return {"nodeSelector": {RUN: run}, "tolerations": [{"key": RUN, "operator": "Exists"}]}


class HollowNodes(Kubelet):
    """Kubelets of a run's hollow nodes; requests without a response are repeated."""

    def __init__(self, api: WatchedApiServer) -> None:
        super().__init__(Cache(api), ContainerRuntime(), _TIMING)

    def reconcile(self, key: Key) -> None:
        """Reconcile a pod or node; see `Kubelet`."""
        try:
            super().reconcile(key)
        except ApiError as error:
            raise Requeue from error

    async def send_heartbeats(self, names: Iterable[str]) -> None:
        """Renew the Leases of the nodes until cancelled."""
        while True:
            for name in names:
                spec = {"holderIdentity": name, "leaseDurationSeconds": 40}
                spec |= {"renewTime": rfc3339(self.clock.wall())}
                patch = {"spec": spec}
                with suppress(ApiError):
                    if self.api.exists(LEASES, NODE_LEASES, name):
                        self.api.patch(LEASES, NODE_LEASES, name, patch, MERGE)
                    else:
                        lease = {"metadata": {"name": name}, **patch}
                        self.api.create(LEASES, lease, namespace=NODE_LEASES)
            await self.clock.sleep(_HEARTBEAT)


@asynccontextmanager
async def serve_in_process(
    kubeconfig: Path, context: str | None, run: str, number: int, clock: Clock
) -> AsyncIterator[None]:
    """Create hollow nodes, a tenth of them at the edge, for the pods of the namespace `run`, with a
    process as their kubelet; delete them afterwards.

    Raises ClusterError, and TimeoutError if the nodes do not become Ready.
    """
    names = [f"{run}-{'edge' if n < number / 10 else 'cloud'}-{n}" for n in range(number)]
    spawning = multiprocessing.get_context("spawn")
    kubelets = spawning.Process(target=_serve_nodes, args=(kubeconfig, context, run, names))
    async with await KubernetesCluster.connect(kubeconfig, context) as cluster:
        api = Api(cluster)
        kubelets.start()
        try:
            for name in names:
                tier = {"kubedsm.io/tier": "edge" if "-edge-" in name else "cloud"}
                body = build_node(name, "8", run, tier)
                await api.call("POST", f"{CORE}/nodes", body, ignore=())
            async with asyncio.timeout(_READY_WITHIN):
                while not await _are_ready(api, run):
                    await clock.sleep(1.0)
            yield
        finally:
            kubelets.terminate()
            await asyncio.to_thread(kubelets.join)
            await delete_nodes(api, names)


async def delete_nodes(api: Api, names: Iterable[str]) -> None:
    """Delete the nodes and their Leases; raise the first ClusterError after all requests."""
    failures = []
    for name in names:
        for path in (path_to(NODES, "", name), path_to(LEASES, NODE_LEASES, name)):
            try:
                await api.call("DELETE", path)
            except ClusterError as error:
                failures.append(error)
    if failures:
        raise failures[0]


async def _are_ready(api: Api, run: str) -> bool:
    listed = (await api.get(f"{CORE}/nodes"))["items"]
    mine = [each for each in listed if each["metadata"]["labels"].get(RUN) == run]
    return all(map(is_ready, mine))


def _serve_nodes(kubeconfig: Path, context: str | None, run: str, names: list[str]) -> None:
    """Serve as kubelet of the nodes until the process is terminated; its parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_run_kubelets(kubeconfig, context, run, names))


async def _run_kubelets(kubeconfig: Path, context: str | None, run: str, names: list[str]) -> None:
    clock, rng = SystemClock(), random.Random()
    with connect_blocking(kubeconfig, context) as send:
        api = WatchedApiServer(send, clock, rng)
        async with (
            await KubernetesCluster.connect(kubeconfig, context) as cluster,
            asyncio.TaskGroup() as tasks,
        ):
            kubelets = HollowNodes(api)
            await api.watch(tasks, cluster, rng, NODES, labels=f"{RUN}={run}")
            await api.watch(tasks, cluster, rng, PODS, run)
            tasks.create_task(kubelets.run())
            tasks.create_task(kubelets.send_heartbeats(names))

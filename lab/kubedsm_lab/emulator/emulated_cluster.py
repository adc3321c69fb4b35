"""Emulated cluster: assembly of API server, controllers, and the kubelets of its nodes."""

import asyncio
import random
from collections.abc import Iterable
from ipaddress import IPv4Address
from types import TracebackType
from typing import Self

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.actors.cache import Cache
from kubedsm_lab.emulator.actors.controller import Controller, Timing
from kubedsm_lab.emulator.actors.cron_job import CronJobController
from kubedsm_lab.emulator.actors.deployment import DeploymentController
from kubedsm_lab.emulator.actors.disruption import DisruptionController
from kubedsm_lab.emulator.actors.endpoints import EndpointsController
from kubedsm_lab.emulator.actors.garbage_collection import GarbageCollector
from kubedsm_lab.emulator.actors.horizontal_pod_autoscaler import HorizontalPodAutoscalerController
from kubedsm_lab.emulator.actors.housekeeping import (
    EventExpiry,
    NamespaceController,
    ResourceQuotaController,
    ServiceAccountsController,
)
from kubedsm_lab.emulator.actors.job import JobController
from kubedsm_lab.emulator.actors.kubelet import ContainerRuntime, Kubelet
from kubedsm_lab.emulator.actors.node_lifecycle import NodeLifecycleController
from kubedsm_lab.emulator.actors.replica_set import ReplicaSetController
from kubedsm_lab.emulator.actors.scaling_metrics import Metrics, MetricsServer, Usage
from kubedsm_lab.emulator.actors.stateful_set import StatefulSetController
from kubedsm_lab.emulator.actors.volumes import LocalPathProvisioner, VolumeController
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import DISCONNECTED
from kubedsm_lab.emulator.api.resources import NODES, Object
from kubedsm_lab.emulator.http.routes import Routes

__all__ = ["ClusterSpec", "EmulatedCluster", "Timing"]

#: `containerRuntimeVersion` of the nodes
EMULATED_RUNTIME = "kubedsm-emulated://1"

#: base of the addresses of nodes that come without one
_FIRST_ADDRESS = IPv4Address("172.16.0.0")


@attrs.frozen
class ClusterSpec:
    nodes: tuple[Object, ...]
    timing: Timing = attrs.field(factory=Timing)


class EmulatedCluster:
    """Emulated cluster: API server, controllers and kubelets, running while its context is entered.

    Errors of controllers and kubelets leave the context as ExceptionGroup. `metrics` is the custom
    metrics API, `usage` the source of metrics-server; without them autoscalers report that there is
    no such API. `runtime` runs the containers of pods; by default they are only reported as
    running. With a `token` access is enforced: its bearer is the administrator, other users may do
    what bound Roles and ClusterRoles allow. With `default_scheduler` pods that name no other
    scheduler are scheduled, and controllers write Normal Events. With `paced` ReplicaSets create
    pods in slow-start batches and watch events arrive with latencies of a real control plane;
    without, both happen at once.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics | None = None,
        token: str | None = None,
        runtime: ContainerRuntime | None = None,
        usage: Usage | None = None,
        *,
        default_scheduler: bool = False,
        paced: bool = False,
    ) -> None:
        self.api = ApiServer(clock, rng)
        self.access = Access.enforced(self.api, token) if token else Access.open(self.api)
        runtime, timing = runtime or ContainerRuntime(), spec.timing
        pacing = random.Random(rng.getrandbits(64)) if paced else None
        self.routes = Routes(self.api, self.access, runtime.output, pacing)
        self._cache = cache = Cache(self.api, normal_events=default_scheduler)
        server = None if usage is None else MetricsServer(cache, usage)
        #: in the order in which they observe a change
        self._actors: list[Controller] = [
            *([server] if server is not None else []),
            NamespaceController(cache),
            GarbageCollector(cache),
            DeploymentController(cache),
            ReplicaSetController(cache, pacing),
            StatefulSetController(cache),
            CronJobController(cache),
            JobController(cache),
            HorizontalPodAutoscalerController(cache, timing, metrics, server),
            NodeLifecycleController(cache, timing),
            VolumeController(cache),
            LocalPathProvisioner(cache, timing),
            kubelet := Kubelet(cache, runtime, timing),
            DisruptionController(cache),
            EndpointsController(cache),
            ResourceQuotaController(cache),
        ]
        self._kubelet = kubelet
        if self.access.is_enforced:
            self._actors.append(ServiceAccountsController(cache))
        if default_scheduler:
            # Imported on demand: it loads numpy.
            from kubedsm_lab.emulator.actors.default_scheduler import (  # noqa: PLC0415
                DefaultScheduler,
            )

            self._actors.append(DefaultScheduler(cache, random.Random(rng.getrandbits(64))))
            self._actors.append(EventExpiry(cache))
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        for number, node in enumerate(spec.nodes, 1):
            self.api.create(NODES, _build_node(node, number))

    def stop_controllers(self) -> None:
        """Pause all controllers except the kubelets, as if kube-controller-manager had ended."""
        for controller in self._controllers:
            controller.stop()

    def start_controllers(self) -> None:
        for controller in self._controllers:
            controller.resume()

    @property
    def _controllers(self) -> list[Controller]:
        return [actor for actor in self._actors if not isinstance(actor, Kubelet)]

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        for actor in self._actors:
            name = type(actor).__name__
            self._tasks.append(self._group.create_task(actor.run(), name=name))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        if kind is None or issubclass(kind, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, traceback)
        else:
            # The block's own exception leaves unchanged.
            await self._group.__aexit__(None, None, None)
        self._cache.close()

    def disconnect(self, *nodes: str) -> None:
        """Disconnect nodes: their kubelets run on, but neither send nor receive anything."""
        self._annotate(nodes, "true")

    def reconnect(self, *nodes: str) -> None:
        self._annotate(nodes, None)

    def _annotate(self, nodes: Iterable[str], disconnected: str | None) -> None:
        # The same as `kubectl annotate node NAME`.
        patch = {"metadata": {"annotations": {DISCONNECTED: disconnected}}}
        for name in nodes:
            self.api.patch(NODES, "", name, patch, "application/merge-patch+json")

    def serving(self) -> frozenset[str]:
        """Return the uids of pods whose containers serve, on disconnected nodes as well."""
        return self._kubelet.serving()


def _build_node(node: Object, number: int) -> Object:
    """Return a Node as its kubelet registers it: with an address and the emulated runtime."""
    status = node.get("status") or {}
    info = (status.get("nodeInfo") or {}) | {"containerRuntimeVersion": EMULATED_RUNTIME}
    own = {"type": "InternalIP", "address": str(_FIRST_ADDRESS + number)}
    addresses = status.get("addresses") or [own]
    return {**node, "status": {**status, "nodeInfo": info, "addresses": addresses}}

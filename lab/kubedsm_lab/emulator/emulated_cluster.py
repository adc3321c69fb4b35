"""An emulated cluster, assembled: the API server, its controllers, the kubelets of its nodes."""

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
from kubedsm_lab.emulator.actors.cluster_role_aggregation import ClusterRoleAggregationController
from kubedsm_lab.emulator.actors.container_runtime import ContainerRuntime, NoRuntime
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.deployment import DeploymentController
from kubedsm_lab.emulator.actors.disruption import DisruptionController
from kubedsm_lab.emulator.actors.endpoints import EndpointsController
from kubedsm_lab.emulator.actors.garbage_collection import GarbageCollector
from kubedsm_lab.emulator.actors.horizontal_pod_autoscaler import HorizontalPodAutoscalerController
from kubedsm_lab.emulator.actors.job import JobController
from kubedsm_lab.emulator.actors.kubelet import Kubelet
from kubedsm_lab.emulator.actors.metrics_server import MetricsServer, Usage
from kubedsm_lab.emulator.actors.namespace import NamespaceController
from kubedsm_lab.emulator.actors.node_lifecycle import NodeLifecycleController
from kubedsm_lab.emulator.actors.node_state import DISCONNECTED
from kubedsm_lab.emulator.actors.replica_set import ReplicaSetController
from kubedsm_lab.emulator.actors.resource_quota import ResourceQuotaController
from kubedsm_lab.emulator.actors.scaling_metrics import Metrics
from kubedsm_lab.emulator.actors.service_accounts import ServiceAccountsController
from kubedsm_lab.emulator.actors.stateful_set import StatefulSetController
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.pacing import Pacing
from kubedsm_lab.emulator.api.resources import NODES, Object
from kubedsm_lab.emulator.http.routes import Routes

#: `containerRuntimeVersion` of the nodes
EMULATED_RUNTIME = "kubedsm-emulated://1"


@attrs.frozen
class Timing:
    """How long things take, in seconds."""

    #: from a binding to Ready
    start_delay: float = 3.0
    #: for which the pods of a Job run, until they have succeeded
    job_duration: float = 10.0
    #: the most a pod takes to stop; less if its grace period is shorter
    stop_delay: float = 1.0
    hpa_sync: float = 15.0
    #: share of the target by which the average may be off without any scaling; not a time
    hpa_tolerance: float = 0.1
    #: from the deletion of a node to that of the pods on it
    orphan_delay: float = 40.0
    #: for which a node may send nothing until its Ready condition is Unknown
    monitor_grace: float = 40.0


#: of nodes that come without an address
_FIRST_ADDRESS = IPv4Address("172.16.0.0")


@attrs.frozen
class ClusterSpec:
    nodes: tuple[Object, ...]
    timing: Timing = Timing()


class EmulatedCluster:
    """`async with` runs it; what an actor raises comes out of the block as an ExceptionGroup.

    `metrics` answers for the custom and external metrics APIs, `usage` for what metrics-server
    finds; without them autoscalers report that there is no such API. The `runtime` runs the
    containers of pods; without it they are but said to run. With a `token` access is enforced:
    whoever shows it is the administrator, others may do what Roles and ClusterRoles that are bound
    to them allow. With `default_scheduler` pods of no other scheduler are placed, too.
    To track who manages which fields takes a fifth of the time: not for runs in which nobody asks.
    With `paced` ReplicaSets create pods in slow-start batches and watch events arrive late, by
    latencies of a real control plane; without, both happen at once.
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
        tracks_managers: bool = True,
        paced: bool = False,
    ) -> None:
        self.api = ApiServer(clock, rng, tracks_managers=tracks_managers)
        self.access = Access.enforced(self.api, token) if token else Access.open(self.api)
        runtime = runtime or NoRuntime()
        pacing = Pacing(random.Random(rng.getrandbits(64))) if paced else None
        self.routes = Routes(self.api, self.access, runtime.output, pacing)
        self._cache = Cache(self.api)
        self._actors = _actors(
            spec.timing, self.api, self._cache, clock, metrics, runtime, usage, pacing
        )
        if self.access.is_enforced:
            self._actors += (
                ServiceAccountsController(self.api, self._cache, clock),
                ClusterRoleAggregationController(self.api, self._cache, clock),
            )
        if default_scheduler:
            # It takes numpy, which others need not wait for.
            from kubedsm_lab.emulator.actors.default_scheduler import (  # noqa: PLC0415
                DefaultScheduler,
            )

            chance = random.Random(rng.getrandbits(64))
            self._actors += (DefaultScheduler(self.api, self._cache, clock, chance),)
        self._kubelet = next(actor for actor in self._actors if isinstance(actor, Kubelet))
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        for number, node in enumerate(spec.nodes, 1):
            self.api.create(NODES, _registered(node, number), manager=Kubelet.manager)

    def stop_controllers(self) -> None:
        """Have all but the kubelets do nothing, as if kube-controller-manager had ended."""
        for controller in self._controllers:
            controller.stop()

    def start_controllers(self) -> None:
        for controller in self._controllers:
            controller.go_on()

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
            # What the block raised is its own affair, and leaves it as it is.
            await self._group.__aexit__(None, None, None)
        self._cache.close()

    def disconnect(self, *nodes: str) -> None:
        """Cut these nodes off: their kubelets run on, and nothing comes from them or to them."""
        self._annotate(nodes, "true")

    def reconnect(self, *nodes: str) -> None:
        self._annotate(nodes, None)

    def _annotate(self, nodes: Iterable[str], disconnected: str | None) -> None:
        # As anybody can, who may change nodes: kubectl annotate node NAME.
        patch = {"metadata": {"annotations": {DISCONNECTED: disconnected}}}
        for name in nodes:
            self.api.patch(NODES, "", name, patch, "application/merge-patch+json")

    def serving(self) -> frozenset[str]:
        """The uids of the pods that answer where they are, also where they are cut off."""
        return self._kubelet.serving()


def _registered(node: Object, number: int) -> Object:
    """As its kubelet registers it: with an address, and one can see that nothing runs there."""
    status = node.get("status") or {}
    info = (status.get("nodeInfo") or {}) | {"containerRuntimeVersion": EMULATED_RUNTIME}
    own = {"type": "InternalIP", "address": str(_FIRST_ADDRESS + number)}
    addresses = status.get("addresses") or [own]
    return {**node, "status": {**status, "nodeInfo": info, "addresses": addresses}}


def _actors(
    timing: Timing,
    api: ApiServer,
    cache: Cache,
    clock: Clock,
    metrics: Metrics | None,
    runtime: ContainerRuntime,
    usage: Usage | None,
    pacing: Pacing | None,
) -> tuple[Controller, ...]:
    """In the order in which they hear of a change."""
    server = None if usage is None else MetricsServer(api, cache, clock, usage)
    return (
        *((server,) if server is not None else ()),
        NamespaceController(api, cache, clock),
        GarbageCollector(api, cache, clock),
        DeploymentController(api, cache, clock),
        ReplicaSetController(api, cache, clock, pacing),
        StatefulSetController(api, cache, clock),
        JobController(api, cache, clock),
        HorizontalPodAutoscalerController(
            api,
            cache,
            clock,
            metrics=metrics,
            metrics_server=server,
            sync=timing.hpa_sync,
            tolerance=timing.hpa_tolerance,
        ),
        NodeLifecycleController(
            api,
            cache,
            clock,
            orphan_delay=timing.orphan_delay,
            monitor_grace=timing.monitor_grace,
        ),
        Kubelet(
            api,
            cache,
            clock,
            runtime,
            start_delay=timing.start_delay,
            stop_delay=timing.stop_delay,
            job_duration=timing.job_duration,
        ),
        DisruptionController(api, cache, clock),
        EndpointsController(api, cache, clock),
        ResourceQuotaController(api, cache, clock),
    )

"""Check of a soak for leftovers (labels, reservations, processes), after tenants stop and after all
namespaces are deleted.

Leftovers are pending pods, migration labels, plans, reservations and orphaned processes.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

import aiohttp
import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.kube.client.port import ObjectName
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, Api
from kubedsm_lab.bench.processes import Scheduler
from kubedsm_lab.bench.soak.pod_watch import PodWatch
from kubedsm_lab.bench.soak.tenants import ODD_NAMESPACE
from kubedsm_lab.emulator.api.admission import NAMESPACES_AT_START
from kubedsm_lab.emulator.paper import pod_spec

#: Seconds for pending pods and migrations to finish when the tenants stop.
SETTLING = 90.0
_PERMANENT_NAMESPACES = frozenset({*NAMESPACES_AT_START, ObjectName().namespace})
#: Gauges of work in progress, 0 for an idle scheduler.
_IN_PROGRESS = frozenset({
    "kubedsm_plans_in_progress", "kubedsm_migrations_in_progress", "kubedsm_detached_pods",
    "scheduler_pending_pods",
})  # fmt: skip
_POLL_PERIOD = 0.25
_FILLING_NAMESPACE = "room"


@attrs.frozen(slots=True, kw_only=True)
class Leftovers:
    """Leftovers of a soak: pods and Deployments of stopped tenants, then reservations and work in
    progress on an empty cluster.
    """

    waiting: int = 0
    #: pods with a migration label or annotation
    marked: Sequence[str] = ()
    #: Deployments with a wrong number of pods
    replicas: Sequence[str] = ()
    #: nodes whose capacity cannot be allocated completely
    room: Sequence[str] = ()
    #: plans, migrations and pods in progress
    under_way: Sequence[str] = ()
    #: orphaned child processes
    processes: int = 0


@attrs.frozen
class LeftoverCheck:
    """Check for leftovers on a soak's cluster, run after the tenants have stopped creating load."""

    api: Api
    watch: PodWatch
    schedulers: Sequence[Scheduler]
    clock: Clock

    async def find(self) -> Leftovers:
        """Return the leftovers that remain after waiting SETTLING seconds for each category.

        Deletes all namespaces, then fills every node to verify that its capacity is free. Raises
        ClusterError.
        """
        await self._wait_until_empty(self._list_unsettled)
        left = Leftovers(
            waiting=self.watch.waiting,
            marked=await self._list_marked(),
            replicas=await self._list_miscounted(),
        )
        await self._wait_until_empty(self._delete_namespaces)
        await self._fill_nodes()
        return attrs.evolve(
            left,
            room=await self._wait_until_empty(self._list_unbound),
            under_way=await self._wait_until_empty(self._list_in_progress),
        )

    async def _wait_until_empty(
        self, inspect: Callable[[], Awaitable[Collection[str]]]
    ) -> tuple[str, ...]:
        due = self.clock.monotonic() + SETTLING
        while (found := await inspect()) and self.clock.monotonic() < due:
            await self.clock.sleep(_POLL_PERIOD)
        return tuple(found)

    async def _list_unsettled(self) -> Collection[str]:
        if self.watch.waiting:
            return ("pods wait",)
        return await self._list_marked() or await self._list_miscounted()

    async def _list_marked(self) -> tuple[str, ...]:
        return tuple(
            _qualified_name(pod)
            for pod in await self.api.list_pods()
            if _is_marked(pod) and pod["metadata"]["namespace"] != ODD_NAMESPACE
        )

    async def _list_miscounted(self) -> tuple[str, ...]:
        pods = [pod["metadata"] for pod in await self.api.list_pods()]
        deployments = (await self.api.get(f"{APPS}/deployments"))["items"]
        return tuple(_compare_replicas(deployments, pods))

    async def _delete_namespaces(self) -> Collection[str]:
        """Delete all namespaces that the soak created; return the names of the pods that remain."""
        for found in (await self.api.get(f"{CORE}/namespaces"))["items"]:
            if found["metadata"]["name"] not in _PERMANENT_NAMESPACES:
                await self.api.delete_namespace(found["metadata"]["name"])
        return [_qualified_name(pod) for pod in await self.api.list_pods()]

    async def _fill_nodes(self) -> None:
        """Create one pod per node that requests all allocatable CPU and memory."""
        await self.api.create_namespace(_FILLING_NAMESPACE)
        for node in (await self.api.get(f"{CORE}/nodes"))["items"]:
            name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
            requests = {each: allocatable[each] for each in ("cpu", "memory")}
            spec = pod_spec(requests, nodeSelector={"kubernetes.io/hostname": name})
            body = {"metadata": {"name": name}, "spec": spec}
            await self.api.create(_FILLING_NAMESPACE, "pods", body)

    async def _list_unbound(self) -> Collection[str]:
        """Return the capacity-filling pods (one per node) that are still pending, as capacity is
        not free.
        """
        return [
            pod["metadata"]["name"]
            for pod in await self.api.list_pods()
            if not pod["spec"].get("nodeName")
        ]

    async def _list_in_progress(self) -> Collection[str]:
        found = list[str]()
        for scheduler in self.schedulers:
            try:
                found += nonzero_gauges(await scheduler.read_metrics())
            except aiohttp.ClientError as error:
                found.append(f"no metrics: {error}")
        return found


def nonzero_gauges(metrics: str) -> Iterator[str]:
    """Yield the nonzero gauges of work in progress (such as queued pods) from metrics in
    Prometheus' text format.
    """
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in _IN_PROGRESS and sample.value:
                yield f"{sample.name} {sample.value:g}"


def _compare_replicas(deployments: Sequence[Any], pods: Sequence[Any]) -> Iterator[str]:
    for each in deployments:
        metadata, replicas = each["metadata"], each["spec"]["replicas"]
        if metadata["namespace"] == ODD_NAMESPACE:
            continue
        counted = sum(
            pod["namespace"] == metadata["namespace"]
            and pod["labels"].get("app") == metadata["name"]
            for pod in pods
        )
        if counted != replicas:
            yield f"{metadata['namespace']}/{metadata['name']}: {counted} pods, not {replicas}"


def _qualified_name(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _is_marked(pod: Any) -> bool:
    metadata = pod["metadata"]
    return MIGRATING_LABEL in (metadata.get("labels") or {}) or MOVE_ANNOTATION in (
        metadata.get("annotations") or {}
    )

"""What is left when the tenants rest, and when they are gone: nothing should be."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

import aiohttp
import attrs
from prometheus_client.parser import text_string_to_metric_families

from kubedsm.kube.calls.leases import LeaseName
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION
from kubedsm.model.model import MIGRATING_LABEL
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.api import APPS, CORE, Api, pod_spec
from kubedsm_lab.bench.soak.pod_watch import PodWatch
from kubedsm_lab.bench.soak.processes import Scheduler
from kubedsm_lab.bench.soak.tenants import ODD_NAMESPACE
from kubedsm_lab.bench.soak.verdict import Left
from kubedsm_lab.emulator.api.admission import NAMESPACES_AT_START

#: seconds that the scheduler has for what is left when the tenants rest, moves included
SETTLING = 90.0
#: that are there from the start
_KEPT = frozenset({*NAMESPACES_AT_START, LeaseName().namespace})
#: gauges that are 0 when a scheduler is at nothing
_UNDER_WAY = frozenset({
    "kubedsm_plans_in_progress", "kubedsm_migrations_in_progress", "kubedsm_detached_pods",
    "scheduler_pending_pods",
})  # fmt: skip
#: seconds between two looks
_BETWEEN = 0.25
_ROOM = "room"


@attrs.frozen
class Leavings:
    """Looks at a cluster in which nobody makes work any more."""

    api: Api
    watch: PodWatch
    schedulers: Sequence[Scheduler]
    clock: Clock

    async def found(self) -> Left:
        """What is left after SETTLING seconds, of what is to be over much sooner.

        Deletes all namespaces in between, and asks for all the room there is then. Raises
        ClusterError.
        """
        await self._in_time(self._unsettled)
        left = Left(
            waiting=self.watch.waiting,
            marked=await self._marked(),
            replicas=await self._miscounted(),
        )
        await self._in_time(self._namespaces_left)
        await self._ask_for_all_room()
        return attrs.evolve(
            left,
            room=await self._in_time(self._unbound),
            under_way=await self._in_time(self._under_way),
        )

    async def _in_time(self, look: Callable[[], Awaitable[Collection[str]]]) -> tuple[str, ...]:
        due = self.clock.monotonic() + SETTLING
        while (seen := await look()) and self.clock.monotonic() < due:
            await self.clock.sleep(_BETWEEN)
        return tuple(seen)

    async def _unsettled(self) -> Collection[str]:
        if self.watch.waiting:
            return ("pods wait",)
        return await self._marked() or await self._miscounted()

    async def _marked(self) -> tuple[str, ...]:
        return tuple(
            _name(pod)
            for pod in await self.api.pods()
            if _is_marked(pod) and pod["metadata"]["namespace"] != ODD_NAMESPACE
        )

    async def _miscounted(self) -> tuple[str, ...]:
        """Deployments with more or fewer pods than they ask for."""
        pods = [pod["metadata"] for pod in await self.api.pods()]
        found = (await self.api.get(f"{APPS}/deployments"))["items"]
        return tuple(_miscounted(found, pods))

    async def _namespaces_left(self) -> Collection[str]:
        """Delete what there is. Returns pods that are still there."""
        for found in (await self.api.get(f"{CORE}/namespaces"))["items"]:
            if found["metadata"]["name"] not in _KEPT:
                await self.api.delete_namespace(found["metadata"]["name"])
        return [_name(pod) for pod in await self.api.pods()]

    async def _ask_for_all_room(self) -> None:
        await self.api.create_namespace(_ROOM)
        for node in (await self.api.get(f"{CORE}/nodes"))["items"]:
            name, allocatable = node["metadata"]["name"], node["status"]["allocatable"]
            requests = {each: allocatable[each] for each in ("cpu", "memory")}
            spec = pod_spec(requests, nodeSelector={"kubernetes.io/hostname": name})
            await self.api.create(_ROOM, "pods", {"metadata": {"name": name}, "spec": spec})

    async def _unbound(self) -> Collection[str]:
        """Nodes, all of whose room a pod waits for."""
        return [
            pod["metadata"]["name"]
            for pod in await self.api.pods()
            if not pod["spec"].get("nodeName")
        ]

    async def _under_way(self) -> Collection[str]:
        """What schedulers say that they are at."""
        said = list[str]()
        async with aiohttp.ClientSession() as session:
            for scheduler in self.schedulers:
                url = f"{scheduler.log.metrics}/metrics"
                try:
                    async with session.get(url, raise_for_status=True) as response:
                        said += not_zero(await response.text())
                except aiohttp.ClientError as error:
                    said.append(f"no metrics: {error}")
        return said


def not_zero(metrics: str) -> Iterator[str]:
    """What a scheduler is at, by its metrics in Prometheus' format."""
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in _UNDER_WAY and sample.value:
                yield f"{sample.name} {sample.value:g}"


def _miscounted(deployments: Sequence[Any], pods: Sequence[Any]) -> Iterator[str]:
    for each in deployments:
        metadata, asked = each["metadata"], each["spec"]["replicas"]
        if metadata["namespace"] == ODD_NAMESPACE:
            continue
        counted = sum(
            pod["namespace"] == metadata["namespace"]
            and pod["labels"].get("app") == metadata["name"]
            for pod in pods
        )
        if counted != asked:
            yield f"{metadata['namespace']}/{metadata['name']}: {counted} pods, not {asked}"


def _name(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _is_marked(pod: Any) -> bool:
    metadata = pod["metadata"]
    return MIGRATING_LABEL in (metadata.get("labels") or {}) or MOVE_ANNOTATION in (
        metadata.get("annotations") or {}
    )

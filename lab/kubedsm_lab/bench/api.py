"""Kubernetes API requests that create load for a scheduler, and watches of the result."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import orjson

from kubedsm.kube.client.api_errors import send
from kubedsm.kube.client.port import ApiStatusError, Cluster, Forbidden
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import Watched
from kubedsm.model.events import ClusterEvent
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.paper import pod_spec, workload

#: Expected refusals: a terminating or absent namespace, an existing name.
EXPECTED_REFUSALS = frozenset({403, 404, 409})
TIMEOUT = 30.0
MERGE = "application/merge-patch+json"

CORE, APPS, POLICY = "/api/v1", "/apis/apps/v1", "/apis/policy/v1"
SMALL_REQUESTS = {"cpu": "100m", "memory": "64Mi"}


@attrs.frozen
class Api:
    """Client of the Kubernetes API for benchmarks: creates, patches, binds and deletes objects.

    Expected refusals (such as 409 Conflict) are ignored; other errors raise ClusterError.
    """

    cluster: Cluster

    async def call(
        self, method: str, path: str, body: Any = None, ignore: Iterable[int] = EXPECTED_REFUSALS
    ) -> Any:
        """Send one API request and return the decoded body; None for a status code in `ignore`."""
        content_type = MERGE if method == "PATCH" else "application/json"
        try:
            answer = await send(
                self.cluster, method, path, body, content_type=content_type, timeout=TIMEOUT
            )
        except ApiStatusError as error:
            is_right_missing = isinstance(error, Forbidden) and not error.namespace_terminating
            if error.status not in ignore or is_right_missing:
                raise
            return None
        return orjson.loads(answer)

    async def get(self, path: str) -> Any:
        """Return the API object at a path; None if absent."""
        return await self.call("GET", path, ignore=(404,))

    async def create_namespace(self, name: str) -> None:
        await self.call("POST", f"{CORE}/namespaces", {"metadata": {"name": name}})

    async def delete_namespace(self, name: str) -> None:
        await self.call("DELETE", f"{CORE}/namespaces/{name}")

    async def create(self, namespace: str, plural: str, body: Any, group: str = CORE) -> bool:
        """Create the object by POST; return False if an object with this name exists already."""
        path = f"{group}/namespaces/{namespace}/{plural}"
        return await self.call("POST", path, body) is not None

    async def delete(self, namespace: str, plural: str, name: str, group: str = CORE) -> None:
        await self.call("DELETE", f"{group}/namespaces/{namespace}/{plural}/{name}")

    async def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        path = f"{APPS}/namespaces/{namespace}/deployments/{deployment}"
        await self.call("PATCH", path, {"spec": {"replicas": replicas}})

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node},
        }
        await self.call("POST", f"{CORE}/namespaces/{namespace}/pods/{name}/binding", body, ())

    async def list_pods(self, namespace: str = "") -> list[dict[str, Any]]:
        """Return the pods of the namespace, or of all namespaces."""
        where = f"/namespaces/{namespace}" if namespace else ""
        listed = await self.call("GET", f"{CORE}{where}/pods", ignore=())
        items: list[dict[str, Any]] = listed["items"]
        return items


@asynccontextmanager
async def follow_cluster(
    cluster: Cluster,
    clock: Clock,
    handle: Callable[[ClusterEvent], None],
    *kinds: Watched[Any, ClusterEvent],
    patience: float | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[None]:
    """Call `handle` with the existing objects of the given kinds, then during the block with their
    changes. Raises TimeoutError if a list takes longer than `patience` seconds; None is no limit.
    """
    async with asyncio.TaskGroup() as tasks:
        watching = []
        for watched in kinds:
            synced, rng = asyncio.Event(), random.Random()
            reflector = Reflector(cluster, watched, clock, rng, handle, synced.set, report)
            watching.append(tasks.create_task(reflector.run()))
            async with asyncio.timeout(patience):
                await synced.wait()
        yield
        for task in watching:
            task.cancel()


def deployment(
    name: str,
    replicas: int,
    spec: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Deployment manifest with `replicas` pods; small pods unless `spec` is given."""
    return workload(name, replicas, spec or pod_spec(SMALL_REQUESTS), labels=labels)

"""The few requests by which a bench makes work for a scheduler."""

from collections.abc import Iterable
from typing import Any

import attrs
import orjson

from kubedsm.kube.client.port import Cluster, Request, api_error

HTTP_ERROR = 400
#: refusals that are part of life: a namespace that is going, or gone, a name that is taken
PASSING = frozenset({403, 404, 409})
TIMEOUT = 30.0
MERGE = "application/merge-patch+json"

CORE, APPS, POLICY = "/api/v1", "/apis/apps/v1", "/apis/policy/v1"


@attrs.frozen
class Api:
    """Creates, changes and deletes; what is refused in passing is left as it is.

    All of them raise ClusterError for anything else.
    """

    cluster: Cluster

    async def call(
        self, method: str, path: str, body: Any = None, passing: Iterable[int] = PASSING
    ) -> Any:
        """What was answered; None if it was refused with one of those codes."""
        content_type = MERGE if method == "PATCH" else "application/json"
        request = Request(method, path, body=body, content_type=content_type)
        response = await self.cluster.request(request, timeout=TIMEOUT)
        if response.status in passing:
            return None
        if response.status >= HTTP_ERROR:
            raise api_error(response.status, response.body)
        return orjson.loads(response.body)

    async def get(self, path: str) -> Any:
        """None if there is no such thing."""
        return await self.call("GET", path, passing=(404,))

    async def create_namespace(self, name: str) -> None:
        await self.call("POST", f"{CORE}/namespaces", {"metadata": {"name": name}})

    async def delete_namespace(self, name: str) -> None:
        await self.call("DELETE", f"{CORE}/namespaces/{name}")

    async def create(self, namespace: str, plural: str, body: Any, group: str = CORE) -> bool:
        """Whether it was created."""
        path = f"{group}/namespaces/{namespace}/{plural}"
        return await self.call("POST", path, body) is not None

    async def delete(self, namespace: str, plural: str, name: str, group: str = CORE) -> None:
        await self.call("DELETE", f"{group}/namespaces/{namespace}/{plural}/{name}")

    async def scale(self, namespace: str, deployment: str, replicas: int) -> None:
        path = f"{APPS}/namespaces/{namespace}/deployments/{deployment}"
        await self.call("PATCH", path, {"spec": {"replicas": replicas}})

    async def pods(self) -> list[dict[str, Any]]:
        """Every pod of the cluster, as it is now."""
        listed = await self.call("GET", f"{CORE}/pods", passing=())
        items: list[dict[str, Any]] = listed["items"]
        return items


def pod_spec(requests: dict[str, str], **more: Any) -> dict[str, Any]:
    """Of one container, for our scheduler, gone as soon as it is deleted."""
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    return {
        "schedulerName": "kubedsm",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **more,
    }


def deployment(
    name: str, replicas: int, spec: dict[str, Any], labels: dict[str, str] | None = None
) -> dict[str, Any]:
    labels = {"app": name, **(labels or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }

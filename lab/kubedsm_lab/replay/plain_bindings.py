"""Cluster connection that binds and preempts as other schedulers do: no pod deletion cost, victims
deleted instead of evicted.

Other schedulers respect PodDisruptionBudgets only in the choice of preemption victims, and delete
victims regardless of the budgets.
"""

import attrs

from kubedsm.kube.client.port import ClusterFront, Request, Response
from kubedsm.model.model import DELETION_COST_ANNOTATION


class PlainBindings(ClusterFront):
    """`Cluster` wrapper that binds without deletion cost, and deletes instead of evicting."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a request, rewritten as another scheduler sends it (`Cluster.request`)."""
        return await self.cluster.request(_rewrite_request(request), timeout=timeout)


def _rewrite_request(request: Request) -> Request:
    if request.path.endswith("/eviction"):
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **request.body["deleteOptions"]}
        pod = request.path.removesuffix("/eviction")
        return attrs.evolve(request, method="DELETE", path=pod, body=options)
    return _without_deletion_cost(request) if request.path.endswith("/binding") else request


def _without_deletion_cost(request: Request) -> Request:
    metadata = request.body["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(DELETION_COST_ANNOTATION, None)
    body = {**request.body, "metadata": {**metadata, "annotations": annotations}}
    return attrs.evolve(request, body=body)

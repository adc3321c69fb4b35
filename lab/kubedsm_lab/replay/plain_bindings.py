"""Writes as other schedulers make them.

Binds come without our word on which pods a scale-down takes first, and victims of preemption are
deleted, whatever their budgets say: those count when victims are chosen, not when they have been.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import attrs

from kubedsm.kube.client.port import Cluster, Request, Response
from kubedsm.model.model import DELETION_COST_ANNOTATION


@attrs.frozen
class PlainBindings:
    """A `Cluster` without the deletion cost in a Binding, and with a deletion for an eviction."""

    cluster: Cluster

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As `Cluster.request`."""
        return await self.cluster.request(_theirs(request), timeout=timeout)

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As `Cluster.stream`."""
        return self.cluster.stream(request, timeout=timeout)


def _theirs(request: Request) -> Request:
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

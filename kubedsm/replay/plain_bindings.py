"""Binds as other schedulers make them: without our word on which pods a scale-down takes first."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import attrs

from kubedsm.cluster.client.port import Cluster, Request, Response
from kubedsm.core.world.model import DELETION_COST_ANNOTATION


@attrs.frozen
class PlainBindings:
    """A `Cluster` that takes the pods' deletion cost out of every Binding."""

    cluster: Cluster

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As `Cluster.request`."""
        return await self.cluster.request(_without_deletion_cost(request), timeout=timeout)

    def stream(
        self, request: Request, *, timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As `Cluster.stream`."""
        return self.cluster.stream(request, timeout=timeout)


def _without_deletion_cost(request: Request) -> Request:
    if not request.path.endswith("/binding"):
        return request
    metadata = request.body["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(DELETION_COST_ANNOTATION, None)
    body = {**request.body, "metadata": {**metadata, "annotations": annotations}}
    return attrs.evolve(request, body=body)

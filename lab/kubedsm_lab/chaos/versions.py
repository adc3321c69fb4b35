"""A newer version of the scheduler, emulated by its wire format: a configuration key that this
version does not know, and migration annotations with other fields.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from kubedsm.kube.client.port import ClusterFront, Request, Response
from kubedsm.kube.wire.annotations import MOVE_ANNOTATION

#: key of a configuration section that only the newer version knows
NEW_KEY = "future"
#: document with the new key, and the key in the JSON of the ConfigMap, whose text is a JSON string
NEW_DOCUMENT = {NEW_KEY: 1}
_IN_TEXT, _IN_JSON = f', "{NEW_KEY}": 1', f', \\"{NEW_KEY}\\": 1'.encode()
#: fields of the migration annotation that the newer version does not write
_OMITTED = ("plan", "since", "target")


def known_to_newer(text: str) -> str:
    """Return a configuration document without the key that only the newer version knows."""
    return text.replace(_IN_TEXT, "")


class NewerVersion(ClusterFront):
    """Cluster connection of a scheduler of the newer version."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        response = await self.cluster.request(_write_newer(request), timeout=timeout)
        return attrs.evolve(response, body=response.body.replace(_IN_JSON, b""))

    @asynccontextmanager
    async def stream(
        self, request: Request, *, timeout: float
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        async with self.cluster.stream(request, timeout=timeout) as lines:
            yield (line.replace(_IN_JSON, b"") async for line in lines)


def _write_newer(request: Request) -> Request:
    """Return the request with the migration annotation as the newer version writes it."""
    body: Any = request.body if isinstance(request.body, dict) else {}
    annotations = body.get("metadata", {}).get("annotations") or {}
    if not annotations.get(MOVE_ANNOTATION):
        return request
    mark = json.loads(annotations[MOVE_ANNOTATION])
    newer = {key: value for key, value in mark.items() if key not in _OMITTED} | {NEW_KEY: [1]}
    annotations = annotations | {MOVE_ANNOTATION: json.dumps(newer), f"kubedsm.io/{NEW_KEY}": "1"}
    metadata = body["metadata"] | {"annotations": annotations}
    return attrs.evolve(request, body=body | {"metadata": metadata})

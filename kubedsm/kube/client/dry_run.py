"""API client for a dry run: writes are logged, and pretended to succeed.

Like kubectl's `--dry-run=client`: no write reaches the API server, and none has consequences.
"""

import re
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from kubedsm.kube.client.port import EVENTS, ClusterFront, Request, Response
from kubedsm.kube.client.write_gate import READS

log = structlog.get_logger()

_BINDING = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/binding")
#: name of pretended objects
_NOWHERE = "not-written"


class DryRun(ClusterFront):
    """API client wrapper that simulates writes, and sends reads unchanged."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send a read to the API server, or simulate a successful write; see `Cluster.request`."""
        if request.method in READS:
            return await self.cluster.request(request, timeout=timeout)
        _log_write(request)
        given: dict[str, Any] = request.body or {}
        made = {**given, "metadata": {**given.get("metadata", {}), "name": _NOWHERE}}
        status = HTTPStatus.CREATED if request.method == "POST" else HTTPStatus.OK
        return Response(status, msgspec.json.encode(made))


def _log_write(request: Request) -> None:
    bound = _BINDING.fullmatch(request.path)
    if bound is not None:
        pod, node = "/".join(bound.groups()), request.body["target"]["name"]
        log.info("would bind, and does not: dry run", pod=pod, node=node)
    elif request.method == "POST" and request.path.startswith(EVENTS):
        event = request.body
        about = f"{event['regarding']['namespace']}/{event['regarding']['name']}"
        told = {"about": about, "reason": event["reason"], "note": event["note"]}
        log.info("would write an Event, and does not: dry run", **told)
    else:
        log.debug("would write, and does not: dry run", method=request.method, path=request.path)

"""Fake `Cluster` that gives the same response to every request."""

import json

import orjson

from kubedsm.kube.client.port import Response
from kubedsm.kube.wire import decoding

POD = decoding.pod(
    {"metadata": {"name": "cart-1", "namespace": "shop", "uid": "u1"}, "spec": {"containers": []}}
)


def refusal(code, message="no"):
    """Return an API server's error response: a Status without reason."""
    return Response(code, orjson.dumps({"kind": "Status", "code": code, "message": message}))


class AnsweringCluster:
    """Fake `Cluster` with one response, which records the requests."""

    def __init__(self, answer, status=200):
        self.answer = answer
        self.status = status
        self.asked = []
        self.timeouts = []

    async def request(self, request, *, timeout):
        self.asked.append(request)
        self.timeouts.append(timeout)
        if isinstance(self.answer, Exception):
            raise self.answer
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return Response(self.status, body)

    def stream(self, request, *, timeout):
        raise NotImplementedError

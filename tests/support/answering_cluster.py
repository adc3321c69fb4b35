"""Fake `Cluster` without an API server."""

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
    """Fake `Cluster` with one response, or a function of requests, which records the requests.

    A response may be an exception, a body, or the JSON of one.
    """

    def __init__(self, answer=b"{}", status=200):
        self.answer = answer
        self.status = status
        self.asked = []
        self.timeouts = []

    async def request(self, request, *, timeout):
        self.asked.append(request)
        self.timeouts.append(timeout)
        answer = self.answer(request) if callable(self.answer) else self.answer
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Response(self.status, body)

    def stream(self, request, *, timeout):
        raise NotImplementedError

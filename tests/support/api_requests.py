"""HTTP requests to the emulated API server's routes, and their responses."""

from collections.abc import Mapping
from typing import Any

import orjson

from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse, Routes, WatchStream

PODS_PATH = "/api/v1/namespaces/default/pods"
JSON = "application/json"


def asked(
    routes: Routes,
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    content_type: str = JSON,
    accept: str = JSON,
    token: str | None = None,
) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    answer = routes.handle(ApiRequest(method, path, query or {}, content_type, accept, data, token))
    assert isinstance(answer, ApiResponse)
    is_json = answer.content_type == JSON
    return answer.status, orjson.loads(answer.body) if is_json else answer.body.decode()


def watching(routes: Routes, path: str = PODS_PATH, **query: str) -> WatchStream:
    answer = routes.handle(ApiRequest("GET", path, {"watch": "1", **query}))
    assert isinstance(answer, WatchStream)
    return answer

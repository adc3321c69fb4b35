"""HTTP requests to the emulated API server's routes, and their responses."""

import orjson

from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse, WatchStream

PODS_PATH = "/api/v1/namespaces/default/pods"
JSON = "application/json"


def asked(
    routes,
    method,
    path,
    body=None,
    *,
    query=None,
    content_type=JSON,
    accept=JSON,
    token=None,
):
    data = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    answer = routes.handle(ApiRequest(method, path, query or {}, content_type, accept, data, token))
    assert isinstance(answer, ApiResponse)
    is_json = answer.content_type == JSON
    return answer.status, orjson.loads(answer.body) if is_json else answer.body.decode()


def watching(routes, path=PODS_PATH, **query):
    answer = routes.handle(ApiRequest("GET", path, {"watch": "1", **query}))
    assert isinstance(answer, WatchStream)
    return answer

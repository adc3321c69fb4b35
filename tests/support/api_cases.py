"""Objects for tests of the emulated API server, requests, and expected errors."""

import random

import orjson
import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.patching import STRATEGIC_MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NAMESPACES, PODS
from kubedsm_lab.emulator.http.routes import ApiRequest, ApiResponse, WatchStream

MERGE = "application/merge-patch+json"
NS = "default"
PODS_PATH = "/api/v1/namespaces/default/pods"
JSON = "application/json"


class ApiObjects:
    """Objects of the API server `api`, in the namespace `default` unless another is given."""

    def create(self, resource, name, namespace=NS, *, labels=None, **fields):
        """Create an object with a name and the given fields."""
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        namespace = namespace if resource.namespaced else ""
        return self.api.create(resource, {"metadata": metadata, **fields}, namespace=namespace)

    def get(self, resource, name, namespace=NS):
        return self.api.get(resource, namespace if resource.namespaced else "", name)

    def patch(self, resource, name, patch, namespace=NS, **subresource):
        """Merge a patch into an object."""
        namespace = namespace if resource.namespaced else ""
        return self.api.patch(resource, namespace, name, patch, MERGE, **subresource)

    def scale(self, name, replicas):
        self.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}})

    def pods(self, app=None):
        return self.api.list(PODS, NS, labels=f"app={app}" if app else "")


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


def api_server(clock):
    """Return an emulated API server with a namespace `shop`."""
    server = ApiServer(clock, random.Random(0))
    server.create(NAMESPACES, {"metadata": {"name": "shop"}})
    return server


def pod(name="a", *, metadata=None, **spec):
    container = {"name": "c", "image": "x:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def deployment(**spec):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template, **spec},
    }


def budget(name="web", **status):
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def refused(status, action):
    with pytest.raises(ApiError) as caught:
        action()
    assert caught.value.status == status, caught.value
    return caught.value


def bind(api, name="a", node="n2", **metadata):
    return api.bind(
        "shop", name, {"metadata": {"name": name, **metadata}, "target": {"name": node}}
    )


def run(api, name="a", *, ready=True):
    """Bind a pod and set its status to Running, as a kubelet does."""
    bind(api, name)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    running = {"status": {"phase": "Running", "conditions": conditions}}
    return api.patch(PODS, "shop", name, running, STRATEGIC_MERGE_PATCH, subresource="status")


def changes(api):
    seen = []
    api.store.subscribe(seen.append)
    return seen

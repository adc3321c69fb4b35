"""Objects for tests of the emulated API server, and expected errors."""

import random

import pytest

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.patching import STRATEGIC_MERGE_PATCH
from kubedsm_lab.emulator.api.resources import NAMESPACES, PODS


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

"""Client of an administrator for end-to-end tests on any cluster, real or emulated."""

import asyncio
import json
import time
import uuid
from pathlib import Path

import kubernetes_asyncio
import requests
import yaml

from kubedsm_lab.bench.watched_api import path_to
from kubedsm_lab.emulator.api.object_state import is_ready, is_terminating
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.http.server import kubeconfig
from kubedsm_lab.emulator.paper import pod_spec, workload
from support.processes import PATIENCE

SCHEDULER = "kubedsm-e2e"
TIER = "e2e.kubedsm.io/tier"
MERGE = "application/merge-patch+json"
#: by kind; Events by their newer group
RESOURCES = {resource.kind: resource for resource in SERVED}


class Administrator:
    """Client of the API server with the rights of a kubeconfig, in a namespace for the tests."""

    def __init__(self, kubeconfig, context, folder, namespace, image):
        configuration = kubernetes_asyncio.client.Configuration()
        asyncio.run(
            kubernetes_asyncio.config.load_kube_config(
                str(kubeconfig), context, configuration, persist_config=False
            )
        )
        self.url, self.namespace, self.image = configuration.host, namespace, image
        self.folder, self.ca = folder, configuration.ssl_ca_cert
        self.session = requests.Session()
        # not the session's: an environment's REQUESTS_CA_BUNDLE would come before it
        self.verify = self.ca or configuration.verify_ssl
        if configuration.cert_file:
            self.session.cert = (configuration.cert_file, configuration.key_file)
        for header in configuration.api_key.values():
            self.session.headers["Authorization"] = header

    def request(self, method, path, body=None, content_type="application/json", token=None):
        headers = {"Content-Type": content_type}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body)
        return self.session.request(
            method, self.url + path, data=data, headers=headers, timeout=30, verify=self.verify
        )

    def call(self, method, path, body=None, content_type="application/json"):
        response = self.request(method, path, body, content_type)
        assert response.ok, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    def path(self, kind, name=""):
        name, _, subresource = name.partition("/")
        return path_to(RESOURCES[kind], self.namespace, name, subresource)

    def create(self, kind, given):
        return self.call("POST", self.path(kind), given)

    def patch(self, kind, name, change):
        return self.call("PATCH", self.path(kind, name), change, MERGE)

    def delete(self, kind, name):
        response = self.request(
            "DELETE", self.path(kind, name), {"propagationPolicy": "Background"}
        )
        assert response.ok or response.status_code == 404, response.text

    def get(self, kind, name):
        return self.call("GET", self.path(kind, name))

    def list(self, kind):
        return self.call("GET", self.path(kind))["items"]

    def until(self, condition, aim):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain until {aim}"
            time.sleep(0.1)

    def configure(self, services, **migration):
        document = {
            "schedulerName": SCHEDULER,
            "tiers": {"label": [TIER]},
            "suggester": {"period": "1s"},
            "migration": {"price": "5s", "drainDelay": "1s", **migration},
            "services": {"*": {"qos": 0}, **services},
        }
        given = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": yaml.dump(document)}}
        if self.request("GET", self.path("ConfigMap", "kubedsm")).ok:
            self.patch("ConfigMap", "kubedsm", given)
        else:
            self.create("ConfigMap", given)

    def key(self, workload):
        return f"{self.namespace}/{workload}"

    def label(self, node, tier):
        self.patch("Node", node, {"metadata": {"labels": {TIER: tier}}})

    def deploy(self, name, replicas):
        spec = pod_spec({"cpu": "10m", "memory": "16Mi"}, schedulerName=SCHEDULER)
        spec["terminationGracePeriodSeconds"] = 1
        spec["containers"][0]["image"] = self.image
        self.create("Deployment", workload(name, replicas, spec))
        self.until(
            lambda: len(self.ready(name)) == replicas, f"{replicas} pods of {name} are Ready"
        )

    def ready(self, app):
        """Nodes of the Ready pods with this label, also of those that are being migrated."""
        return [
            pod["spec"]["nodeName"]
            for pod in self.list("Pod")
            if pod["metadata"].get("labels", {}).get("app") == app
            and not is_terminating(pod)
            and is_ready(pod)
        ]

    def reasons(self):
        return {event["reason"] for event in self.list("Event")}

    def token(self):
        self.until(
            lambda: self.request("GET", self.path("ServiceAccount", "kubedsm")).ok,
            "the ServiceAccount exists",
        )
        wanted = {"spec": {"expirationSeconds": 3600}}
        return self.call("POST", self.path("ServiceAccount", "kubedsm/token"), wanted)["status"][
            "token"
        ]

    def kubeconfig_for(self, token):
        """Write the kubeconfig of an account that has this token."""
        path = self.folder / f"kubeconfig-{uuid.uuid4()}"
        ca = Path(self.ca).read_bytes() if self.ca else None
        path.write_text(json.dumps(kubeconfig(self.url, token, ca)))
        path.chmod(0o600)
        return path

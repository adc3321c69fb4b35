"""Client of an administrator for end-to-end tests on any cluster, real or emulated."""

import json
import uuid

import yaml

from kubedsm.kube.client.port import Request
from kubedsm_lab.bench.watched_api import path_to
from kubedsm_lab.emulator.api.object_state import is_ready, is_terminating
from kubedsm_lab.emulator.api.resources import SERVED
from kubedsm_lab.emulator.paper import pod_spec, workload
from support.processes import wait_until

SCHEDULER = "kubedsm-e2e"
TIER = "e2e.kubedsm.io/tier"
MERGE = "application/merge-patch+json"
#: by kind; Events by their newer group
RESOURCES = {resource.kind: resource for resource in SERVED}


class Administrator:
    """Client of the API server with the rights of a kubeconfig, in a namespace for the tests."""

    def __init__(self, send, kubeconfig, context, folder, namespace, image):
        self.send, self.context = send, context
        self.kubeconfig = yaml.safe_load(kubeconfig.read_text())
        self.folder, self.namespace, self.image = folder, namespace, image

    def call(self, method, path, body=None, content_type="application/json", *, absent=None):
        """Return the response; if there is no such object or kind, what is `absent`."""
        response = self.send(Request(method, path, {}, body, content_type))
        if response.status == 404 and absent is not None:
            return absent
        assert response.status < 400, f"{method} {path}: {response.status} {response.body}"
        return json.loads(response.body)

    def path(self, kind, name=""):
        name, _, subresource = name.partition("/")
        return path_to(RESOURCES[kind], self.namespace, name, subresource)

    def create(self, kind, given, name=""):
        return self.call("POST", self.path(kind, name), given)

    def patch(self, kind, name, change):
        return self.call("PATCH", self.path(kind, name), change, MERGE)

    def delete(self, kind, name):
        how = {"propagationPolicy": "Background"}
        self.call("DELETE", self.path(kind, name), how, absent={})

    def get(self, kind, name=""):
        return self.call("GET", self.path(kind, name))

    def exists(self, kind, name=""):
        """Return whether an object exists; without a name, whether the kind is served."""
        return bool(self.call("GET", self.path(kind, name), absent={}))

    def list(self, kind):
        return self.get(kind)["items"]

    until = staticmethod(wait_until)

    def configure(self, services, **migration):
        document = {
            "schedulerName": SCHEDULER,
            "tiers": {"label": [TIER]},
            "suggester": {"period": "1s"},
            "migration": {"price": "5s", "drainDelay": "1s", **migration},
            "services": {"*": {"qos": 0}, **services},
        }
        given = {"metadata": {"name": "kubedsm"}, "data": {"config.yaml": yaml.dump(document)}}
        if self.exists("ConfigMap", "kubedsm"):
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

    def kubeconfig_for(self, account="kubedsm"):
        """Write the kubeconfig of a ServiceAccount of the tests, once the account exists."""
        self.until(lambda: self.exists("ServiceAccount", account), "the ServiceAccount exists")
        wanted = {"spec": {"expirationSeconds": 3600}}
        token = self.create("ServiceAccount", wanted, f"{account}/token")["status"]["token"]
        given = self.kubeconfig
        users = [{"name": each["name"], "user": {"token": token}} for each in given["users"]]
        current = {"current-context": self.context or given["current-context"], "users": users}
        path = self.folder / f"kubeconfig-{uuid.uuid4()}"
        path.write_text(json.dumps(given | current))
        path.chmod(0o600)
        return path

"""kubectl works on the emulated cluster."""

import json
import re

import pytest

from support.kubectl import Kubectl, needs_kubectl
from support.processes import Server, write

pytestmark = [pytest.mark.http, needs_kubectl]

#: pods name their node, so that no scheduler is needed
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: n2
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: nginx, resources: {requests: {cpu: 100m, memory: 64Mi}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: lone}
spec:
  nodeName: n3
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: nginx}]
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: lab}
data: {a: "1"}
---
"""
NODES = """
nodes:
- {name: n2, tier: edge, cpu: 4, memory: 4Gi}
- {name: n3, tier: cloud, cpu: 4, memory: 4Gi}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture(scope="module")
def kubectl(folder):
    with Server("--cluster", write(folder, "cluster.yaml", NODES)) as server:
        yield Kubectl(server.kubeconfig, folder)


@pytest.fixture
def web(kubectl, folder):
    """The Deployment `web`, rolled out."""
    kubectl("apply", "-f", write(folder, "web.yaml", DEPLOYMENT))
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web")
    return kubectl


@pytest.fixture
def lone(kubectl, folder):
    kubectl("create", "-f", write(folder, "pod.yaml", POD))
    kubectl("wait", "pod/lone", "--for=condition=Ready", "--timeout=60s")
    yield kubectl
    kubectl("delete", "pod", "lone", "--ignore-not-found")


def table(output):
    """Return the rows of `kubectl get`; headings are two blanks or more apart."""
    header, *lines = output.splitlines()
    titles = list(re.finditer(r"\S+( \S+)*", header))
    ends = [*(title.start() for title in titles[1:]), None]
    return [
        {t[0]: line[t.start() : end].strip() for t, end in zip(titles, ends, strict=True)}
        for line in lines
    ]


def test_get_prints_the_columns_of_a_real_server(web):
    pods = table(web("get", "pods", "-o", "wide"))
    assert len(pods) == 2
    for pod in pods:
        assert pod["NAME"].startswith("web-")
        assert (pod["READY"], pod["STATUS"], pod["RESTARTS"]) == ("1/1", "Running", "0")
        assert pod["NODE"] == "n2"
        assert pod["NOMINATED NODE"] == pod["READINESS GATES"] == "<none>"
    nodes = table(web("get", "nodes", "-o", "wide"))
    assert [(n["NAME"], n["STATUS"], n["ROLES"]) for n in nodes] == [
        ("n2", "Ready", "<none>"),
        ("n3", "Ready", "<none>"),
    ]
    (deployment,) = table(web("get", "deployments", "-o", "wide"))
    columns = ("READY", "UP-TO-DATE", "AVAILABLE", "IMAGES", "SELECTOR")
    assert [deployment[name] for name in columns] == ["2/2", "2", "2", "nginx", "app=web"]
    (replica_set,) = table(web("get", "rs"))
    assert (replica_set["DESIRED"], replica_set["CURRENT"], replica_set["READY"]) == ("2", "2", "2")
    assert "pod/web-" in web("get", "all")
    assert "app=web" in web("get", "pods", "--show-labels")
    assert {pod["NAMESPACE"] for pod in table(web("get", "pods", "-A"))} == {"default"}
    assert "No resources found" in web("get", "pods", "-l", "app=other")


def test_apply_changes_only_what_changed_and_refuses_a_field_of_the_wrong_type(web, folder):
    def apply(text, code=0):
        return web("apply", "-f", write(folder, "changed.yaml", text), code=code)

    assert apply(DEPLOYMENT) == "deployment.apps/web unchanged"
    more = DEPLOYMENT.replace("100m", "200m")
    assert apply(more) == "deployment.apps/web configured"
    web("rollout", "status", "deployment/web", "--timeout=60s")
    where = "jsonpath={.spec.template.spec.containers[0].resources.requests}"
    requests = web("get", "deployment", "web", "-o", where)
    assert json.loads(requests) == {"cpu": "200m", "memory": "64Mi"}
    wrong = apply(DEPLOYMENT.replace("replicas: 2", "replicas: two"), code=1)
    assert "cannot be handled as a Deployment" in wrong
    kind = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a}"
    said = apply(kind, code=1)
    assert 'no matches for kind "ServiceMonitor" in version "monitoring.coreos.com/v1"' in said
    assert "ensure CRDs are installed first" in said


def test_cordon_taint_and_drain(web):
    def status():
        return {n["NAME"]: n["STATUS"] for n in table(web("get", "nodes"))}["n2"]

    web("taint", "nodes", "n3", "lab=gpu:NoSchedule")
    taints = web("get", "node", "n3", "-o", "jsonpath={.spec.taints}")
    assert json.loads(taints) == [{"key": "lab", "value": "gpu", "effect": "NoSchedule"}]
    web("taint", "nodes", "n3", "lab-")
    assert "node/n2 drained" in web("drain", "n2", "--timeout=60s")
    assert status() == "Ready,SchedulingDisabled"
    web("uncordon", "n2")
    assert status() == "Ready"


def test_a_namespace_takes_all_of_its_contents_with_it(kubectl, folder):
    inside = DEPLOYMENT.replace("name: web,", "name: web, namespace: lab,", 1)
    kubectl("create", "-f", write(folder, "lab.yaml", NAMESPACE + inside))
    kubectl("delete", "namespace", "lab", "--timeout=60s")
    assert "lab" not in {n["NAME"] for n in table(kubectl("get", "namespaces"))}
    left = kubectl("get", "deployments,replicasets,pods,configmaps", "-n", "lab")
    assert "No resources found" in left


def test_everything_discovery_lists_can_be_listed(web):
    listed = web("api-resources", "--verbs=list", "-o", "name")
    names = {name.partition(".")[0] for name in listed.split()}
    assert {"pods", "nodes", "leases", "horizontalpodautoscalers"} <= names
    # one call fails if any of them is not served
    web("get", ",".join(sorted(names)), "-A", "-o", "wide")
    assert json.loads(web("version", "-o", "json"))["serverVersion"]["minor"] == "36"


def test_commands_into_a_container_are_refused_in_one_sentence(lone):
    for command in (("exec", "lone", "--", "ls"), ("port-forward", "lone", "0:80")):
        assert "an emulated cluster runs no containers: " in lone(*command, code=1)

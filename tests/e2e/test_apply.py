"""`kubectl apply -k` of what is shipped, on `kubedsm emulate --tls`.

There is no kube-scheduler: a `kubedsm run` that goes by its name stands in for it.
"""

import json

import pytest
import yaml

from support.kubectl import Kubectl, needs_kubectl
from support.manifests import MANIFESTS, built
from support.processes import Scheduler, Server, write

pytestmark = [pytest.mark.http, needs_kubectl]

#: kinds that the emulated cluster does not have
FOREIGN = ("NetworkPolicy", "PrometheusRule", "ServiceMonitor")
#: the page first: the emulated cluster leaves what a patch adds to a list at its end
FOLDERS = sorted([MANIFESTS, *(MANIFESTS / "overlays").iterdir()], key=lambda f: f.name != "page")
#: applied on each other by default; the others in the long run, as .ci/run follows their pages
FIRST = ("page", "k3s")
#: the node that runs the API server
SERVER = "n5"
#: kubectl sends the selector of a budget each time, to be replaced as a whole
ALWAYS_SENT = "poddisruptionbudget.policy/kubedsm"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apply")
    named = write(folder, "config.yaml", "schedulerName: default-scheduler")
    with (
        Server("--tls", "--kubeconfig", folder / "kubeconfig") as server,
        Scheduler(server, "--config", named, "--leader-elect=false"),
    ):
        kubectl = Kubectl(server.kubeconfig, folder)
        kubectl("label", "node", SERVER, "node-role.kubernetes.io/control-plane=")
        yield kubectl


def applied(kubectl, *given):
    """What became of each object."""
    lines = kubectl("apply", *given).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("Warning:"))


def got(kubectl, *what):
    return json.loads(kubectl("-n", "kubedsm", "get", *what, "-o", "json"))


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(each, marks=() if each.name in FIRST else pytest.mark.long, id=each.name)
        for each in FOLDERS
    ],
)
def test_it_is_applied_rolled_out_and_then_unchanged(kubectl, tmp_path, folder):
    """Whatever was applied before."""
    objects = [given for given in built(folder).values() if given["kind"] not in FOREIGN]
    path = write(tmp_path, "objects.yaml", yaml.safe_dump_all(objects))
    first = applied(kubectl, "-f", path)
    assert len(first) == len(objects) >= 12
    assert set(first.values()) <= {"created", "configured", "unchanged"}
    kubectl("-n", "kubedsm", "rollout", "status", "deployment/kubedsm", "--timeout=60s")
    pods = [
        pod["spec"]
        for pod in got(kubectl, "pods")["items"]
        if "deletionTimestamp" not in pod["metadata"]
    ]
    assert len(pods) == (1 if folder.name == "single-replica" else 2)
    for spec in pods:
        assert (spec["priorityClassName"], spec["priority"]) == ("kubedsm", 1_000_000_000)
        assert spec["nodeName"] == SERVER or folder.name != "k3s"
    before = written(kubectl)
    again = applied(kubectl, "-f", path)
    assert {name for name, fate in again.items() if fate != "unchanged"} <= {ALWAYS_SENT}
    assert again.keys() == first.keys()
    assert written(kubectl) == before


def written(kubectl):
    """What users write of some objects, and how often they did."""
    return [
        (obj["metadata"]["uid"], obj["metadata"].get("generation"), obj["spec"])
        for obj in got(kubectl, "pdb,deployment,service")["items"]
    ]

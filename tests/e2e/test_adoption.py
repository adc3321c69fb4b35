"""Applying what is shipped, adopting namespaces and workloads, and leaving, by kubectl.

There is no kube-scheduler: a `kubedsm run` that goes by its name stands in for it.
"""

import json
import re
import signal
import time
from collections import Counter

import pytest
import yaml

from kubedsm_lab.emulator.paper import pod_spec, workload
from support.command_line import kubedsm
from support.kubectl import Kubectl, needs_kubectl
from support.manifests import MANIFESTS, built
from support.processes import Scheduler, Server, write

pytestmark = [pytest.mark.http, needs_kubectl]

#: seconds; a leader on a busy machine may renew its Lease late
FALLBACK = 10
POLICY = (MANIFESTS / "components" / "opt-in" / "policy.yaml").read_text()
QUICK = POLICY.replace("duration('1m')", f"duration('{FALLBACK}s')")
#: written by controllers at a rollout, whoever asks for it
REVISION = "deployment.kubernetes.io/revision"
OUR_KINDS = ("leases", "events", "endpoints")


def deployment(name, replicas):
    spec = pod_spec({"cpu": "10m", "memory": "8Mi"})
    del spec["schedulerName"]
    made = workload(name, replicas, spec)
    made["metadata"]["namespace"] = "shop"
    return made


def apply(kubectl, folder, *objects):
    return kubectl("apply", "-f", write(folder, "objects.yaml", yaml.safe_dump_all(objects)))


def schedulers(server, app):
    """Count the pods by scheduler and by having a node."""
    return Counter(
        (pod["spec"]["schedulerName"], "nodeName" in pod["spec"])
        for pod in server.pods(app)
        if "deletionTimestamp" not in pod["metadata"]
    )


def command(server, *given):
    return kubedsm(*given, "--kubeconfig", server.kubeconfig)


def test_a_namespace_opts_in_and_no_pod_is_stranded_while_every_replica_is_down(server, tmp_path):
    kubectl = Kubectl(server.kubeconfig, tmp_path)
    kubectl("create", "namespace", "shop")
    done = command(server, "opt-in", "shop")
    assert (done.returncode, "no KubeDSM leads" in done.stderr) == (1, True)
    with Scheduler(server) as scheduler:
        scheduler.until("leading")
        done = command(server, "opt-in", "shop")
        assert (done.returncode, "opt-in is absent" in done.stderr) == (1, True)
        kubectl("apply", "-f", write(tmp_path, "policy.yaml", QUICK))
        done = command(server, "opt-in", "kube-system", "shop")
        assert (done.returncode, "kube-system cannot opt in" in done.stderr) == (1, True)
        done = command(server, "opt-in", "deployment/kubedsm/kubedsm", "--dry-run")
        assert (done.returncode, "kubedsm cannot opt in" in done.stderr) == (1, True)
        done = command(server, "opt-in", "nosuch", "shop", "--dry-run")
        assert (done.returncode, done.stdout) == (3, "namespace/shop opted in (dry run)\n")
        assert kubectl("get", "namespaces", "-l", "kubedsm.io/opt-in", "-o", "name") == ""
        # The configuration has the name for pod templates; the policy has its own.
        kubectl("-n", "kubedsm", "create", "configmap", "kubedsm", "--from-literal=config.yaml=[")
        done = command(server, "opt-in", "shop")
        assert (done.returncode, done.stderr) == (0, "")
        kubectl("-n", "kubedsm", "delete", "configmap", "kubedsm")
        apply(kubectl, tmp_path, deployment("web", 3))
        server.until(lambda: schedulers(server, "web") == {("kubedsm", True): 3})
        template = kubectl("-n", "shop", "get", "deployment", "web", "-o", "jsonpath={.spec}")
        assert json.loads(template)["template"]["spec"]["schedulerName"] == "default-scheduler"
        scheduler.process.kill()
    apply(kubectl, tmp_path, deployment("early", 2))
    time.sleep(FALLBACK + 1)
    apply(kubectl, tmp_path, deployment("late", 20))
    server.until(lambda: schedulers(server, "late") == {("default-scheduler", True): 20})
    # Created before anybody could know; the one command releases them.
    assert schedulers(server, "early") == {("kubedsm", False): 2}
    done = command(server, "uninstall")
    (line,) = [line for line in done.stdout.splitlines() if "waiting for the scheduler" in line]
    *_, remedy = line.rpartition(": kubectl ")
    kubectl(*remedy.split())
    server.until(lambda: schedulers(server, "early") == {("default-scheduler", True): 2})


def picture(kubectl):
    """All objects as users see them: without names of pods, versions, times and statuses."""
    kinds = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    kinds = sorted({kind for kind in kinds if not kind.startswith(OUR_KINDS)})
    items = json.loads(kubectl("get", ",".join(kinds), "-A", "-o", "json"))["items"]
    seen = Counter()
    for item in items:
        metadata, spec = item["metadata"], item.get("spec", {})
        if item["kind"] == "ReplicaSet" and spec["replicas"] == 0:
            continue  # the history of rollouts
        for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "generateName"):
            metadata.pop(field, None)
        for reference in metadata.get("ownerReferences", ()):
            reference.pop("uid")
        annotations = metadata.get("annotations", {})
        for key in [key for key in annotations if key.startswith(REVISION)]:
            del annotations[key]
        if item["kind"] == "Pod":
            del metadata["name"], spec["nodeName"]
        text = json.dumps([item["kind"], metadata, spec, item.get("data")], sort_keys=True)
        seen[re.sub(r"kube-api-access-\w+", "", text)] += 1
    return seen


def test_after_uninstalling_the_cluster_differs_by_nothing_from_one_before(tmp_path):
    objects = built(MANIFESTS / "overlays" / "opt-in").values()
    manifests = write(tmp_path, "manifests.yaml", yaml.safe_dump_all(objects))
    with Server() as server:
        kubectl = Kubectl(server.kubeconfig, tmp_path)
        kubectl("cordon", "-l", "kubedsm.io/tier=edge")
        kubectl("delete", "namespace", "kubedsm")
        kubectl("create", "namespace", "shop")
        apply(kubectl, tmp_path, deployment("web", 3), deployment("other", 1))
        server.until(lambda: schedulers(server, "web") == {("default-scheduler", True): 3})
        kubectl("uncordon", "-l", "kubedsm.io/tier=edge")
        before = picture(kubectl)

        kubectl("apply", "-f", manifests)
        with Scheduler(server, "--configmap", "kubedsm/kubedsm") as scheduler:
            scheduler.until("leading")
            kubectl("cordon", "-l", "kubedsm.io/tier=edge")
            assert command(server, "opt-in", "deployment/shop/web").returncode == 0
            server.until(lambda: schedulers(server, "web") == {("kubedsm", True): 3})
            kubectl("-n", "shop", "rollout", "status", "deployment/web", "--timeout=60s")
            kubectl("uncordon", "-l", "kubedsm.io/tier=edge")
            scheduler.until("migration begun")
            assert scheduler.stop(signal.SIGTERM)[0] == 0
        plan = command(server, "uninstall", "--opt-out")
        assert plan.returncode == 0
        assert "rollout of deployment/shop/web: its controller replaces 3 pods" in plan.stdout
        done = command(server, "uninstall", "--opt-out", "--apply")
        assert done.returncode == 0, done.stderr
        assert "stays: labels of 4 nodes" in done.stdout
        scale = kubectl("-n", "kubedsm", "get", "deploy/kubedsm", "-o", "jsonpath={.spec.replicas}")
        assert scale == "0"
        kubectl("delete", "-f", manifests, "--timeout=60s")
        kubectl("-n", "shop", "rollout", "status", "deployment/web", "--timeout=60s")
        server.until(lambda: schedulers(server, "web") == {("default-scheduler", True): 3})
        after = picture(kubectl)
    assert (after - before, before - after) == (Counter(), Counter())


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

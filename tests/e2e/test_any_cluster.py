"""Place, migrate, roll back, change the leader: on any cluster, real or emulated.

`pytest tests/e2e --kubeconfig FILE` runs these tests on the cluster of an administrator's
kubeconfig; without the option they run on `kubedsm emulate --tls`, where those of policies, volumes
and standbys are left to the long run: other modules test these there. The cluster needs two Ready
nodes without taints; hollow nodes are enough. A scheduler that runs there already is not disturbed:
pods, tiers, Lease and rights of the tests have names of their own. All changes are undone.
"""

import json
import signal
import uuid
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import requests
import yaml

from kubedsm.kube.client.port import Request
from kubedsm_lab.bench.watched_api import connect_blocking
from kubedsm_lab.chaos.oracles import is_detached
from support.administrator import MERGE, SCHEDULER, TIER, Administrator
from support.command_line import kubedsm
from support.manifests import BASE, MANIFESTS, documents
from support.processes import Process, Server

pytestmark = [pytest.mark.http, pytest.mark.any_cluster]

QUICK_LEASE = (
    *("--leader-elect-lease-duration", "10s", "--leader-elect-renew-deadline", "8s"),
    *("--leader-elect-retry-period", "1s"),
)


class Scheduler(Process):
    """`kubedsm run` with the shipped rights; its log is a file."""

    def __init__(self, cluster, kubeconfig, log, *options):
        self.log, self.kubeconfig = log, kubeconfig
        arguments = (
            *("run", "--kubeconfig", kubeconfig, "--configmap", f"{cluster.namespace}/kubedsm"),
            *("--leader-elect-resource-namespace", cluster.namespace, *QUICK_LEASE),
            *("--diagnostics-port", "0", "--metrics-address", "127.0.0.1:0", "-o", "json"),
            *options,
        )
        with log.open("w") as out:
            super().__init__(*arguments, stdout=out)

    def logged(self, event):
        """Return the first line about this event; None before there is one."""
        for line in self.log.read_text().splitlines():
            with suppress(json.JSONDecodeError):
                if (given := json.loads(line))["event"] == event:
                    return given
        return None


def renamed(given, namespace):
    """Return a shipped object with the namespace's name instead of kubedsm's."""
    metadata = given["metadata"]
    given = {**given, "metadata": {**metadata, "namespace": namespace}}
    if given["kind"].startswith(("Cluster", "Validating")):
        given["metadata"] = {**metadata, "name": namespace}
        if "roleRef" in given:
            given["roleRef"] = {**given["roleRef"], "name": namespace}
        if "policyName" in given.get("spec", {}):
            given["spec"] = {**given["spec"], "policyName": namespace}
    if "subjects" in given:
        given["subjects"] = [{**subject, "namespace": namespace} for subject in given["subjects"]]
    return given


@contextmanager
def installed(cluster, changes):
    """Namespace, account, rights and labels of nodes; all are removed at the end."""
    namespace = cluster.namespace
    usable = [
        node["metadata"]["name"]
        for node in cluster.list("Node")
        if not node["spec"].get("taints") and not node["spec"].get("unschedulable")
    ]
    if len(usable) < 2:
        pytest.fail(f"the cluster has {len(usable)} schedulable nodes without taints; 2 are needed")
    cluster.edge, *cloud = usable[:4]
    shipped = [*documents(BASE / "serviceaccount.yaml"), *documents(BASE / "rbac.yaml")]
    created = [("Namespace", namespace)]
    try:
        cluster.create("Namespace", {"metadata": {"name": namespace}})
        changes.append(f"namespace {namespace} created and deleted")
        for given in (renamed(given, namespace) for given in shipped):
            cluster.create(given["kind"], given)
            if given["kind"].startswith("Cluster"):
                created.append((given["kind"], namespace))
                changes.append(f"{given['kind']} {namespace} created and deleted")
        for node in cloud:
            cluster.label(node, "cloud")
        changes.append(f"label {TIER} of nodes {', '.join(usable[:4])} set and removed")
        cluster.configure({})
        yield cluster
    finally:
        for node in usable[:4]:
            cluster.label(node, None)
        for kind, name in created:
            cluster.delete(kind, name)
        cluster.until(
            lambda: not cluster.exists("Namespace", namespace), f"namespace {namespace} is gone"
        )


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("any-cluster")
    given, context, image = (
        request.config.getoption(name, None)
        for name in ("--kubeconfig", "--context", "--pod-image")
    )
    with ExitStack() as stack:
        if not given:
            emulate = ("--tls", "--kubeconfig", folder / "kubeconfig")
            given = stack.enter_context(Server(*emulate)).kubeconfig
        kubeconfig, namespace = Path(given), f"kubedsm-e2e-{uuid.uuid4().hex[:6]}"
        send = stack.enter_context(connect_blocking(kubeconfig, context))
        client = Administrator(send, kubeconfig, context, folder, namespace, image or "pause")
        yield stack.enter_context(installed(client, changes))


@pytest.fixture(scope="module")
def scheduler(cluster):
    kubeconfig = cluster.kubeconfig_for()
    first = Scheduler(cluster, kubeconfig, cluster.folder / "first.log", "--page")
    cluster.until(lambda: first.logged("synced"), "the scheduler has read the cluster")
    yield first
    first.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def placed(cluster, scheduler):
    """Deploy web while no node is edge; return the nodes of its pods."""
    cluster.deploy("web", 4)
    return cluster.ready("web")


@pytest.fixture(scope="module")
def migrated(cluster, scheduler, placed):
    """Have half of the pods of web migrated to the edge; return its numbers of Ready pods."""
    cluster.label(cluster.edge, "edge")
    ready = []

    def half_migrated():
        nodes = cluster.ready("web")
        ready.append(len(nodes))
        return len(nodes) == 4 and nodes.count(cluster.edge) == 2

    cluster.configure({cluster.key("web"): {"qos": 5}})
    cluster.until(lambda: scheduler.logged("configuration refused"), "a factor of 5 is refused")
    cluster.configure({cluster.key("web"): {"qos": 0.5}})
    cluster.until(half_migrated, "2 of 4 pods are on the edge")
    cluster.until(
        lambda: not any(map(is_detached, cluster.list("Pod"))), "no label of a migration is left"
    )
    cluster.until(lambda: len(cluster.list("Pod")) == 4, "the pods that migrated are gone")
    return ready


def test_pods_are_placed_in_the_tiers_that_are_there(cluster, placed):
    assert cluster.edge not in placed
    cluster.until(lambda: "Scheduled" in cluster.reasons(), "an Event tells of a bind")


def test_a_changed_qos_factor_migrates_pods_one_for_one(cluster, scheduler, migrated):
    """Half of the pods are to be on the edge, and half of them go there."""
    name = f"{cluster.namespace}/kubedsm"
    where = ("--kubeconfig", scheduler.kubeconfig, "--configmap", name)
    shown = kubedsm("config", "show", *where, "-o", "json")
    origin = json.loads(shown.stdout)["from"]["suggester.period"]
    assert origin.startswith(f"ConfigMap {name}, config.yaml:")
    assert min(migrated) == 4
    cluster.until(lambda: "Migrated" in cluster.reasons(), "an Event tells of a migration")


def test_a_migration_without_a_replacement_is_rolled_back(cluster, migrated):
    """A quota forbids the replacement: the old pod stays, and is its ReplicaSet's again."""
    full = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "4"}}}
    cluster.create("ResourceQuota", full)
    # A migration that spreads the other two pods may have begun.
    cluster.until(
        lambda: (
            cluster.get("ResourceQuota", "full").get("status", {}).get("used") == {"pods": "4"}
            and not any(map(is_detached, cluster.list("Pod")))
        ),
        "the quota counts 4 pods",
    )
    before = sorted(pod["metadata"]["uid"] for pod in cluster.list("Pod"))
    cluster.configure({cluster.key("web"): {"qos": 1}}, deadline="5s")
    cluster.until(lambda: "MigrationFailed" in cluster.reasons(), "a migration has failed")
    cluster.configure({cluster.key("web"): {"qos": 0.5}})
    cluster.until(
        lambda: (
            len(cluster.ready("web")) == 4
            and cluster.get("Deployment", "web")["status"].get("readyReplicas") == 4
        ),
        "the Deployment has its 4 pods again",
    )
    after = sorted(pod["metadata"]["uid"] for pod in cluster.list("Pod"))
    cluster.delete("ResourceQuota", "full")
    assert after == before


def test_explain_and_the_page_know_the_pods(cluster, scheduler, placed):
    address = scheduler.logged("connected")["page"]
    name = cluster.list("Pod")[0]["metadata"]["name"]
    page = requests.get(address, timeout=30)
    assert page.ok
    assert "<html" in page.text
    with requests.get(f"{address}/page/stream", stream=True, timeout=30) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith(b"data: "))
        told = (json.loads(line.removeprefix(b"data: ")).get("rows", {}) for line in lines)
        assert any(key.endswith(name) for rows in told for key in rows.get("pods", ()))
    done = kubedsm("explain", f"pod/{name}", "-n", cluster.namespace, "--server", address)
    assert done.returncode == 0, done.stderr
    assert name in done.stdout


@pytest.mark.long
def test_the_shipped_policy_refuses_patches_that_no_migration_makes(cluster, migrated):
    text = (MANIFESTS / "components" / "guarded-patches" / "policy.yaml").read_text()
    ours = text.replace("spec.schedulerName == 'kubedsm'", f"spec.schedulerName == '{SCHEDULER}'")
    assert ours != text
    policy, binding = (renamed(given, cluster.namespace) for given in yaml.safe_load_all(ours))
    if not cluster.exists(policy["kind"]):
        pytest.skip("the cluster has no ValidatingAdmissionPolicies (Kubernetes before 1.30)")
    try:
        cluster.create(policy["kind"], policy)
        cluster.create(binding["kind"], binding)
        kubeconfig = cluster.kubeconfig_for()
        name = cluster.list("Pod")[0]["metadata"]["name"]

        def refused(hostile, part=""):
            path = cluster.path("Pod", f"{name}{part}")
            patch = Request("PATCH", path, {"dryRun": "All"}, hostile, MERGE)
            with connect_blocking(kubeconfig, None) as send:
                response = send(patch)
            return response.status == 422 or b"denied" in response.body

        stolen = {"metadata": {"labels": {"app": "stolen"}}}
        cluster.until(lambda: refused(stolen), "the policy is in force")
        image = [{"name": "c", "image": "miner:1"}]
        assert refused({"spec": {"containers": image}})
        for metadata in (
            stolen["metadata"],
            {"labels": {"pod-template-hash": "stolen"}},
            {"annotations": {"kubedsm.io/move": "{}"}},
            {"finalizers": ["evil.example/hold"]},
        ):
            assert refused({"metadata": metadata}, "/status")
        assert not refused({"metadata": {"labels": {"kubedsm.io/tier": "edge"}}})
        assert not refused({"status": {"nominatedNodeName": cluster.edge}}, "/status")
        cluster.configure({cluster.key("web"): {"qos": 1}})
        cluster.until(
            lambda: cluster.ready("web") == [cluster.edge] * 4, "migrations go on under the policy"
        )
    finally:
        cluster.delete(binding["kind"], binding["metadata"]["name"])
        cluster.delete(policy["kind"], policy["metadata"]["name"])


@pytest.mark.long
def test_a_stateful_set_gets_its_volumes_and_returns_to_them(cluster, placed):
    """The shipped example: local volumes on nodes that the scheduler chooses."""
    classes = cluster.list("StorageClass")
    default = "storageclass.kubernetes.io/is-default-class"
    waits = [
        each["provisioner"]
        for each in classes
        if each["metadata"].get("annotations", {}).get(default) == "true"
        and each.get("volumeBindingMode") == "WaitForFirstConsumer"
    ]
    if not waits:
        pytest.skip("no default StorageClass waits for its first consumer")
    example, *_ = documents(MANIFESTS / "example-stateful-set.yaml")
    spec = example["spec"]["template"]["spec"]
    spec |= {"schedulerName": SCHEDULER, "nodeSelector": {}, "terminationGracePeriodSeconds": 1}
    [container] = spec["containers"]
    requests = {"cpu": "10m", "memory": "16Mi"}
    mounts = container["volumeMounts"]
    spec["containers"] = [
        {
            "name": "c",
            "image": cluster.image,
            "resources": {"requests": requests},
            "volumeMounts": mounts,
        }
    ]
    del example["metadata"]["namespace"]
    cluster.create("StatefulSet", example)

    def homes(of="nodeName"):
        return {
            pod["metadata"]["name"]: (pod["metadata"] | pod["spec"]).get(of)
            for pod in cluster.list("Pod")
            if pod["metadata"]["labels"].get("app") == "cache"
        }

    try:
        cluster.until(lambda: len(cluster.ready("cache")) == 3, "3 pods with volumes are Ready")
        claims = cluster.list("PersistentVolumeClaim")
        assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * 3
        before, uids = homes(), homes("uid")
        cluster.delete("Pod", "cache-1")
        cluster.until(
            lambda: len(cluster.ready("cache")) == 3 and homes("uid")["cache-1"] != uids["cache-1"],
            "the deleted pod is back",
        )
        assert homes() == before or waits != ["rancher.io/local-path"]
    finally:
        cluster.delete("StatefulSet", "cache")
        cluster.until(lambda: not homes(), "the pods of the StatefulSet are gone")
        for claim in cluster.list("PersistentVolumeClaim"):
            cluster.delete("PersistentVolumeClaim", claim["metadata"]["name"])


@pytest.mark.long
def test_a_standby_takes_over_from_a_killed_leader(cluster, scheduler):
    kubeconfig = cluster.kubeconfig_for()
    second = Scheduler(cluster, kubeconfig, cluster.folder / "second.log")
    try:
        cluster.until(lambda: second.logged("standing by"), "the second one stands by")
        before = cluster.get("Lease", "kubedsm")["spec"]["holderIdentity"]
        scheduler.stop(signal.SIGKILL)
        cluster.until(
            lambda: cluster.get("Lease", "kubedsm")["spec"]["holderIdentity"] not in ("", before),
            "the Lease has another holder",
        )
        cluster.deploy("after-the-kill", 2)
    finally:
        second.stop(signal.SIGTERM)
    assert cluster.get("Lease", "kubedsm")["spec"].get("holderIdentity") in ("", None)


def test_an_account_without_rights_gets_one_line(cluster):
    cluster.create("ServiceAccount", {"metadata": {"name": "nobody"}})
    done = kubedsm("suggest", "--kubeconfig", cluster.kubeconfig_for("nobody"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "nodes" in done.stderr or "pods" in done.stderr

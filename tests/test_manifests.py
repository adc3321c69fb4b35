"""What `kubectl apply -k manifests` gives a cluster: sound objects, the rights needed, no more."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kubedsm import __version__
from kubedsm.configuration.settings import Configuration, load

ROOT = Path(__file__).parent.parent
MANIFESTS = ROOT / "manifests"
FILES = sorted(MANIFESTS.glob("*.yaml"))

#: (API group, resource, verbs), everywhere
CLUSTER_RIGHTS = {
    ("", "nodes", "get list watch"),
    ("", "pods", "get list watch"),
    ("", "services", "get list watch"),
    ("", "namespaces", "get list watch"),
    ("", "persistentvolumeclaims", "get list watch"),
    ("", "persistentvolumes", "get list watch"),
    ("storage.k8s.io", "storageclasses", "get list watch"),
    ("storage.k8s.io", "csinodes", "get list watch"),
    ("apps", "deployments", "get list watch"),
    ("apps", "replicasets", "get list watch"),
    ("apps", "statefulsets", "get list watch"),
    ("policy", "poddisruptionbudgets", "get list watch"),
    ("", "pods/binding", "create"),
    ("", "pods", "patch"),
    ("", "pods/status", "patch"),
    ("", "pods/eviction", "create"),
    ("", "events", "create list patch"),
    ("events.k8s.io", "events", "create patch"),
}
#: and in its own namespace
OWN_RIGHTS = {
    ("", "configmaps", "get list watch"),
    ("coordination.k8s.io", "leases", "create get update"),
}


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


KUSTOMIZATION = documents(MANIFESTS / "kustomization.yaml")[0]
OBJECTS = {
    (given["kind"], given["metadata"]["name"]): given
    for name in KUSTOMIZATION["resources"]
    for given in documents(MANIFESTS / name)
}
DEPLOYMENT = OBJECTS["Deployment", "kubedsm"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def rights(rules):
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def spelled_out(table):
    return {(group, resource, verb) for group, resource, verbs in table for verb in verbs.split()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_document_is_an_object(path):
    for given in documents(path):
        assert given["apiVersion"]
        assert given["kind"]
        assert path.name == "kustomization.yaml" or given["metadata"]["name"]


def test_every_file_is_either_applied_or_an_example():
    assert {path.name for path in FILES} == {
        "kustomization.yaml",
        "example-workload.yaml",
        "loadgen-job.yaml",
        *KUSTOMIZATION["resources"],
    }


def test_rights_are_those_it_needs_and_no_more():
    assert rights(OBJECTS["ClusterRole", "kubedsm"]["rules"]) == spelled_out(CLUSTER_RIGHTS)
    assert rights(OBJECTS["Role", "kubedsm"]["rules"]) == spelled_out(OWN_RIGHTS)


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_rights_are_bound_to_the_account_that_runs_it(kind):
    binding = OBJECTS[f"{kind}Binding", "kubedsm"]
    account = {"kind": "ServiceAccount", "name": POD["serviceAccountName"], "namespace": "kubedsm"}
    assert binding["subjects"] == [account]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, "kubedsm")
    assert ("ServiceAccount", POD["serviceAccountName"]) in OBJECTS


def test_the_configuration_is_the_defaults():
    text = OBJECTS["ConfigMap", "kubedsm"]["data"]["config.yaml"]
    assert load(text, "configmap.yaml") == Configuration()


def test_it_follows_the_configuration_in_its_config_map():
    found = OBJECTS["ConfigMap", "kubedsm"]["metadata"]
    name = f"{found['namespace']}/{found['name']}"
    assert CONTAINER["args"] == ["run", "--configmap", name]


def test_there_are_never_two():
    assert DEPLOYMENT["spec"]["replicas"] == 1
    assert DEPLOYMENT["spec"]["strategy"] == {"type": "Recreate"}


def test_it_runs_restricted():
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    namespace = OBJECTS["Namespace", "kubedsm"]["metadata"]["labels"]
    assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"


def test_it_does_not_wait_for_itself():
    assert POD.get("schedulerName", "default-scheduler") != Configuration().scheduler_name


def test_the_image_is_the_one_the_dockerfile_makes():
    (image,) = KUSTOMIZATION["images"]
    assert CONTAINER["image"] == f"{image['name']}:{image['newTag']}" == f"kubedsm:{__version__}"
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"docker build -t {CONTAINER['image']} ." in dockerfile
    assert f"USER {POD['securityContext']['runAsUser']}:" in dockerfile


def test_the_example_opts_in_and_is_served():
    deployment, service = documents(MANIFESTS / "example-workload.yaml")
    template = deployment["spec"]["template"]
    assert template["spec"]["schedulerName"] == Configuration().scheduler_name
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert all(c["resources"]["requests"] for c in template["spec"]["containers"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_it():
    built = subprocess.run(
        [shutil.which("kubectl"), "kustomize", str(MANIFESTS)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    made = {(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(built.stdout)}
    assert made == set(OBJECTS)

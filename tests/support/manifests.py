"""What is in manifests/: the files, and the objects that the base of them makes."""

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
BASE = MANIFESTS / "base"
MONITORING = MANIFESTS / "components" / "monitoring"
NAMESPACE = "kubedsm"
#: the minor version of the first kubectl that has it
_KUSTOMIZE_4 = 21
#: kinds that are in no namespace
_CLUSTER_WIDE = (
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomizations():
    """Every kustomization, by its folder."""
    return {
        path.parent: documents(path)[0] for path in sorted(MANIFESTS.rglob("kustomization.yaml"))
    }


def generated(folder, given):
    """A ConfigMap as configMapGenerator makes it."""
    data = {name: (folder / name).read_text(encoding="utf-8") for name in given["files"]}
    metadata = {"name": given["name"], "labels": given["options"].get("labels", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def made(folder):
    """The objects of a folder's own files, by kind and name, in the base's namespace."""
    kustomization = kustomizations()[folder]
    objects = [
        given
        for name in kustomization.get("resources", ())
        if name.endswith(".yaml")
        for given in documents(folder / name)
    ]
    objects += [generated(folder, g) for g in kustomization.get("configMapGenerator", ())]
    for given in objects:
        if given["kind"] not in _CLUSTER_WIDE:
            given["metadata"]["namespace"] = NAMESPACE
        for labels in kustomization.get("labels", ()):
            given["metadata"].setdefault("labels", {}).update(labels["pairs"])
    return {(given["kind"], given["metadata"]["name"]): given for given in objects}


def pod():
    """The spec of the scheduler's pods."""
    return made(BASE)["Deployment", "kubedsm"]["spec"]["template"]["spec"]


def arguments(spec=None):
    """What its container is started with; a kubelet fills in its namespace."""
    (container,) = (spec or pod())["containers"]
    return [given.replace("$(POD_NAMESPACE)", NAMESPACE) for given in container["args"]]


@functools.cache
def kubectl_with_components():
    """Its path. Skips where there is none, or an old one: its Kustomize knows no components."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on PATH to build the manifests with")
    version = subprocess.check_output([kubectl, "version", "--client", "-o", "json"], timeout=60)
    minor = int(re.match(r"\d+", json.loads(version)["clientVersion"]["minor"])[0])
    if minor < _KUSTOMIZE_4:
        pytest.skip(f"kubectl 1.{minor} is too old to build the manifests with")
    return kubectl


def built(folder):
    """What kubectl makes of a kustomization, by kind and name. Skips where it cannot."""
    kubectl = kubectl_with_components()
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout)}

"""Files in manifests/, and the objects of the base."""

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
#: libyaml's loader takes a tenth of the time
load_all = functools.partial(yaml.load_all, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
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
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
)


def documents(path):
    return list(load_all(path.read_text(encoding="utf-8")))


def kustomizations():
    """Return all kustomizations by directory."""
    return {
        path.parent: documents(path)[0] for path in sorted(MANIFESTS.rglob("kustomization.yaml"))
    }


def generated(folder, given):
    """Return the ConfigMap that a configMapGenerator entry creates."""
    data = {name: (folder / name).read_text(encoding="utf-8") for name in given["files"]}
    metadata = {"name": given["name"], "labels": given["options"].get("labels", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def made(folder):
    """Return the objects in a directory's own files, by kind and name."""
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
    """Return the pod spec of the scheduler's Deployment."""
    return made(BASE)["Deployment", "kubedsm"]["spec"]["template"]["spec"]


def arguments(spec=None):
    """Return the arguments of the scheduler's container, with the namespace filled in."""
    (container,) = (spec or pod())["containers"]
    return [given.replace("$(POD_NAMESPACE)", NAMESPACE) for given in container["args"]]


@functools.cache
def kubectl_with_components():
    """Return the path of kubectl; skip the test without one that supports kustomize components."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl on PATH to build the manifests with")
    version = subprocess.check_output([kubectl, "version", "--client", "-o", "json"], timeout=60)
    minor = int(re.match(r"\d+", json.loads(version)["clientVersion"]["minor"])[0])
    if minor < _KUSTOMIZE_4:
        pytest.skip(f"kubectl 1.{minor} is too old to build the manifests with")
    return kubectl


def built(folder):
    """Return the objects that `kubectl kustomize` builds, by kind and name; skip if impossible."""
    kubectl = kubectl_with_components()
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return {(o["kind"], o["metadata"]["name"]): o for o in load_all(done.stdout)}

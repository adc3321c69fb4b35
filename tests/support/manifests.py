"""What is in manifests/: the files, and the objects that the base of them makes."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
BASE = MANIFESTS / "base"
MONITORING = MANIFESTS / "components" / "monitoring"
NAMESPACE = "kubedsm"
#: kinds that are in no namespace
_CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass")


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


def arguments():
    """What its container is started with; a kubelet fills in its namespace."""
    (container,) = pod()["containers"]
    return [given.replace("$(POD_NAMESPACE)", NAMESPACE) for given in container["args"]]

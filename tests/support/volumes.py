"""StorageClasses, PersistentVolumes, and StatefulSets with claims, on emulated clusters."""

from kubedsm.kube.wire.annotations import SELECTED_NODE_ANNOTATION
from kubedsm_lab.emulator.actors.volumes import LOCAL_PATH, PROVISIONING
from kubedsm_lab.emulator.api.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from kubedsm_lab.emulator.paper import node, workload
from support.worlds import small_pod

MERGE = "application/merge-patch+json"
HOSTNAME = "kubernetes.io/hostname"
CLASS = "local-path"
EDGES = tuple(node(name, "edge", "2", "8Gi") for name in ("e1", "e2", "e3"))
CLOUD = node("c1", "cloud", "20", "40Gi")


def storage_class(api, provisioner=LOCAL_PATH, **more):
    waits = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    api.create(STORAGE_CLASSES, {"metadata": {"name": CLASS}, **waits, **more})


def local_volume(api, name, on, size="1Gi"):
    """Create a static PersistentVolume on the disk of a node."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [on]}]}
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    api.create(PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": spec})


def made_claim(name, size="1Gi", of=CLASS, modes=("ReadWriteOnce",)):
    asked = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": {"storageClassName": of, **asked}}


def claim(api, *arguments, **fields):
    made = made_claim(*arguments, **fields)
    return api.create(PERSISTENT_VOLUME_CLAIMS, made, namespace="default")


def mounting(*names):
    """Return the fields of a pod spec that mount the claims."""
    return {"volumes": [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names]}


def stateful_set(api, name, replicas, cpu="1", parallel=False, **pod_spec):
    """Create a StatefulSet whose pods have a claim of class local-path each."""
    made = workload(
        name,
        replicas,
        small_pod({"cpu": cpu}, **pod_spec),
        "StatefulSet",
        serviceName=name,
        podManagementPolicy="Parallel" if parallel else "OrderedReady",
        volumeClaimTemplates=[made_claim("data")],
    )
    api.create(STATEFUL_SETS, made, namespace="default")


def set_provisioning(api, name, fault):
    """Have provisioning for a node fail: `refused` or `stuck`; None ends the fault."""
    patch = {"metadata": {"annotations": {PROVISIONING: fault}}}
    api.patch(NODES, "", name, patch, MERGE)


def selected_nodes(api):
    """Return the selected node of each claim that has one and is not bound."""
    return {
        claim["metadata"]["name"]: claim["metadata"]["annotations"][SELECTED_NODE_ANNOTATION]
        for claim in api.list(PERSISTENT_VOLUME_CLAIMS)
        if SELECTED_NODE_ANNOTATION in claim["metadata"].get("annotations", {})
        and claim["status"]["phase"] != "Bound"
    }

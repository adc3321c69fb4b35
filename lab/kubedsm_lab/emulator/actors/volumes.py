"""Volume binding of kube-controller-manager, and K3s' local-path provisioner.

A claim is bound to the volume that names it, or to the smallest suitable volume. A claim of a class
with WaitForFirstConsumer waits for a scheduler's choice: a volume's claimRef, or the annotation
`selected-node`. Sources: k8s.io/kubernetes/pkg/controller/volume/persistentvolume;
rancher/local-path-provisioner; sigs.k8s.io/sig-storage-lib-external-provisioner.
"""

from collections.abc import Iterator

from kubedsm.kube.wire.annotations import SELECTED_NODE_ANNOTATION
from kubedsm.model.quantities import parse_units
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller, Requeue, Timing
from kubedsm_lab.emulator.api.admission import DEFAULT_CLASS
from kubedsm_lab.emulator.api.object_state import (
    annotations_of,
    is_bound,
    is_terminating,
    key_of,
)
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Object,
)
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import ObjectChange

LOCAL_PATH = "rancher.io/local-path"
#: K3s' default StorageClass
LOCAL_PATH_CLASS: Object = {
    "metadata": {"name": "local-path", "annotations": {DEFAULT_CLASS: "true"}},
    "provisioner": LOCAL_PATH,
    "volumeBindingMode": "WaitForFirstConsumer",
}
#: on a node: `refused` (the provisioner withdraws `selected-node`), or `stuck` (retried for ever)
PROVISIONING = "emulator.kubedsm.io/provisioning"
_BOUND = "pv.kubernetes.io/bind-completed"
_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_WAITS = "WaitForFirstConsumer"


def names_claim(volume: Object, claim: Object) -> bool:
    """Return whether the volume's claimRef names the claim."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    named = (reference.get("namespace", ""), reference.get("name", ""))
    return named == key_of(claim) and reference.get("uid") in (None, "", claim["metadata"]["uid"])


def _storage_of(amounts: Object | None) -> int:
    return parse_units((amounts or {}).get("storage", 0))


def _suits(volume: Object, spec: Object) -> bool:
    """Return whether an available volume satisfies the spec of a claim."""
    given = volume["spec"]
    selector = spec.get("selector")
    return (
        given.get("claimRef") is None
        and volume["status"].get("phase") == "Available"
        and given.get("storageClassName") == spec.get("storageClassName")
        and set(spec.get("accessModes") or ()) <= set(given.get("accessModes") or ())
        and _storage_of(given.get("capacity"))
        >= _storage_of((spec.get("resources") or {}).get("requests"))
        and (
            selector is None
            or label_selector_of(selector).matches(volume["metadata"].get("labels") or {})
        )
    )


def _annotate_claim(controller: Controller, claim: Object, name: str, value: str | None) -> None:
    metadata = {field: claim["metadata"][field] for field in ("uid", "resourceVersion")}
    patch = {"metadata": {**metadata, "annotations": {name: value}}}
    controller.api.patch(PERSISTENT_VOLUME_CLAIMS, *key_of(claim), patch, MERGE_PATCH)


class VolumeController(Controller):
    """PersistentVolume controller; keys without namespace are those of volumes."""

    def subscribe(self) -> None:
        self.follow(PERSISTENT_VOLUME_CLAIMS)
        self.cache.on(PERSISTENT_VOLUME_CLAIMS, self._claim_changed)
        self.cache.on(PERSISTENT_VOLUMES, self._volume_changed)

    def _claim_changed(self, change: ObjectChange) -> None:
        if volume := change.object["spec"].get("volumeName"):
            self.enqueue(("", volume))

    def _volume_changed(self, change: ObjectChange) -> None:
        self.enqueue(key_of(change.object))
        for claim in self.cache.all(PERSISTENT_VOLUME_CLAIMS):
            if not is_bound(claim) or claim["spec"]["volumeName"] == key_of(change.object)[1]:
                self.enqueue(key_of(claim))

    def reconcile(self, key: Key) -> None:
        if key[0]:
            claim = self.cache.get(PERSISTENT_VOLUME_CLAIMS, key)
            if claim is not None and not is_terminating(claim):
                self._reconcile_claim(claim)
            return
        volume = self.cache.get(PERSISTENT_VOLUMES, key)
        if volume is not None:
            self._reconcile_volume(volume)

    def _reconcile_claim(self, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if name:
            volume = self.cache.get(PERSISTENT_VOLUMES, ("", name))
            if volume is not None:
                self._bind(claim, volume)
            elif is_bound(claim):
                self.write_status(
                    PERSISTENT_VOLUME_CLAIMS, claim, {**claim["status"], "phase": "Lost"}
                )
            return
        of = self.cache.get(STORAGE_CLASSES, ("", claim["spec"].get("storageClassName") or ""))
        waits = of is not None and of.get("volumeBindingMode") == _WAITS
        found = min(self._list_suitable(claim, waits=waits), key=_by_size, default=None)
        if found is not None:
            self._bind(claim, found)
            return
        selected = annotations_of(claim).get(SELECTED_NODE_ANNOTATION)
        if of is None or (waits and not selected):
            return
        if annotations_of(claim).get(_PROVISIONER) != of["provisioner"]:
            _annotate_claim(self, claim, _PROVISIONER, of["provisioner"])

    def _list_suitable(self, claim: Object, *, waits: bool) -> Iterator[Object]:
        spec = claim["spec"]
        for volume in self.cache.all(PERSISTENT_VOLUMES):
            if names_claim(volume, claim) or (not waits and _suits(volume, spec)):
                yield volume

    def _bind(self, claim: Object, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if reference is not None and not names_claim(volume, claim):
            return
        namespace, name = key_of(claim)
        uid = claim["metadata"]["uid"]
        if reference is None or not reference.get("uid"):
            about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid}
            reference = {**about, "namespace": namespace, "name": name}
            patch = {"spec": {"claimRef": reference}}
            volume = self.api.patch(
                PERSISTENT_VOLUMES, "", volume["metadata"]["name"], patch, MERGE_PATCH
            )
        self.write_status(PERSISTENT_VOLUMES, volume, {**volume["status"], "phase": "Bound"})
        if claim["spec"].get("volumeName") is None or _BOUND not in annotations_of(claim):
            patch = {
                "metadata": {"annotations": {_BOUND: "yes"}},
                "spec": {"volumeName": volume["metadata"]["name"]},
            }
            claim = self.api.patch(PERSISTENT_VOLUME_CLAIMS, namespace, name, patch, MERGE_PATCH)
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        self.write_status(PERSISTENT_VOLUME_CLAIMS, claim, {**claim["status"], **status})

    def _reconcile_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        phase = "Available"
        if reference is not None:
            key = (reference.get("namespace", ""), reference.get("name", ""))
            claim = self.cache.get(PERSISTENT_VOLUME_CLAIMS, key)
            if claim is not None and names_claim(volume, claim):
                phase = "Bound" if is_bound(claim) else volume["status"].get("phase", phase)
            elif reference.get("uid"):
                phase = "Released"
        self.write_status(PERSISTENT_VOLUMES, volume, {**volume["status"], "phase": phase})


def _by_size(volume: Object) -> tuple[bool, int, str]:
    named = volume["spec"].get("claimRef") is None
    return named, _storage_of(volume["spec"].get("capacity")), volume["metadata"]["name"]


class LocalPathProvisioner(Controller):
    """Provisioner of volumes on the disks of nodes, reachable from their node alone.

    A volume takes `timing.provision_delay` seconds. Volumes of deleted claims are deleted.
    """

    def __init__(self, cache: Cache, timing: Timing) -> None:
        super().__init__(cache)
        self._timing = timing
        #: node, and time of completion, by uid of the claim
        self._started: dict[str, tuple[str, float]] = {}

    def subscribe(self) -> None:
        self.follow(PERSISTENT_VOLUME_CLAIMS)
        self.follow(PERSISTENT_VOLUMES)

    def reconcile(self, key: Key) -> None:
        if not key[0]:
            volume = self.cache.get(PERSISTENT_VOLUMES, key)
            if volume is not None:
                self._collect(volume)
            return
        claim = self.cache.get(PERSISTENT_VOLUME_CLAIMS, key)
        if claim is not None and self._is_asked(claim):
            self._provision(claim)

    def _is_asked(self, claim: Object) -> bool:
        asked = annotations_of(claim).get(_PROVISIONER) == LOCAL_PATH
        if asked and not claim["spec"].get("volumeName") and not is_terminating(claim):
            return SELECTED_NODE_ANNOTATION in annotations_of(claim)
        self._started.pop(claim["metadata"]["uid"], None)
        return False

    def _provision(self, claim: Object) -> None:
        uid, name = claim["metadata"]["uid"], annotations_of(claim)[SELECTED_NODE_ANNOTATION]
        volume = f"pvc-{uid}"
        if self.api.exists(PERSISTENT_VOLUMES, "", volume):
            return
        begun = self.clock.monotonic() + self._timing.provision_delay
        started, ready = self._started.get(uid, (name, begun))
        if started != name:
            ready = begun
        self._started[uid] = name, ready
        if not self.has_come(ready, key_of(claim)):
            return
        node = self.cache.get(NODES, ("", name))
        fault = "refused" if node is None else annotations_of(node).get(PROVISIONING)
        del self._started[uid]
        if fault == "refused":
            _annotate_claim(self, claim, SELECTED_NODE_ANNOTATION, None)
        elif fault == "stuck" or node is None:
            raise Requeue
        else:
            self.api.create(PERSISTENT_VOLUMES, _local_volume(volume, claim, node))

    def _collect(self, volume: Object) -> None:
        made = annotations_of(volume).get("pv.kubernetes.io/provisioned-by") == LOCAL_PATH
        deleted = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
        if made and deleted and volume["status"].get("phase") == "Released":
            self.api.delete(PERSISTENT_VOLUMES, "", volume["metadata"]["name"])


def _local_volume(name: str, claim: Object, node: Object) -> Object:
    namespace, claim_name = key_of(claim)
    spec, hostname = claim["spec"], "kubernetes.io/hostname"
    here = node["metadata"].get("labels", {}).get(hostname, node["metadata"]["name"])
    term = {"matchExpressions": [{"key": hostname, "operator": "In", "values": [here]}]}
    path = f"/var/lib/rancher/k3s/storage/{name}_{namespace}_{claim_name}"
    return {
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": LOCAL_PATH},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claim_name,
                "uid": claim["metadata"]["uid"],
            },
        },
    }

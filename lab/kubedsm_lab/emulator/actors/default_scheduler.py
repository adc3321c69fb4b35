"""Emulated kube-scheduler, for pods without another schedulerName.

Filter and Score plugins equal the KubeScheduler baseline, without edge preference. An unschedulable
pod waits until something changes. No pod is preempted. A pod with unbound claims is bound together
with the selection of its node for the claims; its kubelet waits for the volumes.
"""

import random

import attrs

from kubedsm.config.settings import Configuration
from kubedsm.kube.wire import dump
from kubedsm.kube.wire.annotations import SELECTED_NODE_ANNOTATION
from kubedsm.kube.wire.decoding import SURROUNDINGS
from kubedsm.model.events import KindKnown
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import NodeName, Pod, Tier, Tiers
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import unschedulable_message
from kubedsm.plugins.volume_binding import assign_claims
from kubedsm_lab.baselines.in_turn import InTurn
from kubedsm_lab.baselines.kube_scheduler import KubeScheduler
from kubedsm_lab.emulator.actors.cache import Cache, Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.object_state import (
    condition_of,
    is_terminating,
    key_of,
    node_of,
)
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Object,
)
from kubedsm_lab.emulator.api.statuses import pod_condition, with_condition
from kubedsm_lab.emulator.api.store import ObjectChange

NAME = "default-scheduler"
#: kinds that decide the nodes of a pod with claims
_STORAGE = (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES)
#: the only key: all waiting pods are scheduled together
_ALL: Key = ("", "")
#: seconds in which changes are batched
_PAUSE = 0.1


@attrs.frozen
class _NoTiers(Tiers):
    """Tier lookup for the emulated kube-scheduler, which knows no edge and cloud: every node has
    the tier cloud.
    """

    def of(self, _: object) -> Tier:
        return Tier.CLOUD


class DefaultScheduler(Controller):
    component = NAME

    def __init__(self, cache: Cache, rng: random.Random) -> None:
        super().__init__(cache)
        self._rng = rng
        default = Configuration()
        self._policy = InTurn(KubeScheduler(), default.qos_target, default.objective_function)
        self._waiting: set[Key] = set()

    def subscribe(self) -> None:
        self.cache.on(PODS, self._pod_changed)
        for kind in (NODES, *_STORAGE):
            self.cache.on(kind, lambda _: self._retry_waiting())

    def _pod_changed(self, change: ObjectChange) -> None:
        key = key_of(change.object)
        if change.type != "DELETED" and _waits(change.object):
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        self._retry_waiting()

    def _retry_waiting(self) -> None:
        if self._waiting:
            self.enqueue_after(_ALL, _PAUSE)

    def reconcile(self, key: Key) -> None:  # noqa: ARG002 - there is but one
        if not self._waiting:
            return
        decision = self._decision()
        for pod, node, _ in decision.bindings:
            found = self.cache.by_uid(pod.uid)
            if found is not None:
                self._assign_claims(pod, node)
                self._bind(found[1], node)
        for uid, rejections in decision.unplaced.items():
            found = self.cache.by_uid(uid)
            if found is not None:
                self._refuse(found[1], unschedulable_message(rejections))

    def _bind(self, pod: Object, node: str) -> None:
        namespace, name = key_of(pod)
        target = {"kind": "Node", "name": node}
        self.api.bind(namespace, name, {"metadata": {}, "target": target})
        said = f"Successfully assigned {namespace}/{name} to {node}"
        self.note(PODS, pod, "Scheduled", said)

    def _assign_claims(self, pod: Pod, node: NodeName) -> None:
        """Reserve a volume for each claim of the pod that waits for the choice of the node, or
        have one provisioned.
        """
        placed = self._snapshot().with_placed({pod.uid: node})
        assigned = assign_claims(Feasibility.of(placed).scene)
        for key in pod.pod_class.rules.claim_keys:
            if key not in assigned or assigned[key].claim.selected_node:
                continue
            claim, _, volume = assigned[key]
            reference = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
            if volume:
                patch: Object = {"spec": {"claimRef": reference}}
                self.api.patch(PERSISTENT_VOLUMES, "", volume, patch, MERGE_PATCH)
            else:
                patch = {"metadata": {"annotations": {SELECTED_NODE_ANNOTATION: node}}}
                self.api.patch(
                    PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name, patch, MERGE_PATCH
                )

    def _snapshot(self) -> Snapshot:
        kinds = (NODES, PODS, NAMESPACES, *_STORAGE)
        known = [obj for kind in kinds for obj in self.cache.all(kind)]
        mirror = ClusterMirror(NAME, _NoTiers())
        for event in dump.of_objects(known, NAME).events:
            mirror.apply(event)
        for kind in SURROUNDINGS:
            mirror.apply(KindKnown(kind))
        return mirror.snapshot()

    def _decision(self) -> Decision:
        snapshot = self._snapshot()
        waiting = snapshot.schedulable(snapshot.pods.values())
        return self._policy.place(snapshot, waiting, self._rng)

    def _refuse(self, pod: Object, message: str) -> None:
        before = condition_of(pod, "PodScheduled")
        if before is not None and before.get("message") == message:
            return
        why = {"reason": "Unschedulable", "message": message}
        condition = pod_condition("PodScheduled", "False", self.now(), **why)
        self.write_status(PODS, pod, with_condition(pod, condition)["status"])
        self.note(PODS, pod, "FailedScheduling", message, "Warning")


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    ours = spec["schedulerName"] == NAME and not spec.get("schedulingGates")
    return ours and not node_of(pod) and not is_terminating(pod)

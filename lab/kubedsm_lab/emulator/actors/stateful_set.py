"""StatefulSet controller: pods with stable names, created and deleted in order.

A pod of the same name, with a new uid, is created only after the old one is gone. There are no
ControllerRevisions here: a lost pod below the partition of a rolling update is recreated from the
current template. Implementation follows k8s.io/kubernetes/pkg/controller/statefulset.
"""

import attrs

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.actors.ownership import build_owned_pod, claim
from kubedsm_lab.emulator.actors.rollout import template_hash
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import (
    available_at,
    is_finished,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
)
from kubedsm_lab.emulator.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    Object,
)

_REVISION = "controller-revision-hash"


@attrs.frozen
class _Plan:
    """StatefulSet with its pods by ordinal, as read at the start of one reconciliation."""

    stateful_set: Object
    revision: str
    pods: dict[int, Object]

    @property
    def wanted(self) -> range:
        spec = self.stateful_set["spec"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        return range(start, start + spec.get("replicas", 1))

    @property
    def in_order(self) -> bool:
        policy: str = self.stateful_set["spec"].get("podManagementPolicy", "OrderedReady")
        return policy == "OrderedReady"


class StatefulSetController(Controller):
    component = "statefulset-controller"

    def subscribe(self) -> None:
        self.follow_with_pods(STATEFUL_SETS)

    def reconcile(self, key: Key) -> None:
        stateful_set = self.cache.get(STATEFUL_SETS, key)
        if stateful_set is None:
            return
        refused = None
        if not is_terminating(stateful_set):
            plan = self._make_plan(stateful_set)
            try:
                if self._fill(plan) and self._delete_surplus(plan):
                    self._update(plan)
            except ApiError as error:
                refused = error
        stateful_set = self.cache.get(STATEFUL_SETS, key)
        if stateful_set is not None:
            status = self._status(self._make_plan(stateful_set))
            self.write_status(STATEFUL_SETS, stateful_set, status)
        if refused is not None:
            raise Requeue from refused

    def _make_plan(self, stateful_set: Object) -> _Plan:
        name = stateful_set["metadata"]["name"]
        pods = claim(
            self, STATEFUL_SETS, stateful_set, eligible=lambda pod: _ordinal(name, pod) is not None
        )
        revision = f"{name}-{template_hash(stateful_set['spec']['template'])}"
        by_ordinal = {o: pod for pod in pods if (o := _ordinal(name, pod)) is not None}
        return _Plan(stateful_set, revision, by_ordinal)

    def _fill(self, plan: _Plan) -> bool:
        """Create missing pods, lowest ordinal first; return whether all pods are available."""
        complete = True
        for ordinal in plan.wanted:
            pod = plan.pods.get(ordinal)
            if pod is None:
                namespace = plan.stateful_set["metadata"]["namespace"]
                self._create_claims(plan, ordinal)
                made = self.api.create(PODS, _pod_of(plan, ordinal), namespace=namespace)
                self._note_pod(plan, made, "create")
            elif is_finished(pod) and not is_terminating(pod):
                self._delete(plan, pod)
            elif not is_terminating(pod) and self._is_available(plan, pod):
                continue
            if plan.in_order:
                return False
            complete = False
        return complete

    def _create_claims(self, plan: _Plan, ordinal: int) -> None:
        """Create the missing volume claims of a pod; claims of deleted pods remain."""
        namespace = plan.stateful_set["metadata"]["namespace"]
        for template in plan.stateful_set["spec"].get("volumeClaimTemplates") or ():
            name = _claim_name(plan, template, ordinal)
            if self.api.exists(PERSISTENT_VOLUME_CLAIMS, namespace, name):
                continue
            labels = plan.stateful_set["spec"]["selector"].get("matchLabels") or {}
            metadata = {"name": name, "labels": {**labels_of(template), **labels}}
            self.api.create(
                PERSISTENT_VOLUME_CLAIMS,
                {"metadata": metadata, "spec": template["spec"]},
                namespace=namespace,
            )

    def _delete_surplus(self, plan: _Plan) -> bool:
        """Delete surplus pods, highest ordinal first; return whether none are left."""
        surplus = sorted(set(plan.pods) - set(plan.wanted), reverse=True)
        for ordinal in surplus:
            if not is_terminating(plan.pods[ordinal]):
                self._delete(plan, plan.pods[ordinal])
            if plan.in_order:
                return False
        return not surplus

    def _update(self, plan: _Plan) -> None:
        """Delete one pod of an outdated revision, highest ordinal first (rolling update).

        Called only while all pods are available.
        """
        strategy = plan.stateful_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(plan.wanted):
            pod = plan.pods[ordinal]
            if ordinal >= partition and labels_of(pod).get(_REVISION) != plan.revision:
                self._delete(plan, pod)
                return

    def _delete(self, plan: _Plan, pod: Object) -> None:
        self.api.delete(PODS, *key_of(pod), uid=pod["metadata"]["uid"])
        self._note_pod(plan, pod, "delete")

    def _note_pod(self, plan: _Plan, pod: Object, verb: str) -> None:
        name, owner = pod["metadata"]["name"], plan.stateful_set["metadata"]["name"]
        message = f"{verb} Pod {name} in StatefulSet {owner} successful"
        self.note(STATEFUL_SETS, plan.stateful_set, f"Successful{verb.capitalize()}", message)

    def _is_available(self, plan: _Plan, pod: Object) -> bool:
        seconds = plan.stateful_set["spec"].get("minReadySeconds", 0)
        available = available_at(pod, seconds)
        if available is None:
            return False
        return self.has_passed(available, key_of(plan.stateful_set))

    def _status(self, plan: _Plan) -> Object:
        before = plan.stateful_set["status"]
        current = before.get("currentRevision", plan.revision)
        pods = list(plan.pods.values())
        ready = sum(map(is_ready, pods))

        def of_revision(revision: str) -> int:
            return sum(
                labels_of(pod).get(_REVISION) == revision and not is_terminating(pod)
                for pod in pods
            )

        updated = of_revision(plan.revision)
        if updated == len(pods) == ready == len(plan.wanted):
            current = plan.revision
        status: Object = {
            "observedGeneration": plan.stateful_set["metadata"]["generation"],
            "replicas": len(pods),
        }
        numbers = {
            "readyReplicas": ready,
            "currentReplicas": of_revision(current),
            "updatedReplicas": updated,
        }
        status |= {name: number for name, number in numbers.items() if number}
        return {
            **status,
            "currentRevision": current,
            "updateRevision": plan.revision,
            "collisionCount": 0,
            "availableReplicas": sum(self._is_available(plan, pod) for pod in pods),
        }


def _ordinal(name: str, pod: Object) -> int | None:
    parent, _, ordinal = pod["metadata"]["name"].rpartition("-")
    return int(ordinal) if parent == name and ordinal.isdecimal() else None


def _claim_name(plan: _Plan, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{plan.stateful_set['metadata']['name']}-{ordinal}"


def _pod_of(plan: _Plan, ordinal: int) -> Object:
    metadata, spec = plan.stateful_set["metadata"], plan.stateful_set["spec"]
    name = f"{metadata['name']}-{ordinal}"
    labels = {
        **labels_of(spec["template"]),
        "apps.kubernetes.io/pod-index": str(ordinal),
        _REVISION: plan.revision,
        "statefulset.kubernetes.io/pod-name": name,
    }
    base = f"{metadata['name']}-"
    pod = build_owned_pod(
        STATEFUL_SETS, plan.stateful_set, name=name, generateName=base, labels=labels
    )
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    for template in spec.get("volumeClaimTemplates") or ():
        claim, volume = _claim_name(plan, template, ordinal), template["metadata"]["name"]
        volumes[volume] = {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
    own: Object = {"hostname": name, "subdomain": spec.get("serviceName", "")}
    if volumes:
        own["volumes"] = list(volumes.values())
    return {**pod, "spec": {**pod["spec"], **own}}

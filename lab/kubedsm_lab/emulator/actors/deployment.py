"""Deployment controller: one ReplicaSet per template, and rollouts from old ones to the new one.

The rules are those of k8s.io/kubernetes/pkg/controller/deployment (sync.go, progress.go).
"""

import math
from collections.abc import Sequence

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, controller_of, key_of
from kubedsm_lab.emulator.actors.conditions import find, of, reason_of, without
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.actors.ownership import claim, owners_concerned
from kubedsm_lab.emulator.actors.pod_state import annotations_of, is_finished, is_terminating
from kubedsm_lab.emulator.actors.rollout import (
    REVISION,
    Family,
    has_template,
    inherited,
    is_rolling,
    is_saturated,
    is_scaled,
    max_surge,
    max_unavailable,
    new_size,
    old_sizes,
    proportional_sizes,
    replica_set_of,
    revision_of,
    share_of,
    sizing,
    wanted,
)
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.api.values import seconds


class DeploymentController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on(DEPLOYMENTS, lambda change: self.enqueue(key_of(change.object)))
        cache.on(REPLICA_SETS, self._replica_set_changed)
        cache.on(PODS, self._pod_changed)

    def _replica_set_changed(self, change: ObjectChange) -> None:
        for owner in owners_concerned(self.cache, DEPLOYMENTS, change):
            self.enqueue(key_of(owner))

    def _pod_changed(self, change: ObjectChange) -> None:
        """A Deployment that recreates waits for the last old pod to be gone."""
        if change.type != "DELETED":
            return
        reference = controller_of(change.object)
        found = reference and self.cache.by_uid(reference["uid"])
        owner = found and controller_of(found[1])
        above = owner and self.cache.by_uid(owner["uid"])
        if above and above[0] is DEPLOYMENTS and not is_rolling(above[1]):
            self.enqueue(key_of(above[1]))

    def reconcile(self, key: Key) -> None:
        deployment = self.cache.get(DEPLOYMENTS, key)
        if deployment is None:
            return
        family = self._family(deployment)
        if is_terminating(deployment):
            self._report_counts(key)
            return
        deployment = self._with_pause_noted(deployment)
        family = Family(deployment, family.new, family.old)
        if deployment["spec"].get("paused") or is_scaled(family):
            self._scale(family)
            if deployment["spec"].get("paused"):
                self._forget_history(self._family(self._present(key)))
            self._report_counts(key)
            return
        if is_rolling(deployment):
            self._roll(self._with_new(family))
        elif self._old_pods_are_gone(family):
            family = self._with_new(family)
            if family.new is not None:
                self._resize(family.deployment, family.new, wanted(family.deployment))
        family = self._family(self._present(key))
        if complete(family.deployment, family.deployment["status"]):
            self._forget_history(family)
            family = self._family(family.deployment)
        self._report(key, progressed(family.deployment, family.new, family.everything, self.now()))

    def _present(self, key: Key) -> Object:
        """As it stands after our own writes. Raises ApiError (404)."""
        return self.cache.get(DEPLOYMENTS, key) or self.api.get(DEPLOYMENTS, *key)

    def _report_counts(self, key: Key) -> None:
        family = self._family(self._present(key))
        self._report(key, counted(family.deployment, family.new, family.everything, self.now()))

    def _report(self, key: Key, status: Object) -> None:
        deployment = self._present(key)
        self.write_status(DEPLOYMENTS, deployment, status)
        left = seconds_left(deployment, status.get("conditions", []), self.now())
        if left is not None and left >= 0:
            self.enqueue_after(key, left + 1)

    # The ReplicaSets.

    def _family(self, deployment: Object) -> Family:
        owned = claim(
            self.api,
            self.cache,
            owner=(DEPLOYMENTS, deployment),
            resource=REPLICA_SETS,
            eligible=lambda _: True,
        )
        owned.sort(
            key=lambda rs: (rs["metadata"]["creationTimestamp"], revision_of(rs), key_of(rs))
        )
        template = deployment["spec"]["template"]
        new = next((rs for rs in owned if has_template(rs, template)), None)
        return Family(deployment, new, [rs for rs in owned if rs is not new])

    def _with_new(self, family: Family) -> Family:
        """With a ReplicaSet for the current template, and the revision counted up to it."""
        revision = max((revision_of(rs) for rs in family.old), default=0) + 1
        if family.new is None:
            new = self._create(family, revision)
            reason, message = "NewReplicaSetCreated", "Created new replica set"
        else:
            new = self._brought_up_to_date(family.deployment, family.new, revision)
            reason, message = "FoundNewReplicaSet", "Found new replica set"
        message = f'{message} "{new["metadata"]["name"]}"'
        deployment = self._with_revision_noted(family.deployment, new, reason, message)
        return Family(deployment, new, family.old)

    def _create(self, family: Family, revision: int) -> Object:
        deployment = family.deployment
        new = replica_set_of(deployment, revision)
        size = new_size(deployment, new, [*family.old, new])
        new = {**new, "spec": {**new["spec"], "replicas": size}}
        namespace = deployment["metadata"]["namespace"]
        try:
            return self.api.create(REPLICA_SETS, new, namespace=namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                self._count_collision(deployment)
                raise
            self._note_refusal(deployment, error)
            raise Requeue from error

    def _note_refusal(self, deployment: Object, error: ApiError) -> None:
        """A quota, or a name that leaves no room for a hash: it is the user's to see."""
        now, before = self.now(), of(deployment["status"])
        conditions = set_condition(
            before, "Progressing", "False", now, "ReplicaSetCreateError", error.message
        )
        if "progressDeadlineSeconds" in deployment["spec"] and conditions != before:
            self._write_conditions(deployment, conditions)

    def _count_collision(self, deployment: Object) -> None:
        """A ReplicaSet of another owner has that name: the next attempt takes another hash."""
        status = deployment["status"]
        collided = {**status, "collisionCount": status.get("collisionCount", 0) + 1}
        self.write_status(DEPLOYMENTS, deployment, collided)

    def _brought_up_to_date(self, deployment: Object, new: Object, revision: int) -> Object:
        """A ReplicaSet that was there: an old template may have become the current one again."""
        annotations = {**inherited(deployment), REVISION: str(max(revision, revision_of(new)))}
        patience = deployment["spec"].get("minReadySeconds", 0)
        patch: Object = {}
        if not annotations.items() <= annotations_of(new).items():
            patch["metadata"] = {"annotations": annotations}
        if patience != new["spec"].get("minReadySeconds", 0):
            patch["spec"] = {"minReadySeconds": patience}
        return self.api.patch(REPLICA_SETS, *key_of(new), patch, MERGE_PATCH) if patch else new

    def _with_revision_noted(
        self, deployment: Object, new: Object, reason: str, message: str
    ) -> Object:
        """With the revision, and the condition that a rollout begins, both written down."""
        annotations = {**annotations_of(deployment), REVISION: annotations_of(new)[REVISION]}
        conditions = of(deployment["status"])
        if "progressDeadlineSeconds" in deployment["spec"] and (
            reason == "NewReplicaSetCreated" or not find(conditions, "Progressing")
        ):
            now = self.now()
            conditions = set_condition(conditions, "Progressing", "True", now, reason, message)
        if (annotations, conditions) == (annotations_of(deployment), of(deployment["status"])):
            return deployment
        # Through the status, for a change of annotations would count as a new generation.
        return self.api.update(
            DEPLOYMENTS,
            {
                **deployment,
                "metadata": {**deployment["metadata"], "annotations": annotations},
                "status": {**deployment["status"], "conditions": conditions},
            },
            subresource="status",
        )

    def _with_pause_noted(self, deployment: Object) -> Object:
        """With the Progressing condition saying whether the rollout is paused."""
        current = find(of(deployment["status"]), "Progressing")
        paused = bool(deployment["spec"].get("paused"))
        if "progressDeadlineSeconds" not in deployment["spec"] or (
            reason_of(current) == "ProgressDeadlineExceeded"
        ):
            return deployment
        if paused == (reason_of(current) == "DeploymentPaused"):
            return deployment
        reason, message = (
            ("DeploymentPaused", "Deployment is paused")
            if paused
            else ("DeploymentResumed", "Deployment is resumed")
        )
        now = self.now()
        conditions = set_condition(
            of(deployment["status"]), "Progressing", "Unknown", now, reason, message
        )
        return self._write_conditions(deployment, conditions)

    def _write_conditions(self, deployment: Object, conditions: list[Object]) -> Object:
        status = {**deployment["status"], "conditions": conditions}
        return self.write_status(DEPLOYMENTS, deployment, status)

    # Their sizes.

    def _resize(self, deployment: Object, replica_set: Object, size: int) -> bool:
        """Write the size, and for which size of the Deployment it was chosen."""
        annotations = sizing(deployment)
        resized = wanted(replica_set) != size
        if not resized and annotations.items() <= annotations_of(replica_set).items():
            return False
        patch: Object = {
            "metadata": {
                "resourceVersion": replica_set["metadata"]["resourceVersion"],
                "annotations": annotations,
            }
        }
        if resized:
            patch["spec"] = {"replicas": size}
        self.api.patch(REPLICA_SETS, *key_of(replica_set), patch, MERGE_PATCH)
        return resized

    def _roll(self, family: Family) -> None:
        deployment, new = family.deployment, family.new
        if new is None or self._resize(
            deployment, new, new_size(deployment, new, family.everything)
        ):
            return
        for name, size in old_sizes(deployment, new, family.old).items():
            old = next(rs for rs in family.old if rs["metadata"]["name"] == name)
            self._resize(deployment, old, size)

    def _old_pods_are_gone(self, family: Family) -> bool:
        """Recreate: the old pods go first, all of them, before a new one is made."""
        active = [rs for rs in family.old if wanted(rs)]
        for old in active:
            self._resize(family.deployment, old, 0)
        return not active and not self._any_pod_left(family.old)

    def _any_pod_left(self, old: Sequence[Object]) -> bool:
        return any(
            not is_finished(pod)
            for rs in old
            for pod in self.cache.controlled_by(PODS, rs["metadata"]["uid"])
        )

    def _scale(self, family: Family) -> None:
        """Follow a change of size outside of a rollout, or in its middle."""
        deployment, replicas = family.deployment, wanted(family.deployment)
        active = [rs for rs in family.everything if wanted(rs)]
        if len(active) <= 1:
            only = active[0] if active else family.new or next(reversed(family.old), None)
            if only is not None:
                self._resize(deployment, only, replicas)
        elif family.new is not None and is_saturated(deployment, family.new):
            for old in active:
                if old is not family.new:
                    self._resize(deployment, old, 0)
        elif is_rolling(deployment):
            shares = [share_of(rs, replicas) for rs in active]
            sizes = proportional_sizes(shares, replicas, max_surge(deployment))
            for rs in active:
                self._resize(deployment, rs, sizes[rs["metadata"]["name"]])

    def _forget_history(self, family: Family) -> None:
        """Delete the oldest empty ReplicaSets beyond what the Deployment keeps."""
        limit = family.deployment["spec"].get("revisionHistoryLimit")
        old = [rs for rs in family.old if not is_terminating(rs)]
        if limit is None or len(old) <= limit:
            return
        for rs in sorted(old, key=revision_of)[: len(old) - limit]:
            settled = rs["status"].get("observedGeneration", 0) >= rs["metadata"]["generation"]
            if settled and not (wanted(rs) or rs["status"].get("replicas", 0)):
                self.api.delete(REPLICA_SETS, *key_of(rs), uid=rs["metadata"]["uid"])


#: reasons of a Progressing condition
_UNDER_WAY = ("NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated")


def set_condition(
    conditions: list[Object], kind: str, status: str, now: str, reason: str, message: str
) -> list[Object]:
    """The conditions with this one: as they were if it says nothing new, else it comes last."""
    old = find(conditions, kind)
    if old is not None and (old["status"], reason_of(old)) == (status, reason):
        return conditions
    same_status = old is not None and old["status"] == status
    new = {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": old["lastTransitionTime"] if old and same_status else now,
        "reason": reason,
        "message": message,
    }
    return [*without(conditions, kind), new]


def counted(
    deployment: Object, new: Object | None, everything: Sequence[Object], now: str
) -> Object:
    """The status without an estimate of progress: counts, and whether it is available."""

    def total(field: str) -> int:
        return sum(rs["status"].get(field, 0) for rs in everything)

    available = total("availableReplicas")
    numbers = {
        "replicas": total("replicas"),
        "updatedReplicas": new["status"].get("replicas", 0) if new else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(wanted, everything)) - available),
    }
    status: Object = {"observedGeneration": deployment["metadata"]["generation"]}
    status |= {name: number for name, number in numbers.items() if number}
    status["terminatingReplicas"] = total("terminatingReplicas")
    if collisions := deployment["status"].get("collisionCount"):
        status["collisionCount"] = collisions
    if available >= wanted(deployment) - max_unavailable(deployment):
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    flag, reason, message = verdict
    status["conditions"] = set_condition(
        of(deployment["status"]), "Available", flag, now, reason, message
    )
    return status


def complete(deployment: Object, status: Object) -> bool:
    """Every pod is of the current template and available, and none is of another."""
    replicas = wanted(deployment)
    return status.get("observedGeneration", 0) >= deployment["metadata"]["generation"] and all(
        status.get(field, 0) == replicas
        for field in ("updatedReplicas", "replicas", "availableReplicas")
    )


def progressed(
    deployment: Object, new: Object | None, everything: Sequence[Object], now: str
) -> Object:
    """The status during or after a rollout, with its Progressing and ReplicaFailure conditions."""
    status = counted(deployment, new, everything, now)
    conditions = status["conditions"]
    if "progressDeadlineSeconds" not in deployment["spec"]:
        conditions = without(conditions, "Progressing")
    elif not _is_resting(deployment, status):
        conditions = _with_progress(deployment, status, new, now)
    failure = next(
        (c for rs in everything if (c := find(of(rs["status"]), "ReplicaFailure"))), None
    )
    if failure is None:
        conditions = without(conditions, "ReplicaFailure")
    else:
        conditions = set_condition(
            conditions,
            "ReplicaFailure",
            "True",
            now,
            reason_of(failure),
            failure.get("message", ""),
        )
    return {**status, "conditions": conditions}


def _is_resting(deployment: Object, status: Object) -> bool:
    """No rollout is on: that pods come and go then is no progress, nor the lack of it."""
    current = find(of(deployment["status"]), "Progressing")
    return reason_of(current) == "NewReplicaSetAvailable" and status.get(
        "replicas", 0
    ) == status.get("updatedReplicas", 0)


def _with_progress(
    deployment: Object, status: Object, new: Object | None, now: str
) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    kind, name = (
        ("ReplicaSet", new["metadata"]["name"])
        if new
        else ("Deployment", deployment["metadata"]["name"])
    )
    current = find(conditions, "Progressing")
    if complete(deployment, status):
        message = f'{kind} "{name}" has successfully progressed.'
        return set_condition(
            conditions, "Progressing", "True", now, "NewReplicaSetAvailable", message
        )
    if _is_progress(deployment["status"], status):
        started = current["lastTransitionTime"] if current and current["status"] == "True" else now
        condition = {
            "type": "Progressing",
            "status": "True",
            "lastUpdateTime": now,
            "lastTransitionTime": started,
            "reason": "ReplicaSetUpdated",
            "message": f'{kind} "{name}" is progressing.',
        }
        return [*without(conditions, "Progressing"), condition]
    left = seconds_left(deployment, conditions, now)
    if left is not None and left <= 0:
        message = f'{kind} "{name}" has timed out progressing.'
        return set_condition(
            conditions, "Progressing", "False", now, "ProgressDeadlineExceeded", message
        )
    return conditions


def _is_progress(before: Object, after: Object) -> bool:
    def old_pods(status: Object) -> int:
        count: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
        return count

    return old_pods(after) < old_pods(before) or any(
        after.get(field, 0) > before.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def seconds_left(deployment: Object, conditions: list[Object], now: str) -> float | None:
    """Until the rollout counts as stuck; None if none is on."""
    limit = deployment["spec"].get("progressDeadlineSeconds")
    current = find(conditions, "Progressing")
    if limit is None or current is None:
        return None
    if reason_of(current) not in _UNDER_WAY:
        return None
    updated = current["lastUpdateTime"]
    left: float = limit - (seconds(now) - seconds(updated)) if updated else -math.inf
    return left

"""Deployment controller: one ReplicaSet per template, and progressive rollouts between ReplicaSets.

Implementation follows k8s.io/kubernetes/pkg/controller/deployment (sync.go, progress.go), without
pauses and progress deadlines.
"""

from kubedsm_lab.emulator.actors import rollout
from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller, Requeue
from kubedsm_lab.emulator.actors.ownership import claim
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.object_state import (
    annotations_of,
    condition_of,
    conditions_of,
    find_condition,
    is_finished,
    is_terminating,
    key_of,
    new_condition,
    reason_of,
    update_condition,
    without_condition,
)
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, PODS, REPLICA_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange


class DeploymentController(Controller):
    component = "deployment-controller"

    def subscribe(self) -> None:
        self.follow(DEPLOYMENTS)
        self.follow_owned(REPLICA_SETS, DEPLOYMENTS)
        self.cache.on(PODS, self._pod_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        """Enqueue the Deployment with strategy Recreate whose rollout waits for this old pod."""
        if change.type != "DELETED":
            return
        replica_set = self.cache.find_controller(change.object)
        above = replica_set and self.cache.find_controller(replica_set[1])
        if above and above[0] is DEPLOYMENTS and not rollout.is_rolling(above[1]):
            self.enqueue(key_of(above[1]))

    def reconcile(self, key: Key) -> None:
        deployment = self.cache.get(DEPLOYMENTS, key)
        if deployment is None:
            return
        if is_terminating(deployment):
            self._report_counts(key)
            return
        family = self._read_family(deployment)
        if rollout.is_scaled(family):
            self._scale(family)
            self._report_counts(key)
            return
        if rollout.is_rolling(deployment):
            self._roll_out(self._ensure_new(family))
        elif self._are_old_pods_gone(family):
            family = self._ensure_new(family)
            if family.new is not None:
                self._resize(family.deployment, family.new, rollout.wanted(family.deployment))
        family = self._read_family(self._read(key))
        if is_complete(family.deployment, family.deployment["status"]):
            self._delete_history(family)
            family = self._read_family(family.deployment)
        self._report(key, rollout_status(family, self.now()))

    def _read(self, key: Key) -> Object:
        """Return the Deployment as stored, including the controller's own latest writes. Raises
        ApiError (404).
        """
        return self.cache.get(DEPLOYMENTS, key) or self.api.get(DEPLOYMENTS, *key)

    def _report_counts(self, key: Key) -> None:
        self._report(key, count_status(self._read_family(self._read(key)), self.now()))

    def _report(self, key: Key, status: Object) -> None:
        self.write_status(DEPLOYMENTS, self._read(key), status)

    # The ReplicaSets.

    def _read_family(self, deployment: Object) -> rollout.Family:
        owned = claim(self, DEPLOYMENTS, deployment, REPLICA_SETS)
        owned.sort(
            key=lambda rs: (
                rs["metadata"]["creationTimestamp"],
                rollout.revision_of(rs),
                key_of(rs),
            )
        )
        template = deployment["spec"]["template"]
        new = next((rs for rs in owned if rollout.has_template(rs, template)), None)
        return rollout.Family(deployment, new, [rs for rs in owned if rs is not new])

    def _ensure_new(self, family: rollout.Family) -> rollout.Family:
        """Create or refresh the ReplicaSet of the current template, with the next revision."""
        revision = max((rollout.revision_of(rs) for rs in family.old), default=0) + 1
        if family.new is None:
            new = self._create(family, revision)
            reason, message = "NewReplicaSetCreated", "Created new replica set"
        else:
            new = self._refresh_new(family.deployment, family.new, revision)
            reason, message = "FoundNewReplicaSet", "Found new replica set"
        message = f'{message} "{new["metadata"]["name"]}"'
        deployment = self._record_revision(family.deployment, new, reason, message)
        return rollout.Family(deployment, new, family.old)

    def _create(self, family: rollout.Family, revision: int) -> Object:
        deployment = family.deployment
        new = rollout.replica_set_of(deployment, revision)
        size = rollout.new_size(deployment, new, [*family.old, new])
        new = {**new, "spec": {**new["spec"], "replicas": size}}
        namespace = deployment["metadata"]["namespace"]
        try:
            made = self.api.create(REPLICA_SETS, new, namespace=namespace)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                # A ReplicaSet of another owner has the name: the next attempt takes another hash.
                status = deployment["status"]
                collided = {**status, "collisionCount": status.get("collisionCount", 0) + 1}
                self.write_status(DEPLOYMENTS, deployment, collided)
                raise
            # A quota, or a name too long for a hash suffix.
            raise Requeue from error
        if size:
            self._note_scaling(deployment, made, 0, size)
        return made

    def _note_scaling(
        self, deployment: Object, replica_set: Object, before: int, size: int
    ) -> None:
        side, name = "up" if size > before else "down", replica_set["metadata"]["name"]
        message = f"Scaled {side} replica set {name} from {before} to {size}"
        self.note(DEPLOYMENTS, deployment, "ScalingReplicaSet", message)

    def _refresh_new(self, deployment: Object, new: Object, revision: int) -> Object:
        """Update revision and minReadySeconds of a reused ReplicaSet, as after a rollback."""
        annotations = {
            **rollout.inherit_annotations(deployment),
            rollout.REVISION: str(max(revision, rollout.revision_of(new))),
        }
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        patch: Object = {}
        if not annotations.items() <= annotations_of(new).items():
            patch["metadata"] = {"annotations": annotations}
        if min_ready != new["spec"].get("minReadySeconds", 0):
            patch["spec"] = {"minReadySeconds": min_ready}
        return self.api.patch(REPLICA_SETS, *key_of(new), patch, MERGE_PATCH) if patch else new

    def _record_revision(
        self, deployment: Object, new: Object, reason: str, message: str
    ) -> Object:
        """Write the Deployment's revision annotation and its Progressing condition."""
        annotations = {
            **annotations_of(deployment),
            rollout.REVISION: annotations_of(new)[rollout.REVISION],
        }
        conditions = conditions_of(deployment["status"])
        if reason == "NewReplicaSetCreated" or not find_condition(conditions, "Progressing"):
            reported = ("Progressing", "True", self.now(), reason, message)
            conditions = set_condition(conditions, *reported)
        if (annotations, conditions) == (
            annotations_of(deployment),
            conditions_of(deployment["status"]),
        ):
            return deployment
        # Through the status: a change of annotations would increase the generation.
        return self.api.update(
            DEPLOYMENTS,
            {
                **deployment,
                "metadata": {**deployment["metadata"], "annotations": annotations},
                "status": {**deployment["status"], "conditions": conditions},
            },
            subresource="status",
        )

    # Their sizes.

    def _resize(self, deployment: Object, replica_set: Object, size: int) -> bool:
        """Write a ReplicaSet's replicas and size annotations; return whether replicas changed."""
        annotations = rollout.sizing_annotations(deployment)
        resized = rollout.wanted(replica_set) != size
        if not resized and annotations.items() <= annotations_of(replica_set).items():
            return False
        version = replica_set["metadata"]["resourceVersion"]
        patch: Object = {"metadata": {"resourceVersion": version, "annotations": annotations}}
        if resized:
            patch["spec"] = {"replicas": size}
        self.api.patch(REPLICA_SETS, *key_of(replica_set), patch, MERGE_PATCH)
        if resized:
            self._note_scaling(deployment, replica_set, rollout.wanted(replica_set), size)
        return resized

    def _roll_out(self, family: rollout.Family) -> None:
        deployment, new = family.deployment, family.new
        if new is None or self._resize(
            deployment, new, rollout.new_size(deployment, new, family.everything)
        ):
            return
        for name, size in rollout.old_sizes(deployment, new, family.old).items():
            old = next(rs for rs in family.old if rs["metadata"]["name"] == name)
            self._resize(deployment, old, size)

    def _are_old_pods_gone(self, family: rollout.Family) -> bool:
        """Scale old ReplicaSets to 0 (strategy Recreate); return True once their pods are gone."""
        active = [rs for rs in family.old if rollout.wanted(rs)]
        for old in active:
            self._resize(family.deployment, old, 0)
        return not active and all(
            is_finished(pod)
            for rs in family.old
            for pod in self.cache.list_controlled(PODS, rs["metadata"]["uid"])
        )

    def _scale(self, family: rollout.Family) -> None:
        """Distribute a change of the Deployment's replicas over its ReplicaSets."""
        deployment, replicas = family.deployment, rollout.wanted(family.deployment)
        active = [rs for rs in family.everything if rollout.wanted(rs)]
        if len(active) <= 1:
            only = active[0] if active else family.new or next(reversed(family.old), None)
            if only is not None:
                self._resize(deployment, only, replicas)
        elif rollout.is_rolling(deployment):
            shares = [rollout.share_of(rs, replicas) for rs in active]
            sizes = rollout.proportional_sizes(shares, replicas, rollout.max_surge(deployment))
            for rs in active:
                self._resize(deployment, rs, sizes[rs["metadata"]["name"]])

    def _delete_history(self, family: rollout.Family) -> None:
        """Delete the oldest empty ReplicaSets beyond revisionHistoryLimit."""
        limit = family.deployment["spec"].get("revisionHistoryLimit")
        old = [rs for rs in family.old if not is_terminating(rs)]
        if limit is None or len(old) <= limit:
            return
        for rs in sorted(old, key=rollout.revision_of)[: len(old) - limit]:
            settled = rs["status"].get("observedGeneration", 0) >= rs["metadata"]["generation"]
            if settled and not (rollout.wanted(rs) or rs["status"].get("replicas", 0)):
                self.api.delete(REPLICA_SETS, *key_of(rs), uid=rs["metadata"]["uid"])


# The status of a Deployment.


def set_condition(
    conditions: list[Object], kind: str, status: str, now: str, reason: str, message: str
) -> list[Object]:
    """Replace or add a condition in a list; unchanged if status and reason are equal."""
    old = find_condition(conditions, kind)
    if old is not None and (old["status"], reason_of(old)) == (status, reason):
        return conditions
    new = new_condition(kind, status, now, reason, message, lastUpdateTime=now)
    return update_condition(conditions, new)


def count_status(family: rollout.Family, now: str) -> Object:
    """Return the Deployment's status with pod counts and the Available condition."""
    deployment, new = family.deployment, family.new

    def total(field: str) -> int:
        return sum(rs["status"].get(field, 0) for rs in family.everything)

    available = total("availableReplicas")
    numbers = {
        "replicas": total("replicas"),
        "updatedReplicas": new["status"].get("replicas", 0) if new else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(rollout.wanted, family.everything)) - available),
    }
    status: Object = {"observedGeneration": deployment["metadata"]["generation"]}
    status |= {name: number for name, number in numbers.items() if number}
    status["terminatingReplicas"] = total("terminatingReplicas")
    if collisions := deployment["status"].get("collisionCount"):
        status["collisionCount"] = collisions
    enough = available >= rollout.wanted(deployment) - rollout.max_unavailable(deployment)
    status["conditions"] = set_condition(
        conditions_of(deployment["status"]),
        "Available",
        str(enough),
        now,
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    """Return whether all pods of the Deployment have the current template and are available."""
    replicas = rollout.wanted(deployment)
    return status.get("observedGeneration", 0) >= deployment["metadata"]["generation"] and all(
        status.get(field, 0) == replicas
        for field in ("updatedReplicas", "replicas", "availableReplicas")
    )


def rollout_status(family: rollout.Family, now: str) -> Object:
    """Return the Deployment's status with the Progressing and ReplicaFailure conditions."""
    status = count_status(family, now)
    conditions = status["conditions"]
    if not _is_resting(family.deployment, status):
        conditions = _with_progress(family, status, now)
    found = (condition_of(rs, "ReplicaFailure") for rs in family.everything)
    failure = next(filter(None, found), None)
    if failure is None:
        conditions = without_condition(conditions, "ReplicaFailure")
    else:
        reason, message = reason_of(failure), failure.get("message", "")
        conditions = set_condition(conditions, "ReplicaFailure", "True", now, reason, message)
    return {**status, "conditions": conditions}


def _is_resting(deployment: Object, status: Object) -> bool:
    """Return whether the Deployment has no rollout in progress, so that pod changes do not affect
    the Progressing condition.
    """
    available = reason_of(condition_of(deployment, "Progressing")) == "NewReplicaSetAvailable"
    return available and status.get("replicas", 0) == status.get("updatedReplicas", 0)


def _with_progress(family: rollout.Family, status: Object, now: str) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    kind, named = ("ReplicaSet", family.new) if family.new else ("Deployment", family.deployment)
    subject = f'{kind} "{named["metadata"]["name"]}"'
    if is_complete(family.deployment, status):
        message = f"{subject} has successfully progressed."
        return set_condition(
            conditions, "Progressing", "True", now, "NewReplicaSetAvailable", message
        )
    if _has_progressed(family.deployment["status"], status):
        # The time of the update changes although status and reason may not.
        reported = ("Progressing", "True", now, "ReplicaSetUpdated", f"{subject} is progressing.")
        return update_condition(conditions, new_condition(*reported, lastUpdateTime=now))
    return conditions


def _has_progressed(before: Object, after: Object) -> bool:
    def old_pods(status: Object) -> int:
        count: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
        return count

    return old_pods(after) < old_pods(before) or any(
        after.get(field, 0) > before.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )

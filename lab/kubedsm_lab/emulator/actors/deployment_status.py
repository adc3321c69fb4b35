"""The status of a Deployment, from its ReplicaSets.

The rules are those of k8s.io/kubernetes/pkg/controller/deployment (sync.go, progress.go).
"""

import math
from collections.abc import Sequence

from kubedsm_lab.emulator.actors.conditions import find, of, reason_of, without
from kubedsm_lab.emulator.actors.rollout import max_unavailable, wanted
from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import Object

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

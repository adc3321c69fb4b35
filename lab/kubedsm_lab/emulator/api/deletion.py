"""Deletion of objects: immediate, after the grace period, or once the finalizers are gone.

Source: k8s.io/apiserver/pkg/registry/rest/delete.go and generic/registry/store.go, the pod
strategy's CheckGracefulDelete, and the namespace storage's Delete.
"""

import attrs

from kubedsm_lab.emulator.api.errors import conflict, invalid, not_supported
from kubedsm_lab.emulator.api.object_state import is_finished
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.values import rfc3339, seconds

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"
_FINALIZER_OF = {"Foreground": _FOREGROUND, "Orphan": _ORPHAN, "Background": ""}
#: limit in seconds, for timestamps have one
_LONGEST_GRACE = 10**9


@attrs.frozen
class Deletion:
    """Result of a DELETE request: the object's last state, and whether the object is gone."""

    #: current or final representation
    object: Object
    gone: bool


@attrs.frozen
class DeletionPlan:
    """Storage operations by which a DELETE request is carried out: update, removal or none."""

    #: object to store first, if anything changes
    update: Object | None
    #: whether to remove the object then
    remove: bool


def check_preconditions(
    resource: Resource, current: Object, uid: str, resource_version: str
) -> None:
    """Raise ApiError (409) if the object's uid or resourceVersion is not the required one."""
    metadata = current["metadata"]
    for what, given, recorded, otherwise in (
        ("UID", uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", resource_version, metadata["resourceVersion"], "modified"),
    ):
        if given and given != recorded:
            why = (
                f"the {what} in the precondition ({given}) does not match the {what} in record "
                f"({recorded}). The object might have been {otherwise}"
            )
            raise conflict(resource, metadata["name"], why, kind=resource.kind)


def plan_deletion(
    resource: Resource, current: Object, grace_seconds: int | None, propagation: str, now: float
) -> DeletionPlan:
    """Plan the deletion of an object; `now` is a Unix timestamp. Raises ApiError (422)."""
    if propagation and propagation not in _FINALIZER_OF:
        choices = sorted(_FINALIZER_OF)
        error = not_supported("propagationPolicy", propagation, choices)
        raise invalid("DeleteOptions", "meta.k8s.io", "", [error])
    if resource.kind == "Namespace":
        return _of_namespace(current, now)
    if resource.kind == "Job" and not propagation:
        # default of batch/v1; kubectl sets the policy
        propagation = "Orphan"
    metadata = current["metadata"]
    finalizers = _finalizers_after(metadata.get("finalizers") or [], propagation)
    if resource.kind == "Pod":
        return _of_pod(current, _grace_seconds(current, grace_seconds), finalizers, now)
    if not finalizers:
        return DeletionPlan(None, remove=True)
    changes: Object = {"finalizers": finalizers}
    if "deletionTimestamp" not in metadata:
        changes |= _first_mark(metadata, now, 0)
    return DeletionPlan(_with_metadata(current, changes), remove=False)


def is_deletion_complete(resource: Resource, obj: Object) -> bool:
    """Return whether an update of a terminating object removed its last finalizer, so that the
    object must be deleted.
    """
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if resource.kind == "Namespace":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _of_pod(pod: Object, grace: int | None, finalizers: list[str], now: float) -> DeletionPlan:
    metadata = pod["metadata"]
    held = {"finalizers": finalizers} if finalizers else {}
    if "deletionTimestamp" not in metadata:
        grace = grace or 0
        update = _with_metadata(pod, {**_first_mark(metadata, now, grace), **held})
        return DeletionPlan(update, remove=not grace and not finalizers)
    remaining = metadata.get("deletionGracePeriodSeconds") or 0
    if not remaining:
        return DeletionPlan(None, remove=not finalizers)
    if grace is None or grace >= remaining:
        # a grace period can only be shortened
        return DeletionPlan(None, remove=False)
    started = seconds(metadata["deletionTimestamp"]) - remaining
    mark = {"deletionTimestamp": rfc3339(started + grace), "deletionGracePeriodSeconds": grace}
    return DeletionPlan(_with_metadata(pod, {**mark, **held}), remove=not grace and not finalizers)


def _grace_seconds(pod: Object, asked: int | None) -> int | None:
    """Return the pod's grace period in seconds; None if an earlier deletion stays unchanged."""
    if asked is not None:
        asked = 1 if asked < 0 else min(asked, _LONGEST_GRACE)
    if "deletionTimestamp" in pod["metadata"]:
        return asked
    spec = pod["spec"]
    if not spec.get("nodeName") or is_finished(pod):
        return 0
    own: int = spec["terminationGracePeriodSeconds"]
    return min(own, _LONGEST_GRACE) if asked is None else asked


def _of_namespace(namespace: Object, now: float) -> DeletionPlan:
    metadata, spec = namespace["metadata"], namespace.get("spec") or {}
    if "deletionTimestamp" in metadata:
        remove = not spec.get("finalizers") and not metadata.get("finalizers")
        return DeletionPlan(None, remove=remove)
    marked = _with_metadata(namespace, {"deletionTimestamp": rfc3339(now)})
    status = {**(namespace.get("status") or {}), "phase": "Terminating"}
    return DeletionPlan({**marked, "status": status}, remove=False)


def _first_mark(metadata: Object, now: float, grace: int) -> Object:
    mark: Object = {
        "deletionTimestamp": rfc3339(now + grace),
        "deletionGracePeriodSeconds": grace,
    }
    if metadata.get("generation"):
        mark["generation"] = metadata["generation"] + 1
    return mark


def _finalizers_after(finalizers: list[str], propagation: str) -> list[str]:
    if not propagation:
        return finalizers
    kept = [name for name in finalizers if name not in (_FOREGROUND, _ORPHAN)]
    added = _FINALIZER_OF[propagation]
    return [*kept, added] if added else kept


def _with_metadata(obj: Object, changes: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **changes}}

"""Which objects are a controller's: it lets go of what it no longer selects, and adopts orphans.

The rules are those of `ControllerRefManager` in k8s.io/kubernetes/pkg/controller.
"""

from collections.abc import Callable

from kubedsm_lab.emulator.actors.cache import Cache, controller_of, key_of, owners_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import is_finished, is_ready, is_terminating, labels_of
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import PODS, Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import ObjectChange


def controller_reference(resource: Resource, owner: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def claim(
    api: ApiServer,
    cache: Cache,
    *,
    owner: tuple[Resource, Object],
    resource: Resource,
    eligible: Callable[[Object], bool],
) -> list[Object]:
    """The owner's objects of that resource, after releasing and adopting.

    Only what is `eligible` is looked at. Raises ApiError (404, 409) when a patch comes too late.
    """
    metadata, selector = owner[1]["metadata"], label_selector_of(owner[1]["spec"]["selector"])
    mine = [obj for obj in cache.controlled_by(resource, metadata["uid"]) if eligible(obj)]
    orphans = cache.uncontrolled(resource, metadata.get("namespace", ""))
    if is_terminating(owner[1]):
        return [obj for obj in mine if selector.matches(labels_of(obj))]
    claimed = []
    for obj in mine:
        if selector.matches(labels_of(obj)):
            claimed.append(obj)
        else:
            others = [ref for ref in owners_of(obj) if ref["uid"] != metadata["uid"]]
            set_owners(api, resource, obj, others)
    for obj in orphans:
        if eligible(obj) and not is_terminating(obj) and selector.matches(labels_of(obj)):
            owners = [*owners_of(obj), controller_reference(*owner)]
            claimed.append(set_owners(api, resource, obj, owners))
    return claimed


def set_owners(api: ApiServer, resource: Resource, obj: Object, owners: list[Object]) -> Object:
    metadata = obj["metadata"]
    patch = {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": owners or None,
        }
    }
    return api.patch(resource, *key_of(obj), patch, MERGE_PATCH)


def owners_concerned(cache: Cache, owners: Resource, change: ObjectChange) -> list[Object]:
    """The controllers of that kind which a change of one of their objects concerns.

    Its controller, the one it had before, and those that could adopt an orphan.
    """
    concerned: dict[str, Object] = {}
    for state in (change.previous, change.object):
        reference = state and controller_of(state)
        found = reference and cache.by_uid(reference["uid"])
        if found and found[0] is owners:
            concerned[found[1]["metadata"]["uid"]] = found[1]
    if change.type != "DELETED" and controller_of(change.object) is None:
        labels = labels_of(change.object)
        for owner in cache.in_namespace(owners, change.object["metadata"]["namespace"]):
            if label_selector_of(owner["spec"]["selector"]).matches(labels):
                concerned[owner["metadata"]["uid"]] = owner
    return list(concerned.values())


def follow(controller: Controller, owners: Resource) -> None:
    """Have the controller reconcile each owner that changes, or whose pods do."""

    def pod_changed(change: ObjectChange) -> None:
        if matters(change):
            for owner in owners_concerned(controller.cache, owners, change):
                controller.enqueue(key_of(owner))

    controller.cache.on(owners, lambda change: controller.enqueue(key_of(change.object)))
    controller.cache.on(PODS, pod_changed)


def matters(change: ObjectChange) -> bool:
    """Whether a change of a pod is one that controllers of pods look at."""
    before, after = change.previous, change.object
    return change.type == "DELETED" or before is None or _looked_at(before) != _looked_at(after)


def _looked_at(pod: Object) -> tuple[object, ...]:
    metadata = pod["metadata"]
    return (
        is_terminating(pod),
        is_finished(pod),
        is_ready(pod),
        metadata.get("labels"),
        metadata.get("ownerReferences"),
    )

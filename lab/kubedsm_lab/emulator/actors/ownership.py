"""Owner references of controllers: release of unselected objects, adoption of matching orphans.

Implementation follows `ControllerRefManager` in k8s.io/kubernetes/pkg/controller.
"""

from collections.abc import Callable

from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import is_terminating, key_of, labels_of, owners_of
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import PODS, Object, Resource
from kubedsm_lab.emulator.api.selectors import label_selector_of


def build_owned_pod(kind: Resource, owner: Object, **metadata: object) -> Object:
    """Return a pod of the owner's template, with additional metadata; empty fields are omitted."""
    template = owner["spec"]["template"]
    given = {"labels": labels_of(template), **(template.get("metadata") or {}), **metadata}
    kept = ("name", "generateName", "labels", "annotations", "finalizers")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{field: given[field] for field in kept if given.get(field)},
            "ownerReferences": [controller_reference(kind, owner)],
        },
        "spec": template["spec"],
    }


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
    controller: Controller,
    kind: Resource,
    owner: Object,
    resource: Resource = PODS,
    eligible: Callable[[Object], bool] = lambda _: True,
) -> list[Object]:
    """Release the owner's objects that no longer match its selector, adopt matching orphans, and
    return the objects now controlled.

    Raises ApiError (404, 409) if a patch is too late.
    """
    metadata, selector = owner["metadata"], label_selector_of(owner["spec"]["selector"])
    cache = controller.cache
    mine = [obj for obj in cache.list_controlled(resource, metadata["uid"]) if eligible(obj)]
    claimed = [obj for obj in mine if selector.matches(labels_of(obj))]
    if is_terminating(owner):
        return claimed
    orphans = cache.list_uncontrolled(resource, metadata.get("namespace", ""))
    for obj in mine:
        if not selector.matches(labels_of(obj)):
            others = [ref for ref in owners_of(obj) if ref["uid"] != metadata["uid"]]
            set_owners(controller.api, resource, obj, others)
    for obj in orphans:
        if eligible(obj) and not is_terminating(obj) and selector.matches(labels_of(obj)):
            owners = [*owners_of(obj), controller_reference(kind, owner)]
            claimed.append(set_owners(controller.api, resource, obj, owners))
    return claimed


def set_owners(api: ApiServer, resource: Resource, obj: Object, owners: list[Object]) -> Object:
    metadata = {field: obj["metadata"][field] for field in ("uid", "resourceVersion")}
    patch = {"metadata": {**metadata, "ownerReferences": owners or None}}
    return api.patch(resource, *key_of(obj), patch, MERGE_PATCH)

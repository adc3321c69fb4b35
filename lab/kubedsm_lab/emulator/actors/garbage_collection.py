"""Garbage collector: deletion of dependents with, before or after their owner, or orphaning.

The propagation policies Background, Foreground and Orphan follow "Garbage Collection" in the
Kubernetes documentation.
"""

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.ownership import set_owners
from kubedsm_lab.emulator.api.object_state import is_terminating, key_of, owners_of
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.store import ObjectChange

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class GarbageCollector(Controller):
    """Garbage collector of owner references; its queue keys are uids."""

    def subscribe(self) -> None:
        self.cache.on_all(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        obj = change.object
        owners = owners_of(obj)
        if change.type == "DELETED":
            for _, dependent in self.cache.dependents(_uid(obj)):
                self.enqueue(("", _uid(dependent)))
            self._enqueue_terminating(owners)
            return
        if owners and (change.previous is None or owners_of(change.previous) != owners):
            self.enqueue(("", _uid(obj)))
            self._enqueue_terminating(owners_of(change.previous) if change.previous else [])
        if is_terminating(obj) and _finalizers(obj):
            self.enqueue(("", _uid(obj)))

    def _enqueue_terminating(self, owners: list[Object]) -> None:
        """Enqueue terminating owners whose deletion waits for this dependent."""
        for reference in owners:
            owner = self.cache.by_uid(reference["uid"])
            if owner is not None and is_terminating(owner[1]):
                self.enqueue(("", reference["uid"]))

    def reconcile(self, key: Key) -> None:
        found = self.cache.by_uid(key[1])
        if found is None:
            return
        resource, obj = found
        if not is_terminating(obj):
            self._follow_owners(resource, obj)
        elif _ORPHAN in _finalizers(obj):
            self._orphan_dependents(resource, obj)
        elif _FOREGROUND in _finalizers(obj):
            self._delete_dependents(resource, obj)

    def _follow_owners(self, resource: Resource, obj: Object) -> None:
        """Delete an object whose owners are all gone; else drop references to absent owners."""
        owners = owners_of(obj)
        present = [owner for owner in owners if self._exists(owner, obj)]
        if len(present) == len(owners):
            return
        if present:
            set_owners(self.api, resource, obj, present)
        else:
            self.api.delete(resource, *key_of(obj), uid=_uid(obj), propagation="Background")

    def _exists(self, owner: Object, dependent: Object) -> bool:
        found = self.cache.by_uid(owner["uid"])
        if found is None:
            return False
        # A reference to an owner in another namespace is void.
        namespace, name = key_of(found[1])
        return name == owner["name"] and namespace in ("", key_of(dependent)[0])

    def _orphan_dependents(self, resource: Resource, owner: Object) -> None:
        for dependent_resource, dependent in self.cache.dependents(_uid(owner)):
            others = [ref for ref in owners_of(dependent) if ref["uid"] != _uid(owner)]
            set_owners(self.api, dependent_resource, dependent, others)
        self._remove_finalizer(resource, owner, _ORPHAN)

    def _delete_dependents(self, resource: Resource, owner: Object) -> None:
        """Delete the dependents that block a foreground deletion; the owner stays until then."""
        for dependent_resource, dependent in self.cache.dependents(_uid(owner)):
            if not is_terminating(dependent):
                uid = _uid(dependent)
                policy = "Foreground" if self.cache.dependents(uid) else "Background"
                self.api.delete(dependent_resource, *key_of(dependent), uid=uid, propagation=policy)
        blocking = (
            reference
            for _, dependent in self.cache.dependents(_uid(owner))
            for reference in owners_of(dependent)
            if reference["uid"] == _uid(owner) and reference.get("blockOwnerDeletion")
        )
        if not any(blocking):
            self._remove_finalizer(resource, owner, _FOREGROUND)

    def _remove_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        left = [name for name in _finalizers(obj) if name != finalizer]
        patch = {"metadata": {"uid": _uid(obj), "finalizers": left or None}}
        self.api.patch(resource, *key_of(obj), patch, MERGE_PATCH)


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _finalizers(obj: Object) -> list[str]:
    finalizers: list[str] | None = obj["metadata"].get("finalizers")
    return finalizers or []

"""Garbage collection: what belongs to an owner goes with it, or after it, or before it.

The three ways to delete an owner (Background, Foreground, Orphan) are those of "Garbage
Collection" in the Kubernetes documentation.
"""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of, owners_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.ownership import set_owners
from kubedsm_lab.emulator.actors.pod_state import is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.patching import MERGE_PATCH
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.api.store import ObjectChange

_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class GarbageCollector(Controller):
    """Keys are uids, in the place of a name."""

    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on_all(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        obj = change.object
        uid = obj["metadata"]["uid"]
        if change.type == "DELETED":
            for _, dependent in self.cache.dependents(uid):
                self._enqueue_uid(dependent["metadata"]["uid"])
            for owner in owners_of(obj):
                self._enqueue_terminating(owner["uid"])
            return
        owners = owners_of(obj)
        if owners and (change.previous is None or owners_of(change.previous) != owners):
            self._enqueue_uid(uid)
            for owner in owners_of(change.previous) if change.previous else ():
                self._enqueue_terminating(owner["uid"])
        if is_terminating(obj) and _finalizers(obj):
            self._enqueue_uid(uid)

    def _enqueue_uid(self, uid: str) -> None:
        self.enqueue(("", uid))

    def _enqueue_terminating(self, uid: str) -> None:
        """An owner that waits for its dependents to go."""
        owner = self.cache.by_uid(uid)
        if owner is not None and is_terminating(owner[1]):
            self._enqueue_uid(uid)

    def reconcile(self, key: Key) -> None:
        found = self.cache.by_uid(key[1])
        if found is None:
            return
        resource, obj = found
        if is_terminating(obj):
            if _ORPHAN in _finalizers(obj):
                self._orphan(resource, obj)
            elif _FOREGROUND in _finalizers(obj):
                self._delete_dependents(resource, obj)
            return
        self._follow_owners(resource, obj)

    def _follow_owners(self, resource: Resource, obj: Object) -> None:
        """Gone when its owners are; freed of those that are gone while one remains."""
        owners = owners_of(obj)
        present = [owner for owner in owners if self._exists(owner, obj)]
        if len(present) == len(owners):
            return
        if present:
            set_owners(self.api, resource, obj, present)
        else:
            uid = obj["metadata"]["uid"]
            self.api.delete(resource, *key_of(obj), uid=uid, propagation="Background")

    def _exists(self, owner: Object, dependent: Object) -> bool:
        found = self.cache.by_uid(owner["uid"])
        if found is None:
            return False
        # An owner in another namespace is none.
        namespace, name = key_of(found[1])
        return name == owner["name"] and namespace in ("", key_of(dependent)[0])

    def _orphan(self, resource: Resource, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for dependent_resource, dependent in self.cache.dependents(uid):
            others = [ref for ref in owners_of(dependent) if ref["uid"] != uid]
            set_owners(self.api, dependent_resource, dependent, others)
        self._without_finalizer(resource, owner, _ORPHAN)

    def _delete_dependents(self, resource: Resource, owner: Object) -> None:
        """Foreground: the owner stays until nothing that blocks its deletion is left."""
        uid = owner["metadata"]["uid"]
        for dependent_resource, dependent in self.cache.dependents(uid):
            if not is_terminating(dependent):
                policy = "Foreground" if self.cache.dependents(_uid(dependent)) else "Background"
                self.api.delete(
                    dependent_resource,
                    *key_of(dependent),
                    uid=_uid(dependent),
                    propagation=policy,
                )
        if not any(_blocks(dependent, uid) for _, dependent in self.cache.dependents(uid)):
            self._without_finalizer(resource, owner, _FOREGROUND)

    def _without_finalizer(self, resource: Resource, obj: Object, finalizer: str) -> None:
        left = [name for name in _finalizers(obj) if name != finalizer]
        patch = {"metadata": {"uid": _uid(obj), "finalizers": left or None}}
        self.api.patch(resource, *key_of(obj), patch, MERGE_PATCH)


def _uid(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def _finalizers(obj: Object) -> list[str]:
    finalizers: list[str] | None = obj["metadata"].get("finalizers")
    return finalizers or []


def _blocks(dependent: Object, uid: str) -> bool:
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners_of(dependent)
    )

"""Cache of the controllers: every object by name, owner and node.

The API server calls back at each commit, so the cache is never stale, and a read copies nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from kubedsm_lab.emulator.actors.pod_state import node_of
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import SERVED, Object, Resource
from kubedsm_lab.emulator.api.store import ObjectChange

#: namespace (empty for what has none) and name
Key = tuple[str, str]
Handler = Callable[[ObjectChange], None]
_K = TypeVar("_K")
_V = TypeVar("_V")


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def owners_of(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference with `controller: true`, if any."""
    return next((owner for owner in owners_of(obj) if owner.get("controller")), None)


class Cache:
    """Index of all objects, where controllers register handlers of changes."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        # Keyed by the plural, which is unique among stored resources and hashes fast.
        self._objects: dict[str, dict[str, dict[str, Object]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._uids: dict[str, tuple[Resource, Object]] = {}
        self._dependents: dict[str, dict[str, tuple[Resource, Object]]] = defaultdict(dict)
        #: by plural and the controller's uid; by plural and namespace for those without one
        self._controlled: dict[tuple[str, str], dict[str, Object]] = defaultdict(dict)
        self._uncontrolled: dict[tuple[str, str], dict[str, Object]] = defaultdict(dict)
        self._pods_on: dict[str, dict[str, Object]] = defaultdict(dict)
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._handlers_of_all: list[Handler] = []
        for resource in SERVED:
            for obj in () if resource.alias_of else api.list(resource):
                self._remember(resource, obj)
        self.close = api.store.subscribe(self._apply)

    def on(self, resource: Resource, handler: Handler) -> None:
        """Call the handler at every change of the resource's objects."""
        self._handlers[resource.plural].append(handler)

    def on_all(self, handler: Handler) -> None:
        self._handlers_of_all.append(handler)

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self._objects[resource.plural][key[0]].get(key[1])

    def in_namespace(self, resource: Resource, namespace: str = "") -> list[Object]:
        return list(self._objects[resource.plural][namespace].values())

    def all(self, resource: Resource) -> Iterator[Object]:
        for objects in list(self._objects[resource.plural].values()):
            yield from list(objects.values())

    def by_uid(self, uid: str) -> tuple[Resource, Object] | None:
        return self._uids.get(uid)

    def dependents(self, uid: str) -> list[tuple[Resource, Object]]:
        """Return every object with an owner reference to that uid."""
        return list(self._dependents.get(uid, {}).values())

    def list_controlled(self, resource: Resource, uid: str) -> list[Object]:
        return list(self._controlled.get((resource.plural, uid), {}).values())

    def uncontrolled(self, resource: Resource, namespace: str) -> list[Object]:
        return list(self._uncontrolled.get((resource.plural, namespace), {}).values())

    def pods_on(self, node: str) -> list[Object]:
        return list(self._pods_on.get(node, {}).values())

    def _apply(self, change: ObjectChange) -> None:
        resource, obj = change.resource, change.object
        before = change.previous or (obj if change.type == "DELETED" else None)
        if before is not None:
            self._forget(resource, before)
        if change.type != "DELETED":
            self._remember(resource, obj)
        for handler in self._handlers.get(resource.plural, ()):
            handler(change)
        for handler in self._handlers_of_all:
            handler(change)

    def _remember(self, resource: Resource, obj: Object) -> None:
        plural, uid = resource.plural, obj["metadata"]["uid"]
        namespace, name = key_of(obj)
        self._objects[plural][namespace][name] = obj
        self._uids[uid] = (resource, obj)
        for owner in owners_of(obj):
            self._dependents[owner["uid"]][uid] = (resource, obj)
        controller = controller_of(obj)
        if controller is None:
            self._uncontrolled[plural, namespace][uid] = obj
        else:
            self._controlled[plural, controller["uid"]][uid] = obj
        if plural == "pods" and (node := node_of(obj)):
            self._pods_on[node][uid] = obj

    def _forget(self, resource: Resource, obj: Object) -> None:
        plural, uid = resource.plural, obj["metadata"]["uid"]
        namespace, name = key_of(obj)
        self._objects[plural][namespace].pop(name, None)
        self._uids.pop(uid, None)
        for owner in owners_of(obj):
            _drop(self._dependents, owner["uid"], uid)
        controller = controller_of(obj)
        if controller is None:
            _drop(self._uncontrolled, (plural, namespace), uid)
        else:
            _drop(self._controlled, (plural, controller["uid"]), uid)
        if plural == "pods":
            _drop(self._pods_on, node_of(obj), uid)


def _drop(index: dict[_K, dict[str, _V]], key: _K, uid: str) -> None:
    """Remove the entry, and an empty row: one would remain for every owner that ever was."""
    row = index.get(key)
    if row is not None:
        row.pop(uid, None)
        if not row:
            del index[key]

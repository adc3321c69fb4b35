"""Object cache of the emulated controllers, indexed by name, owner and node.

The API server calls back at each commit, so the cache is never stale, and a read copies nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.object_state import controller_of, key_of, node_of, owners_of
from kubedsm_lab.emulator.api.resources import SERVED, Object, Resource
from kubedsm_lab.emulator.api.store import ObjectChange

#: namespace (empty for cluster-scoped objects) and name
Key = tuple[str, str]
Handler = Callable[[ObjectChange], None]
Entry = tuple[Resource, Object]


class Cache:
    """Indexed object cache with event handlers, as client-go's shared informers provide.

    `normal_events`: controllers write their Normal Events too, which only readers need.
    """

    def __init__(self, api: ApiServer, *, normal_events: bool = False) -> None:
        self.api = api
        self.normal_events = normal_events
        # Keyed by the plural: unique among stored resources, and fast to hash.
        self._objects: dict[str, dict[str, dict[str, Object]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        self._uids: dict[str, Entry] = {}
        #: entries by uid, for each key of `_index_keys`
        self._rows: dict[tuple[str, ...], dict[str, Entry]] = defaultdict(dict)
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._handlers_of_all: list[Handler] = []
        for resource in SERVED:
            for obj in () if resource.alias_of else api.list(resource):
                self._remember(resource, obj)
        self.close = api.store.subscribe(self._apply)

    def on(self, resource: Resource, handler: Handler) -> None:
        """Register a handler that is called with every change of the resource's objects."""
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

    def by_uid(self, uid: str) -> Entry | None:
        return self._uids.get(uid)

    def find_controller(self, obj: Object) -> Entry | None:
        """Return the object that controls this one (owner reference with `controller: true`)."""
        reference = controller_of(obj)
        return self._uids.get(reference["uid"]) if reference else None

    def dependents(self, uid: str) -> list[Entry]:
        """Return all cached objects with an owner reference to the given uid."""
        return list(self._rows.get(("owner", uid), {}).values())

    def list_controlled(self, resource: Resource, uid: str) -> list[Object]:
        return self._list_row("controller", resource.plural, uid)

    def list_uncontrolled(self, resource: Resource, namespace: str) -> list[Object]:
        return self._list_row("namespace", resource.plural, namespace)

    def pods_on(self, node: str) -> list[Object]:
        return self._list_row("node", node)

    def _list_row(self, *key: str) -> list[Object]:
        return [obj for _, obj in self._rows.get(key, {}).values()]

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
        uid, (namespace, name) = obj["metadata"]["uid"], key_of(obj)
        self._objects[resource.plural][namespace][name] = obj
        self._uids[uid] = entry = (resource, obj)
        for key in _index_keys(resource, obj):
            self._rows[key][uid] = entry

    def _forget(self, resource: Resource, obj: Object) -> None:
        uid, (namespace, name) = obj["metadata"]["uid"], key_of(obj)
        self._objects[resource.plural][namespace].pop(name, None)
        self._uids.pop(uid, None)
        for key in _index_keys(resource, obj):
            self._rows[key].pop(uid, None)
            # Otherwise empty rows would accumulate for deleted owners.
            if not self._rows[key]:
                del self._rows[key]


def _index_keys(resource: Resource, obj: Object) -> Iterator[tuple[str, ...]]:
    """Yield the keys under which the cache indexes an object: uids of owners, uid of the controller
    or else the namespace, and node.
    """
    for owner in owners_of(obj):
        yield "owner", owner["uid"]
    controller = controller_of(obj)
    if controller is None:
        yield "namespace", resource.plural, obj["metadata"].get("namespace", "")
    else:
        yield "controller", resource.plural, controller["uid"]
    if resource.plural == "pods" and (node := node_of(obj)):
        yield "node", node

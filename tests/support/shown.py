"""World in which the scheduler sees modified objects.

Objects that the emulated API server accepts are created. For any other, a plain object of the same
name is created, and the odd one is shown in all responses.
"""

import copy
import json
from contextlib import suppress
from http import HTTPStatus

import orjson

from kubedsm.kube.client.port import Response
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import WireError
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from kubedsm_lab.emulator.front import Delivery, RequestFault
from kubedsm_lab.emulator.http.routes import ApiRequest
from kubedsm_lab.emulator.paper import workload
from support.any_damage import places, put
from support.any_objects import RESOURCES
from support.tenants import TENANT

_POD = {"containers": [{"name": "c", "image": "x"}], "schedulerName": "kubedsm"}
_WORKLOAD = workload("plain", 1, _POD)["spec"]
_STORED = {
    PODS: {"spec": _POD},
    #: whatever it is believed to have, its kubelet refuses nothing
    NODES: {"status": {"allocatable": dict.fromkeys(RESOURCES, "1E")}},
    DEPLOYMENTS: {"spec": _WORKLOAD},
    REPLICA_SETS: {"spec": _WORKLOAD},
    STATEFUL_SETS: {"spec": _WORKLOAD},
    POD_DISRUPTION_BUDGETS: {"spec": {"selector": {}}},
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    PRIORITY_CLASSES: {"value": 0},
    STORAGE_CLASSES: {"provisioner": "x"},
}
#: what is bound to a node by another name runs nowhere; and who is gone never comes back
_IDENTITY = (("metadata",), ("metadata", "name"), ("metadata", "uid"))
_WATCHED = {by.kind: by for by in (decoding.PODS, decoding.NODES, *decoding.SURROUNDINGS.values())}


class Shown:
    """Faults that replace objects in responses by their modified form."""

    def __init__(self, world):
        self._world = world
        #: what is put where, by uid
        self._puts = {}
        #: those objects, as they were first
        self.otherwise = []

    def create_all(self, inputs):
        """Create the objects, as far as the API server permits."""
        for each in inputs:
            with suppress(ApiError):
                self._create(each)

    def _create(self, odd):
        made, puts = self._made(odd)
        self.show(made, odd.damages, puts)
        if made["metadata"]["uid"] in self._puts:
            self.otherwise.append((odd.resource, made))

    def show(self, made, damages, puts=()):
        """Show an object with values put into it, and then damaged."""
        puts = [*puts]
        for where, value in damages:
            found = list(places(_with(made, puts)))
            path = found[where % len(found)] if isinstance(where, int) else where
            if made["kind"] not in ("Node", "ConfigMap") or path not in _IDENTITY:
                puts.append((path, value))
        self._puts.pop(made["metadata"]["uid"], None)
        if puts:
            self._puts[made["metadata"]["uid"]] = puts

    def _made(self, odd):
        """Return the object to store, and the modifications that show the odd one."""
        resource, given = odd.resource, copy.deepcopy(odd.object)
        namespace = TENANT if resource.namespaced else ""
        # A kubelet that refuses what a node is shown to have room for is another matter.
        if resource is not NODES or not odd.damages:
            with suppress(ApiError):
                return self._world.api.create(resource, given, namespace=namespace), []
        stored = copy.deepcopy(_STORED.get(resource, {}))
        try:
            named = stored | {"metadata": _named(given)}
            made = self._world.api.create(resource, named, namespace=namespace)
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:
                raise  # no API server shows two objects with one name
            anonymous = stored | {"metadata": {"generateName": "x-"}}
            made = self._world.api.create(resource, anonymous, namespace=namespace)
        metadata = [(("metadata", key), value) for key, value in given["metadata"].items()]
        rest = [((key,), value) for key, value in given.items() if key != "metadata"]
        return made, metadata + rest

    def of(self, obj):
        """Return an object in its shown form, with the node that it really has."""
        puts = self._puts.get(obj["metadata"].get("uid"))
        if not puts:
            return obj
        shown, node = _with(obj, puts), obj.get("spec", {}).get("nodeName")
        if node and isinstance(shown.get("spec"), dict):
            shown["spec"].setdefault("nodeName", node)
        return shown

    # As `Invariants` ask an API server: by what is shown, as far as it can be read.

    @property
    def store(self):
        return self._world.api.store

    @property
    def clock(self):
        return self._world.clock

    def exists(self, resource, namespace, name):
        obj = self.store.get(resource, namespace, name)
        return obj is not None and self._wrong_with(obj, resource.kind) is None

    def get(self, *key):
        return self.of(self._world.api.get(*key))

    def list(self, resource, namespace="", **query):
        found = self._world.api.list(resource, namespace, **query)
        if namespace:
            return found  # who counts what is Ready there counts what there is
        return [self.of(obj) for obj in found if self._wrong_with(obj, resource.kind) is None]

    def unreadable(self):
        """Yield the objects whose shown form cannot be decoded: kind, place and reason."""
        for resource, made in self.otherwise:
            metadata = made["metadata"]
            obj = self.store.get(resource, metadata.get("namespace", ""), metadata["name"])
            wrong = obj and self._wrong_with(obj, resource.kind)
            if wrong:
                yield f"{resource.kind} skipped: ", f"{wrong.path}: {wrong.reason}"

    def _wrong_with(self, obj, kind):
        by = _WATCHED.get(kind)
        try:
            if by is not None:
                by.reader.item(json.dumps(self.of(obj)).encode())
        except WireError as error:
            return error
        return None

    def on_line(self, request, line):
        event = orjson.loads(line)
        shown = self.of(event["object"])
        if shown is event["object"]:
            return None
        return Delivery((json.dumps({**event, "object": shown}).encode(),))

    def on_request(self, request):
        if request.method != "GET" or "watch" in request.query or not self._puts:
            return None
        asked = ApiRequest("GET", request.path, request.query)
        answer = self._world.cluster.routes.handle(asked)
        body = orjson.loads(answer.body)
        if "items" in body:
            body["items"] = [self.of(item) for item in body["items"]]
        elif "uid" in body.get("metadata", {}):
            body = self.of(body)
        return RequestFault(Response(answer.status, json.dumps(body).encode()))


def _named(obj):
    return {k: v for k, v in obj["metadata"].items() if k in ("name", "generateName")}


def _with(obj, puts):
    changed = copy.deepcopy(obj)
    for path, value in puts:
        put(changed, path, value)
    return changed

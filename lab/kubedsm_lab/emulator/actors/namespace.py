"""The namespace controller: a namespace that is deleted takes everything in it along.

Source: k8s.io/kubernetes/pkg/controller/namespace.
"""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.moments import seconds
from kubedsm_lab.emulator.api.resources import NAMESPACES, SERVED, Object
from kubedsm_lab.emulator.api.store import ObjectChange

_FINALIZER = "kubernetes"
#: seconds before its contents go: who deletes them beside it still finds them
_GRACE = 5.0
_CONTENTS = tuple(r for r in SERVED if r.namespaced and not r.alias_of)


class NamespaceController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on_all(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        namespace, name = key_of(change.object)
        if change.resource is NAMESPACES:
            self.enqueue(("", name))
        elif namespace and change.type != "MODIFIED":
            # Something went, or something slipped in behind the sweep.
            holder = self.cache.get(NAMESPACES, ("", namespace))
            if holder is not None and is_terminating(holder):
                self.enqueue(("", namespace))

    def reconcile(self, key: Key) -> None:
        namespace = self.cache.get(NAMESPACES, key)
        if namespace is None or not is_terminating(namespace):
            return
        left = seconds(namespace["metadata"]["deletionTimestamp"]) + _GRACE - self.clock.wall()
        if not self.has_come(self.clock.monotonic() + left, key):
            return
        for resource in _CONTENTS:
            for obj in self.cache.in_namespace(resource, key[1]):
                if not is_terminating(obj):
                    self.api.delete(resource, *key_of(obj), propagation="Background")
        if not any(self.cache.in_namespace(resource, key[1]) for resource in _CONTENTS):
            self._finalize(namespace)

    def _finalize(self, namespace: Object) -> None:
        finalizers = namespace["spec"].get("finalizers") or []
        if _FINALIZER in finalizers:
            left = [name for name in finalizers if name != _FINALIZER]
            finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": left}}
            self.api.update(NAMESPACES, finalized, subresource="finalize")

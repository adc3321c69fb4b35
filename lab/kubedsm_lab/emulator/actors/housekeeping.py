"""Namespace, ServiceAccount and ResourceQuota controllers, and the expiry of Events.

Source: k8s.io/kubernetes/pkg/controller, packages of these names.
"""

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.admission import usage
from kubedsm_lab.emulator.api.object_state import is_finished, is_terminating, key_of
from kubedsm_lab.emulator.api.resources import (
    EVENTS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    SERVED,
    SERVICE_ACCOUNTS,
)
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.api.values import format_quantity, seconds

_FINALIZER = "kubernetes"
#: seconds from the deletion of a namespace to that of its contents: other clients still find them
_GRACE = 5.0
#: seconds: the default of kube-apiserver's `--event-ttl`
_EVENT_TTL = 3600.0
_NAMESPACED = tuple(r for r in SERVED if r.namespaced and not r.alias_of)
_DEFAULT_ACCOUNT = "default"


class NamespaceController(Controller):
    """Controller that deletes the contents of a terminating namespace, then its finalizer."""

    def subscribe(self) -> None:
        self.cache.on_all(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        namespace, name = key_of(change.object)
        if change.resource is NAMESPACES:
            self.enqueue(("", name))
        elif namespace and change.type != "MODIFIED":
            # An object is gone, or was created after the contents had been deleted.
            holder = self.cache.get(NAMESPACES, ("", namespace))
            if holder is not None and is_terminating(holder):
                self.enqueue(("", namespace))

    def reconcile(self, key: Key) -> None:
        namespace = self.cache.get(NAMESPACES, key)
        if namespace is None or not is_terminating(namespace):
            return
        if not self.has_passed(seconds(namespace["metadata"]["deletionTimestamp"]) + _GRACE, key):
            return
        for resource in _NAMESPACED:
            for obj in self.cache.in_namespace(resource, key[1]):
                if not is_terminating(obj):
                    self.api.delete(resource, *key_of(obj), propagation="Background")
        finalizers = namespace["spec"].get("finalizers") or []
        empty = not any(self.cache.in_namespace(resource, key[1]) for resource in _NAMESPACED)
        if empty and _FINALIZER in finalizers:
            left = [name for name in finalizers if name != _FINALIZER]
            finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": left}}
            self.api.update(NAMESPACES, finalized, subresource="finalize")


class ServiceAccountsController(Controller):
    """Controller that creates the ServiceAccount `default` in every namespace."""

    def subscribe(self) -> None:
        self.follow(NAMESPACES)
        self.cache.on(SERVICE_ACCOUNTS, self._account_changed)
        for namespace in self.api.list(NAMESPACES):
            self.enqueue(key_of(namespace))

    def _account_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self.enqueue(("", key_of(change.object)[0]))

    def reconcile(self, key: Key) -> None:
        namespace = self.cache.get(NAMESPACES, key)
        if namespace is None or is_terminating(namespace):
            return
        if self.cache.get(SERVICE_ACCOUNTS, (key[1], _DEFAULT_ACCOUNT)) is None:
            account = {"metadata": {"name": _DEFAULT_ACCOUNT}}
            self.api.create(SERVICE_ACCOUNTS, account, namespace=key[1])


class ResourceQuotaController(Controller):
    """Controller that reports the usage of each quota; admission counts usage by itself."""

    def subscribe(self) -> None:
        self.cache.on_all(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource is RESOURCE_QUOTAS:
            self.enqueue(key_of(change.object))
        before, after = change.previous, change.object
        is_pod = change.resource is PODS
        ended = is_pod and before is not None and is_finished(before) != is_finished(after)
        if change.type == "MODIFIED" and not ended:
            return
        namespace = key_of(change.object)[0]
        if namespace:
            for quota in self.cache.in_namespace(RESOURCE_QUOTAS, namespace):
                self.enqueue(key_of(quota))

    def reconcile(self, key: Key) -> None:
        quota = self.cache.get(RESOURCE_QUOTAS, key)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        contents = {resource: self.cache.in_namespace(resource, key[0]) for resource in _NAMESPACED}
        used = {
            name: format_quantity(sum(usage(r, objects, name) for r, objects in contents.items()))
            for name in sorted(hard)
        }
        self.write_status(RESOURCE_QUOTAS, quota, {"hard": hard, "used": used})


class EventExpiry(Controller):
    """Controller that deletes Events an hour after their last change, as the API server does."""

    def subscribe(self) -> None:
        self.cache.on(EVENTS, lambda change: self.enqueue(key_of(change.object)))

    def reconcile(self, key: Key) -> None:
        event = self.cache.get(EVENTS, key)
        if event is None:
            return
        series = event.get("series") or {}
        last = series.get("lastObservedTime") or event.get("lastTimestamp")
        last = last or event["metadata"]["creationTimestamp"]
        if self.has_passed(seconds(last) + _EVENT_TTL, key):
            self.api.delete(EVENTS, *key)

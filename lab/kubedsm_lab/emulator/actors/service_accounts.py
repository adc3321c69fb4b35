"""The service accounts controller: every namespace has a ServiceAccount named default."""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import is_terminating
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import NAMESPACES, SERVICE_ACCOUNTS
from kubedsm_lab.emulator.api.store import ObjectChange

_NAME = "default"


class ServiceAccountsController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on(NAMESPACES, self._namespace_changed)
        cache.on(SERVICE_ACCOUNTS, self._account_changed)
        for namespace in api.list(NAMESPACES):
            self.enqueue(key_of(namespace))

    def _namespace_changed(self, change: ObjectChange) -> None:
        self.enqueue(key_of(change.object))

    def _account_changed(self, change: ObjectChange) -> None:
        if change.type == "DELETED":
            self.enqueue(("", key_of(change.object)[0]))

    def reconcile(self, key: Key) -> None:
        namespace = self.cache.get(NAMESPACES, key)
        if namespace is None or is_terminating(namespace):
            return
        if self.cache.get(SERVICE_ACCOUNTS, (key[1], _NAME)) is None:
            self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": _NAME}}, namespace=key[1])

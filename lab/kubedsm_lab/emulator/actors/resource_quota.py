"""The resource quota controller: what each quota limits, and how much of it is used.

Admission counts for itself, from what is stored; this is the report.
"""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.actors.pod_state import is_finished
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.quantities import shown
from kubedsm_lab.emulator.api.quota import usage
from kubedsm_lab.emulator.api.resources import PODS, RESOURCE_QUOTAS, SERVED
from kubedsm_lab.emulator.api.store import ObjectChange

_COUNTED = tuple(r for r in SERVED if r.namespaced and not r.alias_of)


class ResourceQuotaController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on_all(self._changed)

    def _changed(self, change: ObjectChange) -> None:
        if change.resource is RESOURCE_QUOTAS:
            self.enqueue(key_of(change.object))
        if change.type == "MODIFIED" and not _has_finished(change):
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
        used = {
            constraint: shown(
                constraint,
                sum(
                    usage(resource, self.cache.in_namespace(resource, key[0]), constraint)
                    for resource in _COUNTED
                ),
            )
            for constraint in sorted(hard)
        }
        self.write_status(RESOURCE_QUOTAS, quota, {"hard": hard, "used": used})


def _has_finished(change: ObjectChange) -> bool:
    return (
        change.resource is PODS
        and change.previous is not None
        and is_finished(change.object) != is_finished(change.previous)
    )

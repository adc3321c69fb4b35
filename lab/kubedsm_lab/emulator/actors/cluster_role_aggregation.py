"""The ClusterRole aggregation controller: a role that is made of others has all their rules."""

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import CLUSTER_ROLES, Object
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import ObjectChange


class ClusterRoleAggregationController(Controller):
    def __init__(self, api: ApiServer, cache: Cache, clock: Clock) -> None:
        super().__init__(api, cache, clock)
        cache.on(CLUSTER_ROLES, self._changed)
        self._enqueue_all()

    def _changed(self, _change: ObjectChange) -> None:
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        for role in self.api.list(CLUSTER_ROLES):
            if role.get("aggregationRule"):
                self.enqueue(key_of(role))

    def reconcile(self, key: Key) -> None:
        role = self.cache.get(CLUSTER_ROLES, key)
        if role is None or not role.get("aggregationRule"):
            return
        rules: list[Object] = []
        for given in role["aggregationRule"].get("clusterRoleSelectors") or ():
            selector = label_selector_of(given)
            for part in self.api.list(CLUSTER_ROLES):
                matching = selector.matches(part["metadata"].get("labels") or {})
                if matching and key_of(part) != key:
                    rules += [rule for rule in part.get("rules") or () if rule not in rules]
        if rules != (role.get("rules") or []):
            self.api.update(CLUSTER_ROLES, {**role, "rules": rules})

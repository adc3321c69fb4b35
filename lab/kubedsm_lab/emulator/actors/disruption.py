"""Disruption controller: the evictions that each PodDisruptionBudget currently allows.

A pod without a controller counts as healthy, but not as expected. Implementation follows
k8s.io/kubernetes/pkg/controller/disruption.
"""

from collections.abc import Sequence

from kubedsm_lab.emulator.actors.cache import Key
from kubedsm_lab.emulator.actors.controller import Controller, is_relevant
from kubedsm_lab.emulator.actors.rollout import resolved, wanted
from kubedsm_lab.emulator.api.object_state import (
    conditions_of,
    controller_of,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    new_condition,
    update_condition,
)
from kubedsm_lab.emulator.api.resources import (
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Object,
)
from kubedsm_lab.emulator.api.selectors import label_selector_of
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.api.values import seconds

#: seconds during which an allowed eviction counts without an observed deletion
_DISRUPTION_TIMEOUT = 120.0


_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status"
    " of the PDB cannot be calculated correctly, which may result in undefined behavior. To account"
    ' for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class _NoScale(Exception):
    """Error: the controller of a selected pod has no scale subresource, so the number of expected
    pods is unknown.
    """


class DisruptionController(Controller):
    def subscribe(self) -> None:
        self.follow(POD_DISRUPTION_BUDGETS)
        self.cache.on(PODS, self._pod_changed)
        for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
            self.cache.on(resource, self._scale_changed)

    def _pod_changed(self, change: ObjectChange) -> None:
        before, after = change.previous, change.object
        if is_relevant(change):
            for budget in self._list_budgets(after):
                if any(_selects(budget, pod) for pod in (before, after) if pod):
                    self.enqueue(key_of(budget))

    def _scale_changed(self, change: ObjectChange) -> None:
        before = change.previous
        if before is None or wanted(before) != wanted(change.object):
            for budget in self._list_budgets(change.object):
                self.enqueue(key_of(budget))

    def _list_budgets(self, obj: Object) -> list[Object]:
        return self.cache.in_namespace(POD_DISRUPTION_BUDGETS, obj["metadata"]["namespace"])

    def reconcile(self, key: Key) -> None:
        budget = self.cache.get(POD_DISRUPTION_BUDGETS, key)
        if budget is None or is_terminating(budget):
            return
        self.write_status(POD_DISRUPTION_BUDGETS, budget, self._status(budget))

    def _status(self, budget: Object) -> Object:
        namespace = budget["metadata"]["namespace"]
        pods = [pod for pod in self.cache.in_namespace(PODS, namespace) if _selects(budget, pod)]
        try:
            expected, desired = self._count_expected(budget, pods)
        except _NoScale as error:
            why = f"Failed to calculate the number of expected pods: {error}"
            self.warn(POD_DISRUPTION_BUDGETS, budget, "CalculateExpectedPodCountFailed", why)
            failed = {**budget["status"], "disruptionsAllowed": 0}
            return self._with_condition(failed, budget, False, "SyncFailed", str(error))
        disrupted = self._list_disrupted(budget, pods)
        healthy = sum(
            is_ready(pod) and not is_terminating(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status: Object = {
            "observedGeneration": budget["metadata"]["generation"],
            **({"disruptedPods": disrupted} if disrupted else {}),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": conditions_of(budget["status"]),
        }
        reason = "SufficientPods" if allowed else "InsufficientPods"
        return self._with_condition(status, budget, allowed > 0, reason, "")

    def _with_condition(
        self, status: Object, budget: Object, flag: bool, reason: str, message: str
    ) -> Object:
        new = new_condition("DisruptionAllowed", flag, self.now(), reason, message)
        new["observedGeneration"] = budget["metadata"]["generation"]
        return {**status, "conditions": update_condition(conditions_of(status), new)}

    def _count_expected(self, budget: Object, pods: Sequence[Object]) -> tuple[int, int]:
        """Return the numbers of expected and desired healthy pods of a budget: 0 without a limit,
        which allows no eviction. Raises _NoScale.
        """
        spec = budget["spec"]
        if "maxUnavailable" in spec:
            expected = self._scale_of(budget, pods)
            return expected, max(0, expected - resolved(spec["maxUnavailable"], expected, up=True))
        if "minAvailable" not in spec:
            return 0, 0
        least = spec["minAvailable"]
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale_of(budget, pods)
        return expected, resolved(least, expected, up=True)

    def _scale_of(self, budget: Object, pods: Sequence[Object]) -> int:
        """Return the replicas wanted by the pods' controllers, each controller counted once."""
        scales: dict[str, int] = {}
        if any(controller_of(pod) is None for pod in pods):
            self.warn(POD_DISRUPTION_BUDGETS, budget, "UnmanagedPods", _UNMANAGED)
        for pod in pods:
            if controller_of(pod) is None:
                continue
            found = self.cache.find_controller(pod)
            if found is None or found[0] not in (REPLICA_SETS, STATEFUL_SETS):
                name = pod["metadata"]["name"]
                raise _NoScale(f'found no controllers for pod "{name}"')
            above = self.cache.find_controller(found[1])
            owner = above[1] if above and above[0] is DEPLOYMENTS else found[1]
            scales[owner["metadata"]["uid"]] = wanted(owner)
        return sum(scales.values())

    def _list_disrupted(self, budget: Object, pods: Sequence[Object]) -> dict[str, str]:
        """Return the times of allowed evictions whose deletion is not yet observed, by pod name."""
        present = {pod["metadata"]["name"]: pod for pod in pods}
        now = self.clock.wall()
        pending = {}
        for name, since in (budget["status"].get("disruptedPods") or {}).items():
            left = seconds(since) + _DISRUPTION_TIMEOUT - now
            pod = present.get(name)
            if pod is not None and not is_terminating(pod) and left > 0:
                pending[name] = since
                self.enqueue_after(key_of(budget), left)
        return pending


def _selects(budget: Object, pod: Object) -> bool:
    """Return whether the budget covers the pod; an empty selector matches every pod."""
    selector = budget["spec"].get("selector")
    return selector is not None and label_selector_of(selector).matches(labels_of(pod))

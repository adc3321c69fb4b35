"""Whether the disruption budgets allow an eviction, and what that costs them.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
"""

from collections.abc import Iterable

from kubedsm_lab.emulator.api.errors import ApiError, disruption_budget
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.api.selectors import SelectorError, label_selector_of
from kubedsm_lab.emulator.api.statuses import pod_condition, with_condition

_PHASES_WITHOUT_BUDGET = ("Pending", "Succeeded", "Failed")
_TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)


def charged_budget(pod: Object, budgets: Iterable[Object], now: str) -> Object | None:
    """The budget as it stands after the eviction, None if none is charged.

    Raises ApiError: 429 if the budget refuses, 500 if there is more than one.
    """
    if "deletionTimestamp" in pod["metadata"] or _phase(pod) in _PHASES_WITHOUT_BUDGET:
        return None
    matching = [budget for budget in budgets if _selects(budget, pod)]
    if not matching:
        return None
    if len(matching) > 1:
        raise ApiError(500, "", _TWO_BUDGETS)
    budget = matching[0]
    if not _is_ready(pod) and _ignores_unready(budget):
        return None
    return _charged(budget, pod["metadata"]["name"], now)


def with_disruption_target(
    pod: Object,
    now: str,
    reason: str = "EvictionByEvictionAPI",
    message: str = "Eviction API: evicting",
) -> Object:
    """The pod with the condition that says why it is about to go."""
    said = pod_condition("DisruptionTarget", "True", now, reason=reason, message=message)
    return with_condition(pod, said)


def _phase(pod: Object) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "Pending")
    return phase


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _selects(budget: Object, pod: Object) -> bool:
    try:
        selector = label_selector_of((budget.get("spec") or {}).get("selector") or {})
    except SelectorError:
        return False
    # an empty selector is meant to match nothing here
    return bool(selector.requirements) and selector.matches(pod["metadata"].get("labels"))


def _ignores_unready(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _charged(budget: Object, pod: str, now: str) -> Object:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise disruption_budget(why, retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise disruption_budget(
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    charged: Object = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**(status.get("disruptedPods") or {}), pod: now},
    }
    if allowed == 1:
        charged["conditions"] = [
            _exhausted(condition, now) if condition["type"] == "DisruptionAllowed" else condition
            for condition in status.get("conditions") or ()
        ]
    return {**budget, "status": charged}


def _exhausted(condition: Object, now: str) -> Object:
    return {
        **condition,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": now,
    }

"""Pod subresources binding and eviction, and the scale of a workload.

Sources: k8s.io/kubernetes/pkg/registry/core/pod/storage (storage.go, eviction.go) and
ValidatePodBinding. As in a real cluster, a Binding checks neither free capacity nor that the node
exists.
"""

from collections.abc import Iterable

from kubedsm_lab.emulator.api.errors import (
    ApiError,
    FieldError,
    check_stored,
    conflict,
    disruption_budget,
    invalid,
    invalid_value,
    not_supported,
    required,
)
from kubedsm_lab.emulator.api.object_state import conditions_of, is_active, is_ready
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.api.selectors import SelectorError, label_selector_of
from kubedsm_lab.emulator.api.statuses import pod_condition, with_condition


def bound(pod: Object, binding: Object, now: str) -> Object:
    """Return the pod with the node name of a Binding and the condition PodScheduled.

    Raises ApiError: 409 (state, uid, version), 422.
    """
    given = binding.get("metadata") or {}
    metadata, spec = pod["metadata"], pod["spec"]
    name, node = metadata["name"], _target_node(binding, metadata["name"])
    check_stored(PODS, metadata, given, "uid", "resourceVersion")
    refusal = _refusal(metadata, spec)
    if refusal:
        raise conflict(PODS, name, refusal, kind="pods/binding")
    changed = dict(metadata)
    for field in ("labels", "annotations"):
        if given.get(field):
            changed[field] = {**(metadata.get(field) or {}), **given[field]}
    on_node = {**pod, "metadata": changed, "spec": {**spec, "nodeName": node}}
    return with_condition(on_node, pod_condition("PodScheduled", "True", now))


def _target_node(binding: Object, name: str) -> str:
    target = binding.get("target") or {}
    errors: list[FieldError] = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise invalid("Binding", "", name, errors)
    node: str = target["name"]
    return node


def _refusal(metadata: Object, spec: Object) -> str:
    name = metadata["name"]
    if "deletionTimestamp" in metadata:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


_TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, "
    "which the eviction subresource does not support."
)


def charge_budget(pod: Object, budgets: Iterable[Object], now: str) -> Object | None:
    """Return the pod's PodDisruptionBudget, charged with one eviction; None without budget.

    Raises ApiError: 429 (budget exhausted), 500 (several budgets).
    """
    if not is_active(pod) or pod["status"].get("phase", "Pending") == "Pending":
        return None
    matching = [budget for budget in budgets if _selects(budget, pod)]
    if not matching:
        return None
    if len(matching) > 1:
        raise ApiError(500, "", _TWO_BUDGETS)
    budget = matching[0]
    if not is_ready(pod) and _ignores_unready(budget):
        return None
    return _charge_budget(budget, pod["metadata"]["name"], now)


def with_disruption_target(
    pod: Object,
    now: str,
    reason: str = "EvictionByEvictionAPI",
    message: str = "Eviction API: evicting",
) -> Object:
    """Return the pod with the condition DisruptionTarget, which records the eviction."""
    said = pod_condition("DisruptionTarget", "True", now, reason=reason, message=message)
    return with_condition(pod, said)


def _selects(budget: Object, pod: Object) -> bool:
    try:
        selector = label_selector_of((budget.get("spec") or {}).get("selector") or {})
    except SelectorError:
        return False
    # an empty selector matches no pod here
    return bool(selector.requirements) and selector.matches(pod["metadata"].get("labels"))


def _ignores_unready(budget: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _charge_budget(budget: Object, pod: str, now: str) -> Object:
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
        exhausted = {"status": "False", "reason": "InsufficientPods", "message": ""}
        exhausted["lastTransitionTime"] = now
        charged["conditions"] = [
            {**condition, **exhausted} if condition["type"] == "DisruptionAllowed" else condition
            for condition in conditions_of(status)
        ]
    return {**budget, "status": charged}


_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Object) -> Object:
    """Return the Scale object of a Deployment, ReplicaSet or StatefulSet."""
    metadata, spec = workload["metadata"], workload["spec"]
    selector = label_selector_of(spec.get("selector") or {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _IDENTITY if key in metadata},
        "spec": {"replicas": spec["replicas"]} if spec["replicas"] else {},
        "status": {
            "replicas": (workload.get("status") or {}).get("replicas", 0),
            "selector": str(selector),
        },
    }


def with_replicas(workload: Object, scale: Object) -> Object:
    """Return the workload with the Scale's replicas. Raises ApiError (422) if negative."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        error = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", workload["metadata"]["name"], [error])
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}

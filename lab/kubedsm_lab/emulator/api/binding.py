"""A Binding: the pod gets its node, and the Binding's labels and annotations.

Neither room nor the node's existence is checked, as in the real one. Source:
k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go and ValidatePodBinding.
"""

from kubedsm_lab.emulator.api.errors import (
    FieldError,
    check_stored,
    conflict,
    invalid,
    not_supported,
    required,
)
from kubedsm_lab.emulator.api.resources import PODS, Object
from kubedsm_lab.emulator.api.statuses import pod_condition, with_condition


def bound(pod: Object, binding: Object, now: str) -> Object:
    """The pod on the Binding's node.

    Raises ApiError: 409 if the pod is bound already, is going, is gated or is another one than
    the Binding's uid and resourceVersion say; 422 for a Binding without a node.
    """
    given = binding.get("metadata") or {}
    metadata, spec = pod["metadata"], pod["spec"]
    name, node = metadata["name"], _node(binding, metadata["name"])
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


def _node(binding: Object, name: str) -> str:
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

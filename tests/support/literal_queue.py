"""Queueing hint of one unschedulable pod, without indexes: the queue must agree with it."""

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod
from kubedsm.plugins.plugin import EquivalenceClass
from kubedsm.plugins.plugins import BY_NAME
from kubedsm.scheduling.scheduling_queue import node_now_accepts
from support.literal_fit import rejection


def may_be_helped(pod: Pod, rules: frozenset[str], change: Change, mirror: ClusterMirror) -> bool:
    """Return whether to retry a pod that every node rejects by one of these rules."""
    if change.known is not None:
        return True
    candidate = EquivalenceClass(pod.pod_class, pod.namespace, tuple(sorted(pod.labels.items())))
    hints = [BY_NAME[rule].hint or node_now_accepts for rule in rules]
    if change.matters and any(hint(change, candidate, mirror) for hint in hints):
        return True
    node = change.node_after
    if node is None or change.node_before is not None:
        return False
    return rejection(pod.pod_class, node, mirror.free[node.name]) is None

"""Unschedulable pods asked about one by one, at every event, by all that is known of each."""

import attrs

from kubedsm.model.events import Change
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Uid
from kubedsm.plugins.plugins import BY_NAME
from kubedsm.plugins.queueing_hints import node_now_accepts
from kubedsm.plugins.scene import EquivalenceClass
from kubedsm_lab.bench.literal.fit import rejection


def may_be_helped(pod: Pod, rules: frozenset[str], change: Change, mirror: ClusterMirror) -> bool:
    """Whether to try this very pod, which every node rejects by one of these rules, once more."""
    if change.known is not None:
        return True
    candidate = EquivalenceClass(pod.pod_class, pod.namespace, tuple(sorted(pod.labels.items())))
    hints = [BY_NAME[rule].hint or node_now_accepts for rule in rules]
    if change.matters and any(hint(change, candidate, mirror) for hint in hints):
        return True
    node = change.node_after
    if node is None or change.node_before is not None:
        return False
    return rejection(pod.pod_class, node, mirror.free(node.name)) is None


@attrs.define
class LiteralQueue:
    """Pods with the rules that reject them."""

    waiting: dict[Uid, tuple[Pod, frozenset[str]]] = attrs.field(factory=dict)

    def helped(self, change: Change, mirror: ClusterMirror) -> set[Uid]:
        return {
            uid
            for uid, (pod, rules) in self.waiting.items()
            if may_be_helped(pod, rules, change, mirror)
        }

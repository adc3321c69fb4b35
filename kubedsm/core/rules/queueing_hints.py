"""Which waiting pods are to be tried again after a change, as the hints of plugins say."""

from typing import Self

import attrs

from kubedsm.core.rules.fit import rejection
from kubedsm.core.rules.plugin import Cluster
from kubedsm.core.rules.plugins import BY_NAME
from kubedsm.core.rules.scene import EquivalenceClass
from kubedsm.core.world.change import Change
from kubedsm.core.world.model import Pod


@attrs.frozen(slots=True, cache_hash=True)
class Unschedulable:
    """Interchangeable pods that no node takes, and the rules by which the nodes reject them."""

    candidate: EquivalenceClass
    rules: frozenset[str]

    @classmethod
    def of(cls, pod: Pod, rules: frozenset[str]) -> Self:
        labels = tuple(sorted(pod.labels.items()))
        return cls(EquivalenceClass(pod.pod_class, pod.namespace, labels), rules)


def matters(change: Change) -> bool:
    """Whether it is a change at all, to any but a waiting pod itself."""
    if change.known is not None or change.freed is not None:
        return True
    if change.surrounding_before != change.surrounding_after:
        return True
    before, after = change.there_before, change.there_after
    if before is not None and after is not None:
        return before.labels != after.labels or before.terminating != after.terminating
    return before is not after or change.node_before != change.node_after


def still_unschedulable(
    unschedulable: Unschedulable, change: Change, cluster: Cluster
) -> Unschedulable | None:
    """What stands after the change; None if the pods are to be tried again."""
    if change.known is not None:
        return None
    candidate = unschedulable.candidate
    hints = {BY_NAME[rule].hint for rule in unschedulable.rules}
    if any(hint(change, candidate, cluster) for hint in hints):
        return None
    node = change.node_after
    if node is None or change.node_before is not None:
        return unschedulable
    # A new node has not rejected any pod yet, so that no hint knows of it.
    rejected = rejection(candidate.pod_class, node, cluster.free(node.name))
    if rejected is None:
        return None
    return attrs.evolve(unschedulable, rules=unschedulable.rules | {rejected.rule})


def still_unschedulable_itself(unschedulable: Unschedulable, pod: Pod) -> Unschedulable | None:
    """What stands after the pod itself has changed; None if it is to be tried again."""
    now = Unschedulable.of(pod, unschedulable.rules)
    if now.candidate.pod_class != unschedulable.candidate.pod_class:
        return None
    if now != unschedulable and any(BY_NAME[rule].by_labels for rule in unschedulable.rules):
        return None
    return now

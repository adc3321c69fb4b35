"""Which waiting pods are to be tried again after a change, as the hints of plugins say."""

import sys
from collections.abc import Mapping
from typing import Self

import attrs

from kubedsm.model.events import Change, Matter
from kubedsm.model.model import Node, Pod, Resources
from kubedsm.plugins.class_verdicts import accepts, rejection
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugin import Cluster, Hint
from kubedsm.plugins.plugins import BY_NAME, PLUGINS
from kubedsm.plugins.scene import EquivalenceClass

#: no number of pods is more
EVERY = sys.maxsize
#: several rules may have one hint
_HEARS: Mapping[Hint, tuple[Matter, ...]] = {plugin.hint: plugin.hears for plugin in PLUGINS}


@attrs.frozen(slots=True, cache_hash=True)
class Unschedulable:
    """Interchangeable pods that no node takes, and the rules by which the nodes reject them.

    Interchangeable to these rules: namespace and labels tell them apart only where a rule asks.
    """

    candidate: EquivalenceClass
    rules: frozenset[str]

    @classmethod
    def of(cls, pod: Pod, rules: frozenset[str]) -> Self:
        if not any(BY_NAME[rule].by_labels for rule in rules):
            return cls(EquivalenceClass(pod.pod_class), rules)
        labels = tuple(sorted(pod.labels.items()))
        return cls(EquivalenceClass(pod.pod_class, pod.namespace, labels), rules)

    @property
    def hints(self) -> set[Hint]:
        return {BY_NAME[rule].hint for rule in self.rules}


def concerns(hint: Hint, matters: set[Matter]) -> bool:
    """Whether the hint is to be asked about a change in these matters."""
    return not matters.isdisjoint(_HEARS[hint])


def node_now_accepts(change: Change, candidate: EquivalenceClass, cluster: Cluster) -> bool:
    """Return whether the node that changed, or has capacity freed, rejected and now accepts."""
    pod_class, freed = candidate.pod_class, change.freed
    before, after = change.node_before, change.node_after
    if after is not None:
        free = cluster.free(after.name)
        if before is None or not accepts(pod_class, after, free):
            return False
        return not accepts(pod_class, before, free - after.allocatable + before.allocatable)
    node = cluster.node(freed.node) if freed is not None else None
    if node is None or freed is None:
        return False
    free = cluster.free(node.name)
    short_before = shortages(pod_class.requests, free - freed.amount)
    return bool(short_before) and accepts(pod_class, node, free)


def helped(
    hint: Hint, unschedulable: Unschedulable, change: Change, cluster: Cluster, *, more: bool
) -> int:
    """How many of these pods at most a node may take after the change, for all that hint knows.

    more: some node may take some already, which the hint does not know.
    """
    if hint is not None:
        return EVERY if hint(change, unschedulable.candidate, cluster) else 0
    if not (more or node_now_accepts(change, unschedulable.candidate, cluster)):
        return 0
    name = change.freed.node if change.freed is not None else None
    node = change.node_after or (cluster.node(name) if name is not None else None)
    return 0 if node is None else room_for(unschedulable, cluster.free(node.name))


def room_for(unschedulable: Unschedulable, free: Resources) -> int:
    """How many of these pods there is room for."""
    room = dict(free.items())
    requests = unschedulable.candidate.pod_class.requests.items()
    return max(0, min((room.get(name, 0) // n for name, n in requests if n > 0), default=EVERY))


def still_unschedulable(
    unschedulable: Unschedulable, node: Node, cluster: Cluster
) -> Unschedulable | None:
    """What stands on a new node, which no hint knows of; None if it takes such pods."""
    rejected = rejection(unschedulable.candidate.pod_class, node, cluster.free(node.name))
    if rejected is None:
        return None
    return attrs.evolve(unschedulable, rules=unschedulable.rules | {rejected.rule})

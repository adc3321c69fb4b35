"""Which waiting pods are to be tried again after a change, as the hints of plugins say."""

import sys
from collections.abc import Mapping
from typing import Self

import attrs

from kubedsm.core.rules.fit import NODE_RESOURCES_FIT, rejection
from kubedsm.core.rules.plugin import Cluster, Hint
from kubedsm.core.rules.plugins import BY_NAME, PLUGINS
from kubedsm.core.rules.scene import EquivalenceClass
from kubedsm.core.world.change import Change, Matter
from kubedsm.core.world.model import Node, Pod, Resources

#: no number of pods is more
EVERY = sys.maxsize
#: several rules may have one hint
_HEARS: Mapping[Hint, tuple[Matter, ...]] = {plugin.hint: plugin.hears for plugin in PLUGINS}
#: the one that says yes for a node which it has looked at itself
_TAKES_IT_NOW = NODE_RESOURCES_FIT.hint


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


def helped(hint: Hint, unschedulable: Unschedulable, change: Change, cluster: Cluster) -> int:
    """How many of these pods at most a node may take after the change, for all that hint knows."""
    if not hint(change, unschedulable.candidate, cluster):
        return 0
    if hint is not _TAKES_IT_NOW:
        return EVERY
    if change.node_after is not None:
        return room_for(unschedulable, cluster.free(change.node_after.name))
    return (
        EVERY if change.freed is None else room_for(unschedulable, cluster.free(change.freed.node))
    )


def room_for(unschedulable: Unschedulable, free: Resources) -> int:
    """How many of these pods there is room for."""
    room = dict(free.items())
    requests = unschedulable.candidate.pod_class.requests.items()
    return min((room.get(name, 0) // n for name, n in requests if n > 0), default=EVERY)


def still_unschedulable(
    unschedulable: Unschedulable, node: Node, cluster: Cluster
) -> Unschedulable | None:
    """What stands on a new node, which no hint knows of; None if it takes such pods."""
    rejected = rejection(unschedulable.candidate.pod_class, node, cluster.free(node.name))
    if rejected is None:
        return None
    return attrs.evolve(unschedulable, rules=unschedulable.rules | {rejected.rule})

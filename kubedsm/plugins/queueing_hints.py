"""Queueing hints: unschedulable pods to retry after a change."""

import sys
from collections.abc import Mapping
from typing import Self

import attrs

from kubedsm.model.events import Change, Matter
from kubedsm.model.model import Node, Pod, Resources
from kubedsm.plugins.fit import shortages
from kubedsm.plugins.plugin import Cluster, EquivalenceClass, Hint
from kubedsm.plugins.plugins import BY_NAME, PLUGINS, accepts, rejection

#: no number of pods is more
EVERY = sys.maxsize
#: plugins may share a hint
_HEARS: Mapping[Hint, tuple[Matter, ...]] = {plugin.hint: plugin.hears for plugin in PLUGINS}


@attrs.frozen(slots=True, cache_hash=True)
class Unschedulable:
    """Interchangeable unschedulable pods, and the plugins by which nodes reject them.

    Namespace and labels count only for plugins that use them.
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


def is_concerned(hint: Hint, matters: set[Matter]) -> bool:
    """Return whether the hint applies to changes of these kinds."""
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


def count_helped(
    hint: Hint, unschedulable: Unschedulable, change: Change, cluster: Cluster, *, more: bool
) -> int:
    """Return an upper bound on the pods that a node may accept after the change.

    more: some node may accept some already.
    """
    if hint is not None:
        return EVERY if hint(change, unschedulable.candidate, cluster) else 0
    if not (more or node_now_accepts(change, unschedulable.candidate, cluster)):
        return 0
    name = change.freed.node if change.freed is not None else None
    node = change.node_after or (cluster.node(name) if name is not None else None)
    return 0 if node is None else room_for(unschedulable, cluster.free(node.name))


def room_for(unschedulable: Unschedulable, free: Resources) -> int:
    """Return how many of these pods fit."""
    room = dict(free.items())
    requests = unschedulable.candidate.pod_class.requests.items()
    return max(0, min((room.get(name, 0) // n for name, n in requests if n > 0), default=EVERY))


def still_unschedulable(
    unschedulable: Unschedulable, node: Node, cluster: Cluster
) -> Unschedulable | None:
    """Update for a new node; None if the node accepts such pods."""
    rejected = rejection(unschedulable.candidate.pod_class, node, cluster.free(node.name))
    if rejected is None:
        return None
    return attrs.evolve(unschedulable, rules=unschedulable.rules | {rejected.rule})

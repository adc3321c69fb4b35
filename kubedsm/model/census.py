"""Pod counts of a snapshot by workload and node tier. The cluster mirror updates the counts event
by event.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping
from typing import TypeVar

import attrs

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    Share,
    Tier,
    Workload,
    levels_of,
)
from kubedsm.model.node_index import Step
from kubedsm.model.residents import keys_looked_at

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Census:
    """Aggregate counts over this scheduler's pods that count for QoS, unless a field states
    otherwise.
    """

    #: workloads with a counted pod, by name
    shares: Mapping[Workload, Share]
    #: number of pods by requests
    requests: Mapping[Resources, int]
    #: number of pods by workload and priority
    priorities: Mapping[tuple[Workload, int], int]
    #: number of pods by class, including pods of other schedulers
    classes: Mapping[PodClass, int]
    #: pod labels that rules between pods select on, sorted; None without such rules
    looked_at: tuple[str, ...] | None
    #: number of our pods with tenant annotations, by workload
    wishing: Mapping[Workload, int]
    #: pods of each workload by node, for all schedulers
    standing: Mapping[Workload, Mapping[NodeName, int]]

    @property
    def levels(self) -> dict[Workload, int] | None:
        """Highest priority of each workload; None if all pods have equal priority."""
        return levels_of(self.priorities)

    def after(
        self, steps: Iterable[Step], scheduler_name: str, nodes: Mapping[NodeName, Node]
    ) -> "Census":
        """Return the aggregate counts after arrivals and departures of counted pods at nodes."""
        shares, standing = dict(self.shares), dict(self.standing)
        for pod, node, by in steps:
            if not pod.counts_for_qos:
                continue
            _count_standing(standing, pod.workload, node, by)
            known = nodes.get(node)
            on_edge = known is not None and known.tier is Tier.EDGE
            if on_edge and pod.scheduler_name == scheduler_name:
                share = shares[pod.workload]
                shares[pod.workload] = Share(share.edge + by, share.total)
        return attrs.evolve(self, shares=shares, standing=standing)


@attrs.define(eq=False)
class Tally:
    """Mutable census (aggregate pod counts), updated pod by pod."""

    scheduler_name: str
    _shares: dict[Workload, Share] = attrs.field(factory=dict, init=False)
    _in_order: bool = attrs.field(default=True, init=False)
    _requests: Counter[Resources] = attrs.field(factory=Counter, init=False)
    _priorities: Counter[tuple[Workload, int]] = attrs.field(factory=Counter, init=False)
    _classes: Counter[PodClass] = attrs.field(factory=Counter, init=False)
    #: derived from the classes; not valid after another class came or went
    _looked_at: tuple[str, ...] | None = attrs.field(default=None, init=False)
    _classes_changed: bool = attrs.field(default=False, init=False)
    _wishing: Counter[Workload] = attrs.field(factory=Counter, init=False)
    _standing: dict[Workload, Mapping[NodeName, int]] = attrs.field(factory=dict, init=False)

    def count(self, pod: Pod, node: NodeName | None, *, on_edge: bool, times: int = 1) -> None:
        """Add the pod to all aggregate counts, or with times = -1, subtract the pod."""
        classes = len(self._classes)
        _add_count(self._classes, pod.pod_class, times)
        self._classes_changed |= len(self._classes) != classes
        ours = pod.scheduler_name == self.scheduler_name
        if ours and pod.wishes is not None:
            _add_count(self._wishing, pod.workload, times)
        if ours and pod.counts_for_qos:
            _add_count(self._requests, pod.requests, times)
            _add_count(self._priorities, (pod.workload, pod.pod_class.priority), times)
        self.count_on(node, pod, on_edge=on_edge, times=times, total=times)

    def count_on(
        self, node: NodeName | None, pod: Pod, *, on_edge: bool, times: int, total: int = 0
    ) -> None:
        """Add a pod to the counts that depend on its node, or with times = -1, subtract the pod;
        total: change of the workload's number of pods.
        """
        if not pod.counts_for_qos:
            return
        if node is not None:
            _count_standing(self._standing, pod.workload, node, times)
        if pod.scheduler_name != self.scheduler_name:
            return
        known = self._shares.get(pod.workload)
        if known is None:
            known, self._in_order = Share(), False
        changed = Share(known.edge + times * on_edge, known.total + total)
        self._shares[pod.workload] = changed
        if not changed.total:
            del self._shares[pod.workload]

    def census(self) -> Census:
        """Return the aggregate pod counts as an immutable census."""
        if not self._in_order:
            self._shares = {workload: self._shares[workload] for workload in sorted(self._shares)}
            self._in_order = True
        if self._classes_changed:
            self._looked_at, self._classes_changed = keys_looked_at(self._classes), False
        return Census(
            dict(self._shares),
            dict(self._requests),
            dict(self._priorities),
            dict(self._classes),
            self._looked_at,
            dict(self._wishing),
            dict(self._standing),
        )


def counts_alike(one: Pod, other: Pod) -> bool:
    """Return True if two states of a pod contribute equally to the aggregate pod counts, except for
    the node.
    """
    return (
        one.counts_for_qos is other.counts_for_qos
        and (one.pod_class is other.pod_class or one.pod_class == other.pod_class)
        and one.workload == other.workload
        and one.scheduler_name == other.scheduler_name
        and (one.wishes is None) is (other.wishes is None)
    )


def census_of(
    scheduler_name: str, pods: Iterable[tuple[Pod, NodeName | None]], edge: Container[NodeName]
) -> Census:
    """Compute the aggregate counts of the given pods from scratch; edge: nodes of the edge tier."""
    tally = Tally(scheduler_name)
    for pod, node in pods:
        tally.count(pod, node, on_edge=node in edge)
    return tally.census()


def _count_standing(
    standing: dict[Workload, Mapping[NodeName, int]], workload: Workload, node: NodeName, times: int
) -> None:
    # Inner mappings are published: replaced, never changed.
    standing[workload] = there = dict(standing.get(workload, {}))
    _add_count(there, node, times)
    if not there:
        del standing[workload]


def _add_count(counts: dict[K, int], key: K, times: int) -> None:
    counts[key] = counts.get(key, 0) + times
    if not counts[key]:
        del counts[key]

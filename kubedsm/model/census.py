"""Census: aggregates over the pods of a snapshot. The mirror updates it event by event."""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping
from typing import TypeVar

import attrs

from kubedsm.model.model import NodeName, Pod, PodClass, Resources, Share, Workload
from kubedsm.model.residents import keys_looked_at

K = TypeVar("K", bound=Hashable)


@attrs.frozen
class Census:
    """Aggregates over our pods that count for QoS, unless noted."""

    #: workloads with a counted pod, by name
    shares: Mapping[Workload, Share]
    #: number of pods by requests
    requests: Mapping[Resources, int]
    #: number of pods by workload and priority
    priorities: Mapping[tuple[Workload, int], int]
    #: number of pods by class, including pods of other schedulers
    classes: Mapping[PodClass, int]
    #: pod labels that rules between pods select on; None without such rules
    looked_at: frozenset[str] | None
    #: number of our pods with tenant annotations, by workload
    wishing: Mapping[Workload, int]
    #: pods of each workload by node, for all schedulers
    standing: Mapping[Workload, Mapping[NodeName, int]]

    @property
    def levels(self) -> dict[Workload, int] | None:
        """Highest priority of each workload; None if all pods have equal priority."""
        if len({priority for _, priority in self.priorities}) <= 1:
            return None
        levels: dict[Workload, int] = {}
        for workload, priority in self.priorities:
            levels[workload] = max(priority, levels.get(workload, priority))
        return levels


@attrs.define(eq=False)
class Tally:
    """Mutable census."""

    scheduler_name: str
    _shares: dict[Workload, Share] = attrs.field(factory=dict, init=False)
    _in_order: bool = attrs.field(default=True, init=False)
    _requests: Counter[Resources] = attrs.field(factory=Counter, init=False)
    _priorities: Counter[tuple[Workload, int]] = attrs.field(factory=Counter, init=False)
    _classes: Counter[PodClass] = attrs.field(factory=Counter, init=False)
    #: number of classes with rules between pods, and by label
    _looking: int = attrs.field(default=0, init=False)
    _looked_at: Counter[str] = attrs.field(factory=Counter, init=False)
    _wishing: Counter[Workload] = attrs.field(factory=Counter, init=False)
    #: inner mappings are published: replaced, never changed
    _standing: dict[Workload, Mapping[NodeName, int]] = attrs.field(factory=dict, init=False)

    def count(self, pod: Pod, node: NodeName | None, *, on_edge: bool, times: int = 1) -> None:
        """Count the pod in, or with times = -1, out."""
        known = pod.pod_class in self._classes
        _add_count(self._classes, pod.pod_class, times)
        if known is not (pod.pod_class in self._classes):
            self._count_labels(pod.pod_class, times)
        self._place_pod(pod, node, times)
        if pod.scheduler_name != self.scheduler_name:
            return
        if pod.wishes is not None:
            _add_count(self._wishing, pod.workload, times)
        if not pod.counts_for_qos:
            return
        self._change_share(pod.workload, times * on_edge, times)
        _add_count(self._requests, pod.requests, times)
        _add_count(self._priorities, (pod.workload, pod.pod_class.priority), times)

    def _count_labels(self, pod_class: PodClass, times: int) -> None:
        keys = keys_looked_at((pod_class,))
        if keys is not None:
            self._looking += times
            for key in keys:
                _add_count(self._looked_at, key, times)

    def _place_pod(self, pod: Pod, node: NodeName | None, times: int) -> None:
        if node is None or not pod.counts_for_qos:
            return
        there = dict(self._standing.get(pod.workload, {}))
        _add_count(there, node, times)
        if there:
            self._standing[pod.workload] = there
        else:
            del self._standing[pod.workload]

    def _change_share(self, workload: Workload, edge: int, total: int) -> None:
        known = self._shares.get(workload)
        if known is None:
            known, self._in_order = Share(), False
        changed = Share(known.edge + edge, known.total + total)
        if changed.total:
            self._shares[workload] = changed
        else:
            del self._shares[workload]

    def census(self) -> Census:
        """Return the current census."""
        if not self._in_order:
            self._shares = {workload: self._shares[workload] for workload in sorted(self._shares)}
            self._in_order = True
        return Census(
            dict(self._shares),
            dict(self._requests),
            dict(self._priorities),
            dict(self._classes),
            frozenset(self._looked_at) if self._looking else None,
            dict(self._wishing),
            dict(self._standing),
        )


def counts_alike(one: Pod, other: Pod) -> bool:
    """Return whether two states of a pod count equally, nodes aside."""
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
    """Count these pods from scratch; edge: nodes of the edge tier."""
    tally = Tally(scheduler_name)
    for pod, node in pods:
        tally.count(pod, node, on_edge=node in edge)
    return tally.census()


def _add_count(counts: dict[K, int], key: K, times: int) -> None:
    counts[key] = counts.get(key, 0) + times
    if not counts[key]:
        del counts[key]

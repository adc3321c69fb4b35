"""Load balance: evenness of measured CPU, memory, network and disk usage of a node.

Score of the load-aware paper: with r_x = (x_p + x_n) / X_n for each resource x (usage of a pod of
the workload, usage of the node, capacity), a node scores (1 - std(r)) 100 for the pod. Nodes
above `high_usage` of any resource score below zero, and receive no migrations. Unknown resources
are ignored, and nodes with fewer than two known resources have no score. Unmeasured workloads are
assumed to use their requests. Pods placed after the sample are added (shadow load).
"""

import math
from collections.abc import Iterable, Mapping
from typing import Self

import attrs
import numpy as np
from attrs import validators
from numpy.typing import NDArray

from kubedsm.model.measured import Measured, Usage, only_in
from kubedsm.model.model import NodeName, Pod, Resources, Uid, Workload
from kubedsm.model.node_index import Mask, NodeIndex, Positions
from kubedsm.model.selectors import Requirement
from kubedsm.model.snapshot import Snapshot

Floats = NDArray[np.float64]
#: decimals of a score: rounding makes floating-point sums independent of order
_DECIMALS = 6


@attrs.frozen
class Capacity:
    """Network and disk capacity of nodes with the labels, in bytes/s; None: unknown."""

    labels: Mapping[str, str] = attrs.field(factory=dict)
    net: float | None = None
    disk: float | None = None

    def select_nodes(self, nodes: NodeIndex) -> Mask:
        selected = nodes.every()
        for key, value in self.labels.items():
            selected &= nodes.label(key).match_requirement(Requirement(key, "In", (value,)))
        return selected


@attrs.frozen
class LoadGoal:
    """Load-balancing configuration: weights, thresholds, and network and disk capacities of
    nodes.
    """

    #: weight next to kube-scheduler's scores; 0: no influence on placement
    weight: float = attrs.field(default=1.0, validator=validators.ge(0.0))
    #: utilisation of any resource above which a node scores below zero and receives no migrations
    high_usage: float = attrs.field(default=0.85, validator=validators.gt(0.0))
    #: whether pods are migrated for load balance
    move: bool = False
    #: least score gained by a migration
    min_gain: float = attrs.field(default=5.0, validator=validators.gt(0.0))
    #: whether scores are scaled to 0..100 over the candidate nodes
    normalise: bool = False
    #: configured capacities; the first entry that selects a node and specifies the amount applies
    capacity: tuple[Capacity, ...] = ()

    def sizes(self, nodes: NodeIndex) -> Floats:
        """Return node capacity of CPU, memory, network and disk, shape (nodes, 4); NaN: unknown."""
        sizes = np.full((len(nodes), 4), np.nan)
        sizes[:, 0], sizes[:, 1] = nodes.size("cpu"), nodes.size("memory")
        for each in reversed(self.capacity):
            selected = each.select_nodes(nodes)
            for column, amount in ((2, each.net), (3, each.disk)):
                if amount is not None:
                    sizes[selected, column] = amount
        sizes[sizes <= 0] = np.nan
        return sizes


def evenness(ratios: Floats) -> Floats:
    """Return how evenly a node's resources (CPU, memory, network, disk) are used, from usage
    ratios; NaN with fewer than two known.
    """
    known = np.isfinite(ratios)
    number = known.sum(axis=-1)
    some = np.maximum(number, 1)
    mean = np.where(known, ratios, 0.0).sum(axis=-1) / some
    squares = np.where(known, (ratios - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    scores = np.maximum(0.0, (1.0 - np.sqrt(squares / some)) * 100.0)
    return np.where(number > 1, scores.round(_DECIMALS), np.nan)


@attrs.define(eq=False)
class Loads:
    """Node usage from a measured sample and subsequent placements; mutable, for one owner."""

    goal: LoadGoal
    nodes: NodeIndex
    sample: Measured
    #: capacity and usage, shape (nodes, 4); NaN: unknown
    sizes: Floats
    used: Floats
    #: pods placed after the measurement, with their nodes
    since: dict[Uid, NodeName] = attrs.field(factory=dict)
    #: cached scores of the nodes, unchanged and with one additional pod
    _own: Floats | None = attrs.field(default=None, init=False)
    _with_one_more: dict[tuple[Workload, Resources], Floats] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, goal: LoadGoal, snapshot: Snapshot, sample: Measured | None = None) -> Self | None:
        """Construct node usage from the sample, or the snapshot's; None without measured nodes."""
        sample = sample or snapshot.measured
        if not sample.nodes:
            return None
        nodes, nothing = snapshot.index, Usage()
        used = _amounts_matrix(sample.nodes.get(name, nothing) for name in nodes.names)
        loads = cls(goal, nodes, sample, goal.sizes(nodes), used)
        for uid, at in sorted(sample.came.items()):
            # The measurement window includes only a fraction of the pod's usage.
            loads._add_use(
                snapshot.pods.get(uid), sample.placed[uid], 1 - (sample.at - at) / sample.window
            )
        if snapshot.placed is not sample.placed:
            for uid, node in sorted(only_in(snapshot.placed, sample.placed)):
                loads._add_use(snapshot.pods.get(uid), node)
                loads.since[uid] = node
        return loads

    def put(self, pod: Pod, node: NodeName) -> None:
        """Add the estimated resource usage of a pod that was placed on a node after the
        measurement.
        """
        self._add_use(pod, node)
        self.since[pod.uid] = node
        self._own = None
        self._with_one_more.clear()

    def _add_use(self, pod: Pod | None, node: NodeName, part: float = 1.0) -> None:
        if pod is not None and not pod.finished and node in self.nodes.positions:
            self.used[self.nodes.positions[node]] += part * self.estimate_use(pod)

    def estimate_use(self, pod: Pod) -> Floats:
        """Estimate the pod's CPU, memory, network and disk usage: measured, or else requested."""
        measured = self.sample.workloads.get(pod.workload)
        found = _amounts_matrix([measured or Usage()])[0]
        requested = (pod.requests.cpu, pod.requests.memory, 0.0, 0.0)
        return np.where(np.isnan(found), requested, found)

    def ratios(self, pod: Pod, at: Positions) -> Floats:
        """Return resource usage ratios of candidate nodes with the pod on them, shape (candidates,
        4).
        """
        homes = self.sample.placed.get(pod.uid), self.since.get(pod.uid)
        positions = [self.nodes.positions.get(name) for name in homes if name]
        here = [position for position in positions if position is not None]
        more = np.where(np.isin(at, here)[:, None], 0.0, self.estimate_use(pod))
        return (self.used[at] + more) / self.sizes[at]

    def scores(self, pod: Pod, at: Positions) -> Floats:
        """Return load scores, up to 100, of candidate nodes for the pod; NaN: unknown."""
        ratios = self.ratios(pod, at)
        scores = evenness(ratios)
        too_high = self.too_high(ratios)
        beyond = self.goal.high_usage - np.nanmax(ratios[too_high], axis=-1)
        scores[too_high] = (100.0 * beyond).round(_DECIMALS)
        return _stretch_scores(scores) if self.goal.normalise else scores

    def too_high(self, ratios: Floats) -> Mask:
        """Return which candidate nodes, given as rows of usage ratios, have any resource above the
        high-usage threshold.
        """
        return np.asarray((ratios > self.goal.high_usage).any(axis=-1))

    def gains(self, pod: Pod, source: int) -> Floats:
        """Return the score gained by migrating the pod to each node; -inf: unfit or unknown."""
        key = pod.workload, pod.requests
        if key not in self._with_one_more:
            ratios = (self.used + self.estimate_use(pod)) / self.sizes
            scores = evenness(ratios)
            unfit = np.isnan(scores) | self.too_high(ratios)
            self._with_one_more[key] = np.where(unfit, -np.inf, scores)
        here = self.own[source]
        gains: Floats = self._with_one_more[key] - (np.inf if np.isnan(here) else here)
        gains[source] = 0.0
        return gains

    @property
    def own(self) -> Floats:
        """Current load-balance score of each node; NaN: unknown."""
        if self._own is None:
            self._own = evenness(self.used / self.sizes)
        return self._own

    @property
    def most_uneven_first(self) -> list[int]:
        """Positions of nodes with known usage, ordered by unevenness of resource usage, ties by
        name.
        """
        order: list[int] = np.argsort(self.own, kind="stable").tolist()
        return [position for position in order if not np.isnan(self.own[position])]


def _amounts_matrix(usages: Iterable[Usage]) -> Floats:
    """Convert usages to an array of shape (usages, 4): CPU, memory, network and disk."""
    listed = [(use.cpu, use.memory, use.net, use.disk) for use in usages]
    return np.array(listed, dtype=np.float64).reshape(-1, 4)


def _stretch_scores(scores: Floats) -> Floats:
    """Scale load-balance scores linearly to 0..100; identical scores all become 100."""
    known = scores[~np.isnan(scores)]
    least, greatest = known.min(initial=math.inf), known.max(initial=-math.inf)
    if least >= greatest:
        return np.where(np.isnan(scores), np.nan, 100.0)
    stretched: Floats = ((scores - least) / (greatest - least) * 100.0).round(_DECIMALS)
    return stretched

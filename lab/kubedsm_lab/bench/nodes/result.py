"""Results of the `nodes` benchmark: measurements by scheduler, percentage of scored nodes and
cluster size, with tables.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import Any

import attrs
import numpy as np

from kubedsm.model.model import Resources
from kubedsm.model.node_index import Ints
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.cloud import allocation_score
from kubedsm.optimizer.placing.decision import Binding
from kubedsm_lab.baselines.kube_scheduler import balanced_allocation_score
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.bench.burst.result import Figures, medians_of, summarize_evenness
from kubedsm_lab.bench.report import Report
from kubedsm_lab.replay.rankings import Ranking, ours_and_best
from kubedsm_lab.replay.tables import Section, Table, fill_sections, number

KUBE_SCHEDULER = "kube-scheduler"
#: Compared percentages; the last means all nodes.
PERCENTAGES = (0, 10, 50, 100)
ALL = PERCENTAGES[-1]
#: Pods a second that kube-scheduler's CI (scheduler_perf) requires at 5,000 nodes: in Go, all nodes
#: alike, with binds to an API server and etcd. Not comparable with decisions alone.
_CI_NODES, _CI_FLOOR = 5000, (680, 810)
#: Differences between two runs of the same contender.
_TIME_NOISE, _SCORE_NOISE, _JAIN_NOISE = 0.1, 0.005, 0.005
#: Figure, unit, whether less is better, noise; by description.
_STANDINGS: Mapping[str, tuple[str, str, bool, float]] = {
    "decision time a pod": ("ms", "ms of CPU", True, _TIME_NOISE),
    "mean score of the nodes chosen": ("score", "of 200", False, _SCORE_NOISE),
    "Jain's index of the pods over nodes": ("jain", "", False, _JAIN_NOISE),
    "Jain's index of the pods over zones": ("zones_jain", "", False, _JAIN_NOISE),
    "pods that stay pending": ("pending", "", True, 0.0),
}
_ZONE = "topology.kubernetes.io/zone"


@attrs.define
class Searches:
    """Statistics of node sampling; nodes are numbered in the order of the search."""

    #: number of searches that scored each node
    counts: Ints
    #: by search, the number of nodes
    lengths: list[int] = attrs.field(factory=list)

    @classmethod
    def of_nodes(cls, nodes: int) -> "Searches":
        return cls(np.zeros(nodes, dtype=np.int64))

    def add(self, first: int, length: int) -> None:
        """Record a search that scored `length` nodes, from node number `first` on, wrapping around
        at the last node.
        """
        self.counts[np.arange(first, first + length) % len(self.counts)] += 1
        self.lengths.append(length)


def summarize_round(
    before: Snapshot, bindings: Sequence[Binding], searches: Searches, seconds: float
) -> Figures:
    """Return the measurements of one scheduler on one generated cloud.

    before: with all new pods pending. seconds: CPU time of the scheduler.
    """
    pods = len(before.pods) - len(before.placed)
    on_nodes = Counter(binding.node for binding in bindings)
    nodes = summarize_evenness([on_nodes[name] for name in before.nodes])
    zone_of = {name: node.labels[_ZONE] for name, node in before.nodes.items()}
    in_zones = Counter(dict.fromkeys(zone_of.values(), 0))
    in_zones.update(zone_of[binding.node] for binding in bindings)
    zones = summarize_evenness(list(in_zones.values()))
    return {
        # CPU milliseconds a pod
        "ms": 1000 * seconds / pods,
        # mean sum of LeastAllocated and BalancedAllocation of the chosen node, 0 to 200, when the
        # pod comes
        "score": _mean_score(before, bindings),
        "pending": float(pods - len(bindings)),
        # evenness of the new pods over all nodes, and over all zones
        "jain": nodes["jain"],
        "cv": nodes["cv"],
        "zones_jain": zones["jain"],
        "zones_cv": zones["cv"],
        # mean number of nodes scored by a search, and least and most searches per node
        "looked_at": fmean(searches.lengths),
        "least": float(searches.counts.min()),
        "most": float(searches.counts.max()),
    }


def _mean_score(before: Snapshot, bindings: Sequence[Binding]) -> float:
    free, scores = dict(before.free), []
    for binding in bindings:
        node, requests = before.nodes[binding.node], binding.pod.requests
        left, size = free[node.name], node.allocatable
        used, then = _cpu_memory(size - left), _cpu_memory(size - left + requests)
        least_allocated = allocation_score([*_cpu_memory(size)], [*then])
        balanced = balanced_allocation_score(_cpu_memory(size), used, then)
        scores.append(least_allocated + balanced)
        free[node.name] = left - requests
    return fmean(scores)


def _cpu_memory(amounts: Resources) -> tuple[int, int]:
    return amounts.cpu, amounts.memory


@attrs.frozen
class Side:
    """Measurements of one scheduler at one cluster size and percentage of scored nodes, over all
    rounds.
    """

    nodes: int
    policy: str
    percentage: int
    rounds: Sequence[Figures]

    @property
    def name(self) -> str:
        return f"{self.policy}, p = {self.percentage}"

    @cached_property
    def medians(self) -> Figures:
        """Return the median over the rounds, by measurement name."""
        return medians_of(self.rounds)

    @property
    def per_second(self) -> float:
        return 1000 / self.medians["ms"]

    @property
    def is_fair(self) -> bool:
        """Return True if the scheduler scored all nodes equally often, give or take one search."""
        return all(each["most"] - each["least"] <= 1 for each in self.rounds)

    def as_json(self) -> dict[str, Any]:
        figures = {name: round(value, 4) for name, value in self.medians.items()}
        about = {"nodes": self.nodes, "policy": self.policy, "percentage": self.percentage}
        return {**about, **figures, "decisionsPerSecond": round(self.per_second, 1)}


@attrs.frozen
class NodesResult:
    """Results of the `nodes` benchmark: all schedulers, percentages of scored nodes and cluster
    sizes.
    """

    pods: int
    rounds: int
    sides: Sequence[Side]
    about: str = ""

    @property
    def sizes(self) -> list[int]:
        return list(dict.fromkeys(side.nodes for side in self.sides))

    def with_all_nodes(self, side: Side) -> Side:
        """Return the results of the same scheduler and cluster size with 100% of the
        nodes scored.
        """
        key = side.nodes, side.policy, ALL
        return next(s for s in self.sides if (s.nodes, s.policy, s.percentage) == key)

    def lost_score(self, side: Side) -> float:
        return self.with_all_nodes(side).medians["score"] - side.medians["score"]

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "rounds": self.rounds,
            "sides": [
                {**s.as_json(), "lostScore": round(self.lost_score(s), 4), "fair": s.is_fair}
                for s in self.sides
            ],
            "publishedCiFloor": {"nodes": _CI_NODES, "podsPerSecond": list(_CI_FLOOR)},
        }

    def report(self) -> Report:
        return Report.of_sections(self.as_json(), self.about, sections(self))


def rankings(result: NodesResult) -> list[Ranking]:
    """Rank KubeDSM, which scores all nodes, against kube-scheduler at each percentage of scored
    nodes.
    """
    ours = f"{KUBEDSM}, p = {ALL}"
    return [
        Ranking(
            f"{what}, {nodes:,} nodes",
            unit,
            less,
            {
                side.name: side.medians[figure]
                for side in result.sides
                if side.nodes == nodes and (side.name == ours or side.policy == KUBE_SCHEDULER)
            },
            noise,
            ours,
        )
        for nodes in result.sizes
        for what, (figure, unit, less, noise) in _STANDINGS.items()
    ]


def sections(result: NodesResult) -> list[Section]:
    return fill_sections("nodes", _TABLES, result)


def _table(
    result: NodesResult, headings: Sequence[str], cells: Callable[[Side], Sequence[str]]
) -> Table:
    lines = [[f"{side.nodes:,}", side.name, *cells(side)] for side in result.sides]
    return ["nodes", "", *headings], lines


def _time_table(result: NodesResult) -> Table:
    def cells(side: Side) -> Sequence[str]:
        ms, every = side.medians["ms"], result.with_all_nodes(side).medians["ms"]
        return number(ms, 3), number(side.per_second, 0), number(every / ms, 2)

    headings = ("ms of CPU a pod", "decisions a second", f"times as fast as p = {ALL}")
    all_headings, lines = _table(result, headings, cells)
    floor = " to ".join(map(str, _CI_FLOOR))
    published = [f"{_CI_NODES:,}", "kube-scheduler's CI floor, published", "", floor, ""]
    return all_headings, [*lines, published]


def _quality_table(result: NodesResult) -> Table:
    digits = {"score": 2, "pending": 0, "jain": 4, "cv": 3, "zones_jain": 4, "zones_cv": 3}

    def cells(side: Side) -> Sequence[str]:
        score, *others = (number(side.medians[name], places) for name, places in digits.items())
        return score, number(result.lost_score(side), 2), *others

    headings = ("score", "lost", "pending", "Jain of nodes", "CV", "Jain of zones", "CV")
    return _table(result, headings, cells)


def _fairness_table(result: NodesResult) -> Table:
    def cells(side: Side) -> Sequence[str]:
        counts = [number(side.medians[name], 0) for name in ("looked_at", "least", "most")]
        return *counts, "yes" if side.is_fair else "no"

    return _table(result, ("scored", "least", "most", "within one"), cells)


_TABLES: Mapping[str, Callable[[NodesResult], Table]] = {
    "Ranking": lambda result: ours_and_best(rankings(result)),
    "Time": _time_table,
    "Quality": _quality_table,
    "Fairness": _fairness_table,
}

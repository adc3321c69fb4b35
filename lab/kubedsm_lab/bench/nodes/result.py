"""What came of each contender at each size, and who is ahead."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import fmean, median
from typing import Any

import attrs

from kubedsm.model.model import Resources
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.cloud import score_with
from kubedsm_lab.baselines.kube_scheduler import balanced_allocation_score
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.bench.burst.figures import evenness
from kubedsm_lab.bench.nodes import instance, published
from kubedsm_lab.bench.nodes.contenders import BATCH, KUBE_SCHEDULER, PERCENTAGES, Decided, name_of
from kubedsm_lab.replay.standings import Standing

ALL = PERCENTAGES[-1]
#: two runs of the same differ by so much
_NOISE_OF_TIMES, _NOISE_OF_SCORES, _NOISE_OF_JAIN = 0.1, 0.005, 0.005


@attrs.frozen(slots=True)
class Round:
    """What came of some pods."""

    #: of CPU, for a pod
    ms: float
    #: mean over the pods of what LeastAllocated and BalancedAllocation give the node, 0..200: the
    #: scores that a node has by itself, when the pod comes
    score: float
    pending: int
    #: of the pods that came, on all nodes and in all zones
    jain: float
    cv: float
    zones_jain: float
    zones_cv: float
    #: mean number of nodes that one search looked at
    looked_at: float
    #: how often the node was that was looked at least often, and most
    least: int
    most: int

    @classmethod
    def of(cls, before: Snapshot, pods: int, decided: Decided) -> "Round":
        came = Counter(binding.node for binding in decided.bindings)
        nodes = evenness([came[name] for name in before.nodes])
        zone_of = {name: instance.zone(node) for name, node in before.nodes.items()}
        in_zones = Counter(dict.fromkeys(zone_of.values(), 0))
        for binding in decided.bindings:
            in_zones[zone_of[binding.node]] += 1
        zones = evenness(list(in_zones.values()))
        return cls(
            decided.ms / pods,
            _mean_score(before, decided),
            pods - len(decided.bindings),
            nodes["jain"],
            nodes["cv"],
            zones["jain"],
            zones["cv"],
            fmean(decided.looks.numbers),
            int(decided.looks.often.min()),
            int(decided.looks.often.max()),
        )


def _mean_score(before: Snapshot, decided: Decided) -> float:
    free, scores = dict(before.free), []
    for binding in decided.bindings:
        node, requests = before.nodes[binding.node], binding.pod.requests
        left, size = free[node.name], node.allocatable
        least = score_with(requests, node, left)
        without, then = _asked(size - left), _asked(size - left + requests)
        scores.append(least + balanced_allocation_score(_asked(size), without, then))
        free[node.name] = left - requests
    return fmean(scores)


def _asked(amounts: Resources) -> tuple[int, int]:
    return amounts.cpu, amounts.memory


@attrs.frozen
class Side:
    """One contender at one size."""

    nodes: int
    policy: str
    percentage: int
    rounds: Sequence[Round]

    @property
    def name(self) -> str:
        return name_of(self.policy, self.percentage)

    @cached_property
    def medians(self) -> Mapping[str, float]:
        """By the names of a round's fields."""
        names = [field.name for field in attrs.fields(Round)]
        return {name: float(median(getattr(r, name) for r in self.rounds)) for name in names}

    @property
    def per_second(self) -> float:
        return 1000 / self.medians["ms"]

    @property
    def fair(self) -> bool:
        """Whether no node was ever looked at more than once more than another."""
        return all(each.most - each.least <= 1 for each in self.rounds)

    def as_json(self) -> dict[str, Any]:
        figures = {name: round(value, 4) for name, value in self.medians.items()}
        about = {"nodes": self.nodes, "policy": self.policy, "percentage": self.percentage}
        return {**about, **figures, "decisionsPerSecond": round(self.per_second, 1)}


@attrs.frozen
class NodesResult:
    pods: int
    rounds: int
    #: of one size after the other
    sides: Sequence[Side]

    @property
    def sizes(self) -> list[int]:
        return list(dict.fromkeys(side.nodes for side in self.sides))

    def side(self, nodes: int, policy: str, percentage: int) -> Side:
        """Raises StopIteration if there is none."""
        asked = nodes, policy, percentage
        return next(s for s in self.sides if (s.nodes, s.policy, s.percentage) == asked)

    def lost(self, side: Side) -> float:
        """What the mean score is less than by looking at all nodes."""
        everything = self.side(side.nodes, side.policy, ALL)
        return everything.medians["score"] - side.medians["score"]

    @property
    def about(self) -> str:
        return (
            f"{self.pods:,} pods of {instance.CLASSES} Deployments come to clouds of"
            f" {instance.ZONES} zones, one node in {instance.FULL} of which is full, the others"
            " unevenly so. Decided on as values: no API server, nothing is bound. Both are Python"
            " in one process: kube-scheduler's scores in turn for one pod after the other, KubeDSM"
            f" in batches of {BATCH}. Rounds: {self.rounds}, each a cloud of"
            " its own, begun by another contender; medians over them; times are of CPU. p is"
            " percentageOfNodesToScore, and cloud.percentageOfNodes; 0 is the formula"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "rounds": self.rounds,
            "sides": [
                {**side.as_json(), "lostScore": round(self.lost(side), 4), "fair": side.fair}
                for side in self.sides
            ],
            "publishedCiFloor": {
                "nodes": published.CI_NODES,
                "podsPerSecond": list(published.CI_FLOOR),
            },
        }


#: what is said of it, the figure, its unit, whether less is better, and its noise
_STANDINGS = (
    ("decision time a pod", "ms", "ms of CPU", True, _NOISE_OF_TIMES),
    ("mean score of the nodes chosen", "score", "of 200", False, _NOISE_OF_SCORES),
    ("Jain's index of the pods over nodes", "jain", "", False, _NOISE_OF_JAIN),
    ("Jain's index of the pods over zones", "zones_jain", "", False, _NOISE_OF_JAIN),
    ("pods that stay pending", "pending", "", True, 0.0),
)


def standings(result: NodesResult) -> list[Standing]:
    """KubeDSM as it comes, beside kube-scheduler with each percentage."""
    ours = name_of(KUBEDSM, ALL)
    return [
        Standing(
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
        for what, figure, unit, less, noise in _STANDINGS
    ]

"""What came of bursts: by scheduler and round, as medians, and as ratios."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from statistics import fmean, median
from typing import Any

import attrs

from kubedsm_lab.baselines.score_cache import Why
from kubedsm_lab.bench.burst import bare_loop
from kubedsm_lab.replay.standings import Standing

#: by name, such as `watch.createdToBound.p99`; times in ms
Figures = Mapping[str, float]
#: the figure of the CPU, in ms, that a scheduler's processes took for a burst, where they are ours
CPU = "schedulerCpu"
#: of nodes, those that got the most
TOP = 5
#: two runs of the same differ by so much
_NOISE_OF_TIMES, _NOISE_OF_JAIN = 0.05, 0.005


@attrs.frozen(slots=True)
class Round:
    figures: Figures
    #: by node
    pods: Mapping[str, int]


@attrs.frozen(slots=True)
class CacheUse:
    """Of a score cache, in all rounds together."""

    #: what became of its looks
    looks: Mapping[Why, int]

    @property
    def hits(self) -> int:
        """Pods that were placed by what was remembered."""
        return self.looks.get(Why.HIT, 0)

    @property
    def passes(self) -> int:
        """How often all nodes were scored."""
        return sum(self.looks.values()) - self.hits

    def as_json(self) -> dict[str, Any]:
        hit_rate = round(self.hits / max(1, self.hits + self.passes), 4)
        return {
            "passes": self.passes,
            "hitRate": hit_rate,
            "looks": {why.value: n for why, n in self.looks.items()},
        }


@attrs.frozen
class Side:
    """One scheduler."""

    scheduler: str
    rounds: Sequence[Round]
    #: None if it has none, or none that we can look into
    cache: CacheUse | None = None

    @cached_property
    def medians(self) -> Figures:
        """Over the rounds that have the figure."""
        return _medians(each.figures for each in self.rounds)

    def ratios(self, other: "Side") -> Figures:
        """To that one: the median of the rounds' own, each of two bursts of about one moment."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return _medians(
            {
                name: value / theirs.figures[name]
                for name, value in ours.figures.items()
                if theirs.figures.get(name)
            }
            for ours, theirs in pairs
        )

    @property
    def top_nodes(self) -> dict[str, float]:
        """Pods by node, as the mean over the rounds: of those that got the most."""
        mean = {name: fmean(each.pods[name] for each in self.rounds) for name in self._nodes}
        return {
            name: mean[name] for name in sorted(mean, key=lambda name: (-mean[name], name))[:TOP]
        }

    @property
    def _nodes(self) -> Iterable[str]:
        return self.rounds[0].pods


def _medians(rounds: Iterable[Figures]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for figures in rounds:
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


@attrs.frozen
class BurstResult:
    pods: int
    nodes: int
    #: whether nothing runs on these nodes
    emulated: bool
    sides: Sequence[Side]

    @property
    def about(self) -> str:
        kind = "Emulated nodes" if self.emulated else "Nodes"
        return (
            f"{kind}: {self.nodes}; pods: {self.pods}; rounds: {len(self.sides[0].rounds)}, each"
            " begun by another scheduler. Medians over the rounds"
        )

    def as_json(self) -> dict[str, Any]:
        first, *others = self.sides
        return {
            "emulated": self.emulated,
            "pods": self.pods,
            "nodes": self.nodes,
            "rounds": len(first.rounds),
            "schedulers": {side.scheduler: _rounded(side.medians) for side in self.sides},
            "ratiosTo": {side.scheduler: _rounded(first.ratios(side)) for side in others},
            "topNodes": {side.scheduler: _rounded(side.top_nodes) for side in self.sides},
            "scoreCaches": {
                side.scheduler: side.cache.as_json()
                for side in self.sides
                if side.cache is not None
            },
        }


def _rounded(figures: Figures) -> dict[str, float]:
    return {name: round(value, 4) for name, value in figures.items()}


#: what is said of it, the figure, its unit, whether less is better, and its noise
_STANDINGS = (
    ("mean from created to bound", "watch.createdToBound.mean", "ms", True, _NOISE_OF_TIMES),
    ("p99 from created to bound", "watch.createdToBound.p99", "ms", True, _NOISE_OF_TIMES),
    ("mean from created to Ready", "watch.createdToReady.mean", "ms", True, _NOISE_OF_TIMES),
    ("p99 from created to Ready", "watch.createdToReady.p99", "ms", True, _NOISE_OF_TIMES),
    ("CPU of the scheduler, a burst", CPU, "ms", True, _NOISE_OF_TIMES),
    ("pods not bound", "watch.createdToBound.missing", "", True, 0.0),
    ("Jain's index of pods, all nodes", "onAllNodes.pods.jain", "", False, _NOISE_OF_JAIN),
)


def standings(result: BurstResult) -> list[Standing]:
    """Of the schedulers; the bare loop decides nothing."""
    sides = [side for side in result.sides if side.scheduler != bare_loop.NAME]
    return [
        Standing(
            what,
            unit,
            less,
            {s.scheduler: s.medians[figure] for s in sides if figure in s.medians},
            noise,
        )
        for what, figure, unit, less, noise in _STANDINGS
    ]

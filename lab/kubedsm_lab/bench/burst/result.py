"""Results of the burst benchmark, and tables next to Table 3 of the rotating-score-cache paper.

Table 3: 200 pods on five e2-standard-2 workers of GKE, means of three runs, by the API's timestamps
in whole seconds; evenness is that of pods, over the nodes with pods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import fmean, median
from typing import Any

import attrs
import numpy as np

from kubedsm_lab.baselines.cache_scheduler import Why
from kubedsm_lab.bench.burst import bare_loop
from kubedsm_lab.bench.report import Report
from kubedsm_lab.replay.rankings import Ranking, ours_and_best
from kubedsm_lab.replay.tables import WORDS, Section, Table, fill_sections, number

#: By name, such as `watch.createdToBound.p99`; times in ms.
Figures = Mapping[str, float]
#: Figure: CPU ms of a scheduler's processes during a burst, if the benchmark runs the scheduler.
CPU = "schedulerCpu"
#: Number of fullest nodes in the table.
TOP = 5
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Differences between two runs of the same scheduler.
_TIME_NOISE, _JAIN_NOISE = 0.05, 0.005
#: Figure, unit, whether less is better, noise; by description.
_STANDINGS: Mapping[str, tuple[str, str, bool, float]] = {
    "mean from created to bound": ("watch.createdToBound.mean", "ms", True, _TIME_NOISE),
    "p99 from created to bound": ("watch.createdToBound.p99", "ms", True, _TIME_NOISE),
    "mean from created to Ready": ("watch.createdToReady.mean", "ms", True, _TIME_NOISE),
    "p99 from created to Ready": ("watch.createdToReady.p99", "ms", True, _TIME_NOISE),
    "CPU of the scheduler, a burst": (CPU, "ms", True, _TIME_NOISE),
    "pods not bound": ("watch.createdToBound.missing", "", True, 0.0),
    "Jain's index of pods, all nodes": ("onAllNodes.pods.jain", "", False, _JAIN_NOISE),
}
#: Columns of Table 3: heading, our measurement, digits. Times are shown by watch and by API.
_COLUMNS = (
    ("mean T_sched", "{}.createdToBound.mean", 1),
    ("p99", "{}.createdToBound.p99", 1),
    ("mean T_ready", "{}.createdToReady.mean", 1),
    ("p99", "{}.createdToReady.p99", 1),
    ("Jain", "onNodesUsed.pods.jain", 4),
    ("CV", "onNodesUsed.pods.cv", 3),
)
_TABLE_3 = {
    "default": (1175.0, 2673.3, 4958.3, 8673.3, 0.9919, 0.090),
    "Koordinator": (816.7, 2000.0, 4856.7, 11670.0, 0.9806, 0.141),
    "YuniKorn": (1955.0, 4336.7, 11540.0, 26003.3, 0.8793, 0.370),
    "cache": (801.7, 2000.0, 4818.3, 8670.0, 0.9917, 0.091),
}
_SOURCES = {"watch": "by watch", "api": "by API, in whole seconds"}
_SPANS = {"createdToBound": "T_sched", "createdToReady": "T_ready", "boundToReady": "T_post"}
_TIME_DIGITS = {"mean": 1, "p50": 1, "p90": 1, "p95": 1, "p99": 1, "max": 1, "missing": 0}
_NODES = {"onAllNodes": "all nodes", "onNodesUsed": "nodes that got one"}
#: what is counted on nodes, with the unit shown, in the unit measured
_AMOUNTS = {"pods": 1, "cpu": 1, "memory": 2**20}
_NODE_DIGITS = {"nodes": 0, "min": 0, "max": 0, "mean": 1, "std": 2, "cv": 4, "jain": 4}
_RATIOS = {
    "mean T_sched": "watch.createdToBound.mean",
    "p99": "watch.createdToBound.p99",
    "until all are bound": "watch.makespan",
    "mean T_ready": "watch.createdToReady.mean",
    "p99 of T_ready": "watch.createdToReady.p99",
    "CPU": CPU,
}


def summarize_times(seconds: Sequence[float], pods: int) -> dict[str, float]:
    """Return mean, quantiles and maximum of the pods' times in ms, and the number of pods without a
    time (`missing`).

    `seconds` has one time per observed pod; the other ones of `pods` are missing. Quantile p is
    interpolated linearly at rank (n - 1) p. Without any time there is only `missing`.
    """
    missing = {"missing": float(pods - len(seconds))}
    if not seconds:
        return missing
    ms = 1000 * np.array(seconds)
    quantiles = {name: float(np.quantile(ms, p)) for name, p in _QUANTILES.items()}
    return {"mean": float(ms.mean()), **quantiles, "max": float(ms.max()), **missing}


def summarize_evenness(amounts: Sequence[float]) -> dict[str, float]:
    """Return statistics on how evenly an amount, such as pods, is spread over nodes; at least one
    node has a nonzero amount.

    `std` is the population's, `cv` std / mean. `jain` is Jain's fairness index, (sum x)^2 / (n sum
    x^2): 1 if all nodes have the same, 1 / n if one node has everything. cv = sqrt(1 / jain - 1).
    """
    values = np.array(amounts, dtype=float)
    mean, std = float(values.mean()), float(values.std())
    return {
        "nodes": float(len(values)),
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": mean,
        "std": std,
        "cv": std / mean,
        "jain": float(values.sum() ** 2 / (len(values) * (values**2).sum())),
    }


@attrs.frozen(slots=True)
class Round:
    """Measurements of one burst under one scheduler, and the number of pods placed on each node."""

    figures: Figures
    #: by node
    pods: Mapping[str, int]


@attrs.frozen
class Side:
    """Measurements of one scheduler in all rounds of the burst benchmark."""

    scheduler: str
    rounds: Sequence[Round]
    #: outcomes of score-cache lookups, if available
    lookups: Mapping[Why, int] | None = None

    @cached_property
    def medians(self) -> Figures:
        """Return the median over the rounds, by measurement name."""
        return medians_of(each.figures for each in self.rounds)

    def ratios_to(self, other: "Side") -> Figures:
        """Return this scheduler's measurements relative to another scheduler's: the median ratio
        over the rounds, by name.

        Ratios are taken round by round, since both bursts of a round run close together in time.
        """
        pairs = zip(self.rounds, other.rounds, strict=True)
        return medians_of(
            {
                name: value / theirs.figures[name]
                for name, value in ours.figures.items()
                if theirs.figures.get(name)
            }
            for ours, theirs in pairs
        )

    @property
    def fullest_nodes(self) -> dict[str, float]:
        """Return the number of pods on the node with the most pods, as the mean over the rounds."""
        mean = {
            node: fmean(each.pods[node] for each in self.rounds) for node in self.rounds[0].pods
        }
        return {node: mean[node] for node in sorted(mean, key=lambda n: (-mean[n], n))[:TOP]}

    @property
    def cache_use(self) -> dict[str, Any] | None:
        """Return score-cache statistics of all rounds: lookups that needed a full scoring pass, hit
        rate, and lookups by result.
        """
        if self.lookups is None:
            return None
        total, hits = sum(self.lookups.values()), self.lookups.get(Why.HIT, 0)
        return {
            "passes": total - hits,
            "hitRate": round(hits / max(1, total), 4),
            "looks": {why.value: n for why, n in self.lookups.items()},
        }


def medians_of(rounds: Iterable[Figures]) -> dict[str, float]:
    """Return the median of each figure over the rounds, by name."""
    found: dict[str, list[float]] = {}
    for figures in rounds:
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


@attrs.frozen
class BurstResult:
    """Results of the burst benchmark for all schedulers; the tables compare the first scheduler
    with each other one.
    """

    pods: int
    nodes: int
    #: whether the kubelets are emulated
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
        caches = {side.scheduler: side.cache_use for side in self.sides}
        return {
            "emulated": self.emulated,
            "pods": self.pods,
            "nodes": self.nodes,
            "rounds": len(first.rounds),
            "schedulers": {side.scheduler: _round_figures(side.medians) for side in self.sides},
            "ratiosTo": {side.scheduler: _round_figures(first.ratios_to(side)) for side in others},
            "topNodes": {side.scheduler: _round_figures(side.fullest_nodes) for side in self.sides},
            "scoreCaches": {name: use for name, use in caches.items() if use is not None},
        }

    def report(self) -> Report:
        return Report.of_sections(self.as_json(), self.about, sections(self))


def _round_figures(figures: Figures) -> dict[str, float]:
    return {name: round(value, 4) for name, value in figures.items()}


def rankings(result: BurstResult) -> list[Ranking]:
    """Rank the schedulers by each measurement, except the bare loop, which binds without any
    decision.
    """
    sides = [side for side in result.sides if side.scheduler != bare_loop.NAME]
    return [
        Ranking(
            what,
            unit,
            less,
            {s.scheduler: s.medians[figure] for s in sides if figure in s.medians},
            noise,
        )
        for what, (figure, unit, less, noise) in _STANDINGS.items()
    ]


def sections(result: BurstResult) -> list[Section]:
    notes = WORDS["burst-emulated"] if result.emulated else {}
    return [
        attrs.evolve(each, about=f"{each.about} {notes.get(each.title, '')}".strip())
        for each in fill_sections("burst", _TABLES, result)
    ]


def _cells(figures: Figures, prefix: str, digits: Mapping[str, int]) -> list[str]:
    return [number(figures.get(f"{prefix}.{name}"), places) for name, places in digits.items()]


def _table_3(sides: Sequence[Side]) -> Table:
    lines = [
        [
            f"{side.scheduler}, {how}",
            *(number(side.medians.get(of.format(source)), digits) for _, of, digits in _COLUMNS),
        ]
        for source, how in _SOURCES.items()
        for side in sides
    ]
    for name, values in _TABLE_3.items():
        cells = (number(v, digits) for (_, _, digits), v in zip(_COLUMNS, values, strict=True))
        lines.append([f"{name}, published", *cells])
    return ["ms", *(heading for heading, _, _ in _COLUMNS)], lines


def _time_table(sides: Sequence[Side]) -> Table:
    lines = [
        [
            f"{side.scheduler}: {span}, {how}",
            *_cells(side.medians, f"{src}.{name}", _TIME_DIGITS),
        ]
        for src, how in _SOURCES.items()
        for name, span in _SPANS.items()
        for side in sides
    ]
    return ["ms", *_TIME_DIGITS], lines


def _evenness_table(sides: Sequence[Side]) -> Table:
    lines = [
        [
            f"{side.scheduler}: {what}, {which}",
            *_cells(_scale(side.medians, f"{on}.{what}", unit), f"{on}.{what}", _NODE_DIGITS),
        ]
        for what, unit in _AMOUNTS.items()
        for on, which in _NODES.items()
        for side in sides
    ]
    return ["", "nodes", "min", "max", "mean", "std", "CV", "Jain"], lines


def _scale(figures: Mapping[str, float], prefix: str, unit: int) -> dict[str, float]:
    """Return the figures with this prefix, amounts in the given unit."""
    found = {name: value for name, value in figures.items() if name.startswith(prefix)}
    amounts = (f"{prefix}.{each}" for each in ("min", "max", "mean", "std"))
    return found | {name: found[name] / unit for name in amounts if name in found}


def _fullest_table(sides: Sequence[Side]) -> Table:
    lines = []
    for side in sides:
        top = [f"{node}: {pods:.1f}" for node, pods in side.fullest_nodes.items()]
        lines.append([side.scheduler, *top, *[""] * (TOP - len(top))])
    return ["", *map(str, range(1, TOP + 1))], lines


def _ratio_table(sides: Sequence[Side]) -> Table:
    lines = []
    for other in sides[1:]:
        ratios = sides[0].ratios_to(other)
        cells = (number(ratios.get(figure), 3) for figure in _RATIOS.values())
        lines.append([f"{sides[0].scheduler} / {other.scheduler}", *cells])
    return ["", *_RATIOS], lines


def _cache_table(sides: Sequence[Side]) -> Table:
    lines = [
        [
            side.scheduler,
            str(use["passes"]),
            number(use["hitRate"], 3),
            *(str(use["looks"].get(why, 0)) for why in Why),
        ]
        for side in sides
        if (use := side.cache_use) is not None
    ]
    return ["in all rounds", "passes", "hit rate", *Why], lines


_TABLES: Mapping[str, Callable[[BurstResult], Table]] = {
    "Ranking": lambda result: ours_and_best(rankings(result)),
    "Ratios": lambda result: _ratio_table(result.sides),
    "Comparison with published figures": lambda result: _table_3(result.sides),
    "Times": lambda result: _time_table(result.sides),
    "Evenness": lambda result: _evenness_table(result.sides),
    "Fullest nodes": lambda result: _fullest_table(result.sides),
    "Score caches": lambda result: _cache_table(result.sides),
}

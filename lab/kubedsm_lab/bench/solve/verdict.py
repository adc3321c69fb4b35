"""Results of the `solve` benchmark: distance of each algorithm from the optimum."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import attrs

from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.report import Report
from kubedsm_lab.bench.solve.oracle import ROUNDING, Best


class Algorithm(enum.StrEnum):
    """Algorithm under comparison: with solver, without solver, kube-scheduler, or the oracle's best
    migrations.
    """

    SOLVED = "solver"
    UNSOLVED = "no solver"
    KUBE_SCHEDULER = "kube-scheduler"
    #: the best moves of each suggestion, though make-before-break may not be possible
    BEST = "the best each time"


#: Columns of the tables, by measurement.
_HEADINGS = {
    "placed": "pods placed",
    "mostPlaced": "the most",
    "notFewer": "not fewer",
    "qos": "QoS",
    "qosLeast": "least",
    "first": "first",
    "firstLeast": "least",
    "reached": "in the end",
    "reachedLeast": "least",
    "rounds": "rounds",
    "proven": "proven",
    "seconds": "s of CPU",
    "secondsMost": "at most",
}
_Rows = dict[str, dict[str, float]]


@attrs.frozen(slots=True)
class PlacementResult:
    """Result of placing a batch by one algorithm: pods placed, QoS scores, proof of optimality and
    CPU seconds.
    """

    #: pods, highest priority first
    placed: tuple[int, ...]
    #: QoS scores of the workloads, highest priority first
    qos: tuple[float, ...]
    #: whether both are proven optimal, lexicographically
    proven: bool
    #: certificates of the unproven goals
    certificates: tuple[Certificate, ...]
    #: CPU seconds
    seconds: float


@attrs.frozen(slots=True)
class Placed:
    """Placements of one batch by all algorithms under comparison and by the oracle."""

    #: QoS scores without any pod of the batch at the edge
    before: tuple[float, ...]
    ways: Mapping[Algorithm, PlacementResult]
    best: Best
    #: CPU seconds of the oracle
    oracle_seconds: float

    def is_not_fewer(self, way: Algorithm) -> bool:
        """Return whether the algorithm placed at least as many pods as kube-scheduler, compared by
        priority level.
        """
        return self.ways[way].placed >= self.ways[Algorithm.KUBE_SCHEDULER].placed

    def is_most(self, way: Algorithm) -> bool:
        """Return whether the algorithm placed as many pods as the optimum, compared by priority
        level.
        """
        return self.ways[way].placed >= tuple(int(reach.found) for reach in self.best.placed)

    def qos_part(self, way: Algorithm) -> float:
        """Return the achieved proportion (0..1) of the optimal gain in QoS score, at the first
        priority level below the optimum.
        """
        for before, got, reach in zip(self.before, self.ways[way].qos, self.best.qos, strict=True):
            if reach.found - got > ROUNDING:
                return (got - before) / (reach.found - before)
        return 1.0


@attrs.frozen(slots=True)
class Moves:
    """Gains of QoS score from one algorithm's successive migration suggestions on one cluster."""

    #: by the first suggestion, and by all
    first: float
    last: float
    #: upper bound of the first gain, claimed by the algorithm
    bound: float
    rounds: int
    #: CPU seconds of the longest suggestion
    seconds: float

    @property
    def proven(self) -> bool:
        return self.bound <= self.first + ROUNDING


@attrs.frozen(slots=True)
class Moved:
    """Migrations on one cluster by all algorithms under comparison, and the oracle's optimal gains
    of QoS score.
    """

    ways: Mapping[Algorithm, Moves]
    #: optimal gains of QoS score: within one suggestion's limits, and without limits
    best: float
    reachable: float

    def first_part(self, way: Algorithm) -> float:
        return _gain_share(self.ways[way].first, self.best)

    def last_part(self, way: Algorithm) -> float:
        return _gain_share(self.ways[way].last, self.reachable)


@attrs.frozen
class SolveResult:
    """Results of the `solve` benchmark: batches, batches with rules among pods, and clusters."""

    placed: Sequence[Placed]
    ruled: Sequence[Placed]
    moved: Sequence[Moved]

    def report(self) -> Report:
        rows = {
            "placing": _sum_placed(self.placed),
            "placingByRules": _sum_placed(self.ruled),
            "moving": _sum_moved(self.moved),
        }
        titles = (
            f"{len(self.placed)} batches",
            f"{len(self.ruled)} batches with rules among their pods",
            f"{len(self.moved)} clusters with pods to migrate",
        )
        tables = []
        for title, ways in zip(titles, rows.values(), strict=True):
            names = tuple(dict.fromkeys(name for row in ways.values() for name in row))
            cells = (
                (way, *(f"{row[name]:.4g}" if name in row else "" for name in names))
                for way, row in ways.items()
            )
            headings = tuple(map(_HEADINGS.__getitem__, names))
            tables.append(table(("", *headings), cells, title=title, numbers=headings))
        note = (
            "the most: as many pods as the oracle places; not fewer: at least as many as"
            " kube-scheduler; QoS: part of the best gain, of batches with the most pods; first, in"
            " the end: parts of the best gain of one suggestion, and of all. s of CPU: mean, of"
            " the deciding process; of the best, with the solver process."
        )
        return Report(rows, tables, [note])


def _sum_placed(batches: Sequence[Placed]) -> _Rows:
    rows: _Rows = {}
    for way in (Algorithm.SOLVED, Algorithm.UNSOLVED, Algorithm.KUBE_SCHEDULER):
        qos = [each.qos_part(way) for each in batches if each.is_most(way)]
        rows[way.value] = {
            "placed": sum(sum(each.ways[way].placed) for each in batches),
            "mostPlaced": len(qos),
            "notFewer": sum(each.is_not_fewer(way) for each in batches),
            **_mean_and_least("qos", qos),
            **_summarize_effort(
                (each.ways[way].proven, each.ways[way].seconds) for each in batches
            ),
        }
    rows["best"] = {
        "placed": sum(int(reach.found) for each in batches for reach in each.best.placed),
        **_summarize_effort((each.best.proven, each.oracle_seconds) for each in batches),
    }
    return rows


def _sum_moved(clusters: Sequence[Moved]) -> _Rows:
    return {
        way.value: {
            **_mean_and_least("first", [each.first_part(way) for each in clusters]),
            **_mean_and_least("reached", [each.last_part(way) for each in clusters]),
            "rounds": max(each.ways[way].rounds for each in clusters),
            **_summarize_effort(
                (each.ways[way].proven, each.ways[way].seconds) for each in clusters
            ),
        }
        for way in (Algorithm.SOLVED, Algorithm.UNSOLVED, Algorithm.BEST)
    }


def _gain_share(got: float, best: float) -> float:
    return 1.0 if best < ROUNDING else got / best


def _mean_and_least(name: str, parts: Sequence[float]) -> dict[str, float]:
    return {name: fmean(parts), f"{name}Least": min(parts)} if parts else {name: 0.0}


def _summarize_effort(decisions: Iterable[tuple[bool, float]]) -> dict[str, float]:
    """Return the number of decisions proven optimal, and their mean and maximum CPU seconds."""
    proven, seconds = zip(*decisions, strict=True)
    return {"proven": sum(proven), "seconds": fmean(seconds), "secondsMost": max(seconds)}

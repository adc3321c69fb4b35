"""How far from the best, instance by instance, and in a few sentences."""

import enum
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import attrs

from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm_lab.bench.solve.best import ROUNDING, Best


class Way(enum.StrEnum):
    SOLVED = "solver"
    UNSOLVED = "no solver"
    KUBE_SCHEDULER = "kube-scheduler"
    #: of the moves that one suggestion may make the best each time, in room that may not be there
    BEST = "the best each time"


@attrs.frozen(slots=True)
class Standing:
    """What a batch's placement comes to."""

    #: pods, of the highest priority first
    placed: tuple[int, ...]
    #: points, of the workloads of the highest level first
    qos: tuple[float, ...]
    #: nothing is better than the one and, given that, the other
    proven: bool
    #: of goals that are not proven
    certificates: tuple[Certificate, ...]
    #: of CPU time
    seconds: float


@attrs.frozen(slots=True)
class Placed:
    """A batch."""

    name: str
    pods: int
    nodes: int
    #: of the workloads with none of the batch at the edge; points, as in `Standing`
    before: tuple[float, ...]
    ways: Mapping[Way, Standing]
    best: Best

    def not_fewer(self, way: Way) -> bool:
        return self.ways[way].placed >= self.ways[Way.KUBE_SCHEDULER].placed

    def most(self, way: Way) -> bool:
        """Whether as many are placed as can be, as far as the oracle could tell."""
        return self.ways[way].placed >= tuple(int(reach.found) for reach in self.best.placed)

    def part(self, way: Way) -> float:
        """Of the greatest gain of QoS, at the first level at which it is not reached."""
        for before, got, reach in zip(self.before, self.ways[way].qos, self.best.qos, strict=True):
            if reach.found - got > ROUNDING:
                return (got - before) / (reach.found - before)
        return 1.0

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pods": self.pods,
            "nodes": self.nodes,
            "most": [int(reach.found) for reach in self.best.placed],
            "oracleProven": self.best.proven,
            "oracleSeconds": round(self.best.seconds, 3),
            **{
                way.value: {
                    "placed": of.placed,
                    "qosPart": round(self.part(way), 4) if self.most(way) else None,
                    "proven": of.proven,
                    "certificates": [each.as_json() for each in of.certificates],
                    "seconds": round(of.seconds, 3),
                }
                for way, of in self.ways.items()
            },
        }


@attrs.frozen(slots=True)
class Moves:
    """What moving comes to, one suggestion after the other."""

    #: points of QoS, of the first suggestion, and when nothing more is suggested
    first: float
    last: float
    #: the most that the first one could gain, as far as that is known by who made it
    bound: float
    rounds: int
    #: of CPU time, of the suggestion that took longest
    seconds: float

    @property
    def proven(self) -> bool:
        return self.bound <= self.first + ROUNDING


@attrs.frozen(slots=True)
class Moved:
    """A cluster."""

    name: str
    workloads: int
    pods: int
    ways: Mapping[Way, Moves]
    #: points of QoS: within the limits of one suggestion, and without any
    best: float
    reachable: float
    oracle_proven: bool

    def of_best(self, way: Way) -> float:
        return _part(self.ways[way].first, self.best)

    def of_reachable(self, way: Way) -> float:
        return _part(self.ways[way].last, self.reachable)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "workloads": self.workloads,
            "pods": self.pods,
            "best": round(self.best, 6),
            "reachable": round(self.reachable, 6),
            "oracleProven": self.oracle_proven,
            **{
                way.value: {
                    "first": round(of.first, 6),
                    "last": round(of.last, 6),
                    "proven": of.proven,
                    "rounds": of.rounds,
                    "seconds": round(of.seconds, 3),
                }
                for way, of in self.ways.items()
            },
        }


@attrs.frozen
class SolveResult:
    placed: Sequence[Placed]
    #: batches with rules among their pods
    ruled: Sequence[Placed]
    moved: Sequence[Moved]

    def as_json(self) -> dict[str, Any]:
        return {
            "batches": [each.as_json() for each in self.placed],
            "ruledBatches": [each.as_json() for each in self.ruled],
            "clusters": [each.as_json() for each in self.moved],
            **self.tables,
            "said": self.sentences,
        }

    @property
    def tables(self) -> dict[str, dict[str, dict[str, float]]]:
        """What all of a kind come to, in each way."""
        return {
            "placing": placing(self.placed),
            "placingByRules": placing(self.ruled),
            "moving": self.moving,
        }

    @property
    def moving(self) -> dict[str, dict[str, float]]:
        """Of all clusters, in each way."""
        of = self.moved
        rows: dict[str, dict[str, float]] = {}
        for way in (Way.SOLVED, Way.UNSOLVED, Way.BEST):
            rows[way.value] = {
                **_parts("first", [each.of_best(way) for each in of]),
                **_parts("reached", [each.of_reachable(way) for each in of]),
                "rounds": max(each.ways[way].rounds for each in of),
                **_thought([(each.ways[way].proven, each.ways[way].seconds) for each in of]),
            }
        return rows

    @property
    def sentences(self) -> list[str]:
        said = []
        for of, which in ((self.placed, ""), (self.ruled, ", with rules among pods")):
            ours = placing(of)[Way.SOLVED.value]
            fewer, most = (f"{ours[each]:g} of {len(of)}" for each in ("notFewer", "mostPlaced"))
            said += [
                f"never fewer pods than kube-scheduler{which}: {fewer}",
                f"the most pods there can be: {most}, with {ours['qos']:.1%} of the best QoS",
            ]
        moves = self.moving[Way.SOLVED.value]
        each_time = self.moving[Way.BEST.value]["reached"]
        reached = f"{moves['reached']:.1%} of all there is (the best each time: {each_time:.1%})"
        return [*said, f"moves: {moves['first']:.1%} of the best, {reached}"]


def placing(of: Sequence[Placed]) -> dict[str, dict[str, float]]:
    """What these batches come to, in each way."""
    rows: dict[str, dict[str, float]] = {}
    for way in (Way.SOLVED, Way.UNSOLVED, Way.KUBE_SCHEDULER):
        alike = [each.part(way) for each in of if each.most(way)]
        rows[way.value] = {
            "placed": sum(sum(each.ways[way].placed) for each in of),
            "mostPlaced": len(alike),
            "notFewer": sum(each.not_fewer(way) for each in of),
            **_parts("qos", alike),
            **_thought([(each.ways[way].proven, each.ways[way].seconds) for each in of]),
        }
    rows["best"] = {
        "placed": sum(int(reach.found) for each in of for reach in each.best.placed),
        **_thought([(each.best.proven, each.best.seconds) for each in of]),
    }
    return rows


def _part(got: float, best: float) -> float:
    return 1.0 if best < ROUNDING else got / best


def _parts(what: str, of: Sequence[float]) -> dict[str, float]:
    """Their mean and the least; nothing of none."""
    return {what: fmean(of), f"{what}Least": min(of)} if of else {what: 0.0}


def _thought(of: Sequence[tuple[bool, float]]) -> dict[str, float]:
    seconds = [each for _, each in of]
    return {
        "proven": sum(proven for proven, _ in of),
        "seconds": fmean(seconds),
        "secondsMost": max(seconds),
    }

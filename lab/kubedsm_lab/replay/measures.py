"""What a run is judged by. Definitions: docs/replay.md."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from kubedsm.model.model import Share, Tier
from kubedsm_lab.replay.at_risk import AtRisk
from kubedsm_lab.replay.optimum import Optimum
from kubedsm_lab.replay.recording import Record
from kubedsm_lab.replay.summaries import EdgeRatio
from kubedsm_lab.replay.timeline import Level, Life, MoveRecord, Timeline
from kubedsm_lab.replay.workload_model import Endpoint, Floats, Responses, due_times, respond
from kubedsm_lab.replay.world import Run
from loadgen.measures import nearest_rank

#: digits kept: a billionth is beyond what any of this means, and above what sums of floats vary by
_DIGITS = 6


@attrs.frozen
class Spread:
    """Of some times."""

    mean: float
    p95: float

    @classmethod
    def of(cls, values: "Floats | Sequence[float]") -> "Spread":
        """Percentile by nearest rank; of nothing, nothing."""
        if not len(values):
            return cls(0.0, 0.0)
        ranked = np.sort(np.asarray(values, dtype=np.float64))
        return cls(float(ranked.mean()), nearest_rank(ranked, 95))


@attrs.frozen
class ResponseTimes:
    """Seconds; None where nobody measured them."""

    mean: float | None = None
    p95: float | None = None
    #: of the mean, what the network takes
    network: float | None = None

    @classmethod
    def of(cls, times: Floats, network: Floats) -> "ResponseTimes":
        spread = Spread.of(times)
        return cls(spread.mean, spread.p95, Spread.of(network).mean)

    def milliseconds(self) -> dict[str, float | None]:
        return {
            name: None if value is None else round(1000 * value, 3)
            for name, value in attrs.asdict(self).items()
        }


@attrs.frozen
class Answers:
    """What became of the requests."""

    responses: Mapping[str, ResponseTimes] = attrs.field(factory=dict)
    overall: ResponseTimes = ResponseTimes()
    #: requests for which there was no pod until the end; of real ones, whatever got no answer
    unanswered: int | None = None
    #: mean seconds by service and tier, where answers say who gave them
    by_tier: Mapping[str, Mapping[Tier, float]] = attrs.field(factory=dict)

    def as_json(self) -> dict[str, Any]:
        shown = {
            "latencyMs": {name: r.milliseconds() for name, r in self.responses.items()},
            "overallLatencyMs": self.overall.milliseconds(),
            "unanswered": self.unanswered,
        }
        tiers = {
            service: {tier.value: round(1000 * mean, 3) for tier, mean in means.items()}
            for service, means in self.by_tier.items()
        }
        return shown | ({"tierLatencyMs": tiers} if tiers else {})


@attrs.frozen
class Measures:
    """None where nothing can be said: a service never had a Ready pod, or too much to compute."""

    edge_ratio: float | None
    optimum_share: float | None
    #: standard deviation of the mean shares over services
    deviation: float | None
    #: the mean edge share of each service
    shares: Mapping[str, float | None]
    answers: Answers
    migrations: int
    #: of these, moves that ended with the pod given back
    taken_back: int
    lost_pod_seconds: float
    #: from creation to binding, seconds
    pending: Spread
    at_risk: AtRisk

    def as_json(self) -> dict[str, Any]:
        return {
            "edgeRatio": _rounded(self.edge_ratio),
            "optimumShare": _rounded(self.optimum_share),
            "std": _rounded(self.deviation),
            "shares": {name: _rounded(share) for name, share in self.shares.items()},
            **self.answers.as_json(),
            "migrations": self.migrations,
            "takenBack": self.taken_back,
            "lostPodSeconds": _rounded(self.lost_pod_seconds),
            "pendingSeconds": {
                "mean": _rounded(self.pending.mean),
                "p95": _rounded(self.pending.p95),
            },
            "onOneNode": {
                "services": _rounded(self.at_risk.services),
                "avoidable": _rounded(self.at_risk.avoidable),
            },
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def measure(run: Run, record: Record) -> Measures:
    return measures_of(record, modelled(run, record.timeline))


def modelled(run: Run, timeline: Timeline) -> Answers:
    """By the workload model."""
    responses = response_times(run, timeline)
    everything = [array for array in responses.values() if len(array.times)]
    return Answers(
        {n: ResponseTimes.of(r.times, r.network) for n, r in responses.items()},
        ResponseTimes.of(
            np.concatenate([np.zeros(0), *(r.times for r in everything)]),
            np.concatenate([np.zeros(0), *(r.network for r in everything)]),
        ),
        sum(r.unanswered for r in responses.values()),
    )


def measures_of(record: Record, answers: Answers) -> Measures:
    timeline = record.timeline
    counted = counted_levels(timeline)
    ratio = edge_ratio(timeline)
    shares = ratio.shares()
    known = [share for share in shares.values() if share is not None]
    return Measures(
        edge_ratio=ratio.ratio,
        optimum_share=optimum_share(record, counted),
        deviation=statistics.pstdev(known) if known else None,
        shares=shares,
        answers=answers,
        migrations=len(timeline.moves),
        taken_back=sum(move.taken_back for move in timeline.moves),
        lost_pod_seconds=lost_pod_seconds(timeline),
        pending=Spread.of(pending_seconds(timeline)),
        at_risk=AtRisk.of(timeline, record.nodes, record.samples),
    )


def edge_ratio(timeline: Timeline) -> EdgeRatio:
    ratio = EdgeRatio(timeline.services)
    # Before the scenario begins no time passes, but it is seen which services have pods.
    for level in timeline.levels(min(0.0, timeline.beginning)):
        ratio.observe(max(0.0, level.since), level.shares)
    ratio.observe(timeline.end, {})
    return ratio


def counted_levels(timeline: Timeline) -> list[Level]:
    """The time that counts: from the moment when every service has had a Ready pod."""
    beginning = min(0.0, timeline.beginning)
    unseen = set(timeline.services)
    counted = []
    for level in timeline.levels(beginning):
        unseen -= level.shares.keys()
        if not unseen and level.until > 0:
            counted.append(attrs.evolve(level, since=max(0.0, level.since)))
    return counted


def optimum_share(record: Record, levels: Sequence[Level]) -> float | None:
    """The integral of the mean share over that of the best there could be with the same pods."""
    most: dict[str, int] = {}
    for level in levels:
        for name, share in level.shares.items():
            most[name] = max(most.get(name, 0), share.total)
    optimum = Optimum.of(record.edge, record.samples, most) if most else None
    if optimum is None:
        return None
    reached = possible = 0.0
    for level in levels:
        if level.shares:
            reached += level.seconds * _mean_share(level.shares)
            counts = {name: share.total for name, share in level.shares.items()}
            possible += level.seconds * optimum.share(counts)
    return reached / possible if possible else None


def _mean_share(shares: Mapping[str, Share]) -> float:
    return sum(share.ratio for share in shares.values()) / len(shares)


def response_times(run: Run, timeline: Timeline) -> dict[str, Responses]:
    """Of each service that is in the scenario."""
    latency = run.setup.configuration.latency
    servers = {service.name: service.server for service in run.setup.services}
    found = {}
    for api in run.scenario.apis:
        endpoints = [
            Endpoint(
                latency.edge if life.tier is Tier.EDGE else latency.cloud,
                # Pods that are Ready at the end go on to be; the last requests are due then.
                tuple((a, math.inf if b >= timeline.end else b) for a, b in life.served),
            )
            for life in timeline.lives
            if life.service == api.name and life.served
        ]
        rng = run.rng(f"requests {api.name}")
        found[api.name] = respond(due_times(api), endpoints, servers[api.name], timeline.end, rng)
    return found


def pending_seconds(timeline: Timeline) -> list[float]:
    """How long each pod waited for a node; those that got none, until they or the run ended.

    A pod that had one when it was first seen was not seen waiting.
    """
    return [_pending(life, timeline.end) for life in timeline.lives if life.bound != life.created]


def _pending(life: Life, end: float) -> float:
    until = life.bound
    if until is None:
        until = end if life.gone is None else life.gone
    return until - life.created


def lost_pod_seconds(timeline: Timeline) -> float:
    """Pod-seconds below what was Ready when a move began, or is wanted now if that is less.

    While several moves of a service are in flight a missing pod is lost once, not once a move.
    """
    if not timeline.moves:
        return 0.0
    levels = timeline.levels(min(0.0, timeline.beginning))
    return sum(
        _lost([move for move in timeline.moves if move.service == service], timeline, levels)
        for service in timeline.services
    )


def _lost(moves: Sequence[MoveRecord], timeline: Timeline, levels: Sequence[Level]) -> float:
    lost = 0.0
    for level in levels:
        here = [m for m in moves if m.began < level.until and m.ended > level.since]
        if not here:
            continue
        service = here[0].service
        ready = level.shares.get(service, Share()).total
        steps = [since for since, _ in timeline.replicas[service]]
        moments = sorted(
            {level.since, level.until, *(m.began for m in here), *(m.ended for m in here), *steps}
        )
        for since, until in itertools.pairwise(moments):
            if since < level.since or until > level.until:
                continue
            before = [m.ready_before for m in here if m.began <= since < m.ended]
            # Of what nobody's replicas are known, as many are wanted as there were.
            wanted = timeline.wanted(service, since) if steps else math.inf
            lost += (until - since) * max(0, min(max(before, default=0), wanted) - ready)
    return lost

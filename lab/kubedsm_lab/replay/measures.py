"""Measures of a replayed or recorded run: edge shares, latencies, migrations and others.

Reference: docs/reference/replay-measures.md.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs
import msgspec
import numpy as np

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    Resources,
    Share,
    Tier,
    deviation_of_shares,
)
from kubedsm.plugins.plugins import rejection
from kubedsm_lab.replay.optimum import Optimum
from kubedsm_lab.replay.recording import Record
from kubedsm_lab.replay.timeline import Level, Life, MoveRecord, Timeline
from kubedsm_lab.replay.workload_model import (
    Floats,
    Responses,
    due_times,
    list_endpoints,
    respond,
)
from kubedsm_lab.replay.world import Run
from loadgen.measures import nearest_rank

#: decimal places of a result: below these, sums of floats vary
_DIGITS = 6
#: seconds since its creation in which a pod has hardly used its start
YOUNG = 60.0


@attrs.frozen(slots=True)
class Latency:
    """Statistics of durations in seconds: mean and percentiles."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Latency | None":
        """Summarise durations, with percentiles by nearest rank; None without any duration."""
        if not seconds:
            return None
        ranked = sorted(seconds)
        return cls(sum(ranked) / len(ranked), nearest_rank(ranked, 50), nearest_rank(ranked, 99))

    def milliseconds(self) -> dict[str, float]:
        return {name: round(1000 * value, 2) for name, value in attrs.asdict(self).items()}


class Spread(msgspec.Struct, frozen=True):
    """Mean and 95th percentile of a sequence of numbers; both are 0 for an empty sequence."""

    mean: float
    p95: float

    @classmethod
    def of(cls, values: "Floats | Sequence[float]") -> "Spread":
        if not len(values):
            return cls(0.0, 0.0)
        ranked = np.sort(np.asarray(values, dtype=np.float64))
        return cls(float(ranked.mean()), nearest_rank(ranked, 95))


class ResponseTimes(msgspec.Struct, frozen=True):
    """Response latencies in ms, None if unknown; `network` is the network's part of the mean."""

    mean: float | None = None
    p95: float | None = None
    network: float | None = None

    @classmethod
    def of(cls, times: Floats, network: Floats) -> "ResponseTimes":
        """Summarise the requests' latencies and their network parts, both in seconds."""
        spread = Spread.of(times)
        means = spread.mean, spread.p95, Spread.of(network).mean
        return cls(*(round(1000 * seconds, 3) for seconds in means))


class Answers(msgspec.Struct, frozen=True):
    """Response latencies of the load by service and overall, and the number of requests without
    response.
    """

    responses: Mapping[str, ResponseTimes] = {}
    overall: ResponseTimes = ResponseTimes()
    #: requests without an answer; None if unknown
    unanswered: int | None = None
    #: mean milliseconds by service and tier, if answers name their sender
    by_tier: Mapping[str, Mapping[Tier, float]] = {}


class NodeRisk(msgspec.Struct, frozen=True):
    """Time mean of the number of services whose two or more Ready pods all run on one node."""

    services: float = 0.0
    #: the subset for which another node of the tier had room for one of the pods
    avoidable: float = 0.0

    @classmethod
    def of(
        cls, timeline: Timeline, nodes: Sequence[Node], samples: Mapping[str, Pod]
    ) -> "NodeRisk":
        """Compute the time means over the scenario's duration; `samples` has one pod per service,
        for the requests.
        """
        if timeline.end <= 0:
            return cls()
        by_name = {node.name: node for node in nodes}
        free = {node.name: node.allocatable for node in nodes}
        ready: dict[str, Counter[NodeName]] = {name: Counter() for name in timeline.services}
        changes = timeline.changes(min(0.0, timeline.beginning))
        held = _list_requests(timeline, samples)
        services = avoidable = 0.0
        moments = sorted(moment for moment in {*changes, *held} if moment < timeline.end)
        for moment, until in itertools.pairwise([*moments, timeline.end]):
            for life, more in changes.get(moment, ()):
                if life.node is not None:
                    ready[life.service][life.node] += more
            for name, amount in held.get(moment, ()):
                free[name] -= amount
            seconds = max(0.0, until - max(0.0, moment))
            for service, where in ready.items():
                occupied = +where
                if seconds and len(occupied) == 1 and occupied.total() > 1:
                    (name,) = occupied
                    source, pod = by_name[name], samples[service]
                    services += seconds
                    avoidable += seconds * any(
                        node.tier is source.tier
                        and node.name != name
                        and rejection(pod.pod_class, node, free[node.name]) is None
                        for node in nodes
                    )
        return cls(
            round(services / timeline.end, _DIGITS), round(avoidable / timeline.end, _DIGITS)
        )


def _list_requests(
    timeline: Timeline, samples: Mapping[str, Pod]
) -> dict[float, list[tuple[NodeName, Resources]]]:
    """Return the changes of the requests on each node, by time."""
    found: dict[float, list[tuple[NodeName, Resources]]] = {}
    for life in timeline.lives:
        requests = samples[life.service].requests
        for moment, amount in ((life.bound, requests), (life.gone, Resources() - requests)):
            if life.node is not None and moment is not None:
                found.setdefault(moment, []).append((life.node, amount))
    return found


class Measures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Measures of one run as written to JSON, such as edge shares and latencies; None if unknown.

    A ratio is unknown if a service never had a Ready pod, or if the optimum is too costly to
    compute.
    """

    edge_ratio: float | None
    optimum_share: float | None
    #: standard deviation of the mean shares over services
    std: float | None
    #: mean edge share of each service
    shares: dict[str, float | None]
    latency_ms: Mapping[str, ResponseTimes]
    overall_latency_ms: ResponseTimes
    unanswered: int | None
    tier_latency_ms: Mapping[str, Mapping[Tier, float]] = {}
    migrations: int
    #: of pods younger than `YOUNG`
    young_migrations: int
    taken_back: int
    lost_pod_seconds: float
    #: scheduling latency: from creation to binding
    pending_seconds: Spread
    on_one_node: NodeRisk
    #: edge pods in proportion to all pods, if the run ends with a rest: the second version's ratio
    pod_ratio: float | None = None


def _round_value(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def measure(run: Run, record: Record) -> Measures:
    """Compute the measures of a replayed run; latencies are from the workload model."""
    found = measures_of(record, model_answers(run, record.timeline))
    if not run.setup.rest:
        return found
    ratio = _round_value(average_levels(list_counted_levels(record.timeline), _pod_ratio))
    return msgspec.structs.replace(found, pod_ratio=ratio)


def measures_of(record: Record, answers: Answers) -> Measures:
    timeline = record.timeline
    levels = list_counted_levels(timeline)
    shares = edge_shares(timeline.services, levels)
    known = [share for share in shares.values() if share is not None]
    pending = Spread.of(pending_seconds(timeline))
    return Measures(
        edge_ratio=_round_value(edge_ratio(levels)),
        optimum_share=_round_value(optimum_share(record, levels)),
        std=_round_value(deviation_of_shares(known)),
        shares={name: _round_value(share) for name, share in shares.items()},
        latency_ms=answers.responses,
        overall_latency_ms=answers.overall,
        unanswered=answers.unanswered,
        tier_latency_ms=answers.by_tier,
        migrations=len(timeline.moves),
        young_migrations=sum(move.age < YOUNG for move in timeline.moves),
        taken_back=sum(move.taken_back for move in timeline.moves),
        lost_pod_seconds=round(lost_pod_seconds(timeline), _DIGITS),
        pending_seconds=Spread(round(pending.mean, _DIGITS), round(pending.p95, _DIGITS)),
        on_one_node=NodeRisk.of(timeline, record.nodes, record.samples),
    )


def average_levels(levels: Iterable[Level], value: Callable[[Level], float | None]) -> float | None:
    """Return the time mean of a value over the levels that have one; None without such levels."""
    known = [(level.seconds, each) for level in levels if (each := value(level)) is not None]
    seconds = sum(length for length, _ in known)
    return sum(length * each for length, each in known) / seconds if seconds else None


def edge_ratio(levels: Iterable[Level]) -> float | None:
    """Return the edge ratio of the papers: mean edge share of the services, averaged over time.

    Pods count while Ready and not terminating; a service without such pods is left out.
    """
    return average_levels(levels, _mean_share)


def edge_shares(services: Iterable[str], levels: Sequence[Level]) -> dict[str, float | None]:
    """Return the time mean of each service's edge share while the service had pods."""
    return {name: average_levels(levels, partial(_share_of, name)) for name in services}


def _share_of(service: str, level: Level) -> float | None:
    share = level.shares.get(service)
    return None if share is None else share.ratio


def _mean_share(level: Level) -> float | None:
    shares = level.shares.values()
    return sum(share.ratio for share in shares) / len(shares) if shares else None


def _pod_ratio(level: Level) -> float | None:
    """Return the edge pods' part of all pods."""
    shares = level.shares.values()
    return sum(s.edge for s in shares) / sum(s.total for s in shares) if shares else None


def list_counted_levels(timeline: Timeline) -> list[Level]:
    """Return the intervals over which edge shares are averaged: those after every service has had a
    Ready pod.
    """
    unseen = set(timeline.services)
    counted = []
    # Levels before the scenario have no length, but tell which services have pods.
    for level in timeline.levels(min(0.0, timeline.beginning)):
        unseen -= level.shares.keys()
        if not unseen and level.until > 0:
            counted.append(attrs.evolve(level, since=max(0.0, level.since)))
    return counted


def optimum_share(record: Record, levels: Sequence[Level]) -> float | None:
    """Return the edge ratio in proportion to the best possible one for the same pods; None above
    the exact-search limit.
    """
    most: dict[str, int] = {}
    for level in levels:
        for name, share in level.shares.items():
            most[name] = max(most.get(name, 0), share.total)
    optimum = Optimum.of(record.edge, record.samples, most) if most else None
    if optimum is None:
        return None
    reached = edge_ratio(levels)
    possible = average_levels(
        levels,
        lambda level: (
            optimum.share({name: share.total for name, share in level.shares.items()})
            if level.shares
            else None
        ),
    )
    return reached / possible if reached is not None and possible else None


def model_answers(run: Run, timeline: Timeline) -> Answers:
    """Compute the response latencies of a replayed run by the workload model."""
    responses = _model_responses(run, timeline)
    return Answers(
        {n: ResponseTimes.of(r.times, r.network) for n, r in responses.items()},
        ResponseTimes.of(
            np.concatenate([r.times for r in responses.values()]),
            np.concatenate([r.network for r in responses.values()]),
        ),
        sum(r.unanswered for r in responses.values()),
    )


def _model_responses(run: Run, timeline: Timeline) -> dict[str, Responses]:
    """Return the response latencies of each service in the scenario, computed by the workload
    model.
    """
    latency = run.setup.configuration.latency
    servers = {service.name: service.server for service in run.setup.services}
    clients = run.clients()
    found = {}
    for api in run.scenario.apis:
        endpoints = list_endpoints(timeline, api.name, latency)
        if run.setup.closed_loop:
            found[api.name] = clients[api.name].answers(timeline.end, endpoints)
            continue
        rng = run.rng(f"requests {api.name}")
        found[api.name] = respond(due_times(api), endpoints, servers[api.name], timeline.end, rng)
    return found


def pending_seconds(timeline: Timeline) -> list[float]:
    """Return the pending time of each pod in seconds: from creation until bound, deleted, or the
    run's end.

    Pods that had a node when first observed are left out.
    """
    return [
        _pending_time(life, timeline.end) for life in timeline.lives if life.bound != life.created
    ]


def _pending_time(life: Life, end: float) -> float:
    until = life.bound
    if until is None:
        until = end if life.gone is None else life.gone
    return until - life.created


def lost_pod_seconds(timeline: Timeline) -> float:
    """Return the pod-seconds lost to migrations: the shortfall of Ready pods below the number
    before a migration, summed over time.

    If fewer replicas are desired, that number is the reference. A pod missing during several
    migrations of its service counts once.
    """
    if not timeline.moves:
        return 0.0
    levels = timeline.levels(min(0.0, timeline.beginning))
    return sum(
        _sum_lost([move for move in timeline.moves if move.service == service], timeline, levels)
        for service in timeline.services
    )


def _sum_lost(moves: Sequence[MoveRecord], timeline: Timeline, levels: Sequence[Level]) -> float:
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
            # Without known replicas, the pods before the migration are wanted.
            wanted = timeline.wanted(service, since) if steps else math.inf
            lost += (until - since) * max(0, min(max(before, default=0), wanted) - ready)
    return lost

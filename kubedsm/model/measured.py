"""Measurements from Prometheus: use of nodes and workloads, response times by tier."""

from collections.abc import Iterator, Mapping

import attrs

from kubedsm.model.model import NodeName, Tier, Uid, Workload

#: relative tolerance of steady values
STEADY = 0.1
#: the same of latencies between sites, and the least change in seconds that matters
STEADY_LATENCY = 0.25, 0.001
#: relative margin by which a slower edge must be slower
MARGIN = 0.1
#: minimum requests of a workload and tier within the window for a reliable mean
ENOUGH_REQUESTS = 100


@attrs.frozen(slots=True)
class Usage:
    """Resource usage (CPU, memory, network, disk) of a node, or mean usage of a workload's running
    pods.

    Millicores, bytes, and network and disk bytes per second in both directions; None: unknown.
    """

    cpu: float | None = None
    memory: float | None = None
    net: float | None = None
    disk: float | None = None


@attrs.frozen(slots=True)
class Answers:
    """Request rate (requests/s) and response time (seconds) of a workload's pods in one tier."""

    #: total requests/s
    rate: float
    #: mean response time in seconds
    seconds: float

    def smooth_answers(self, before: "Answers | None") -> "Answers":
        """Return the measured response times, keeping the former values if the change is small."""
        if before is None:
            return self
        return Answers(
            _smooth_value(before.rate, self.rate), _smooth_value(before.seconds, self.seconds)
        )


def _smooth_value(before: float, now: float, part: float = STEADY, least: float = 0.0) -> float:
    return before if abs(now - before) <= max(part * before, least) else now


@attrs.frozen(slots=True)
class Measured:
    """Measurement of the cluster at one moment: usage of nodes and workloads, response times."""

    #: seconds since the epoch
    at: float = 0.0
    nodes: Mapping[NodeName, Usage] = attrs.field(factory=dict)
    workloads: Mapping[Workload, Usage] = attrs.field(factory=dict)
    answers: Mapping[Workload, Mapping[Tier, Answers]] = attrs.field(factory=dict)
    #: response times smoothed for QoS targets: small changes are ignored
    steady: Mapping[Workload, Mapping[Tier, Answers]] = attrs.field(factory=dict)
    #: requests/s of workloads by the site of their users, smoothed as parts of all requests; for a
    #: sample without an answer: the previous values
    demand: Mapping[Workload, Mapping[str, float]] = attrs.field(factory=dict)
    #: False: demand was asked for, without an answer
    demand_answered: bool = True
    #: round trips in seconds by the users' site and the serving site (empty: the cloud), smoothed;
    #: without an answer, and for pairs without one: the previous values
    latency: Mapping[tuple[str, str], float] = attrs.field(factory=dict)
    latency_answered: bool = True
    #: nodes of pods at sampling time; later pods are in no node's usage
    placed: Mapping[Uid, NodeName] = attrs.field(factory=dict, repr=False)
    #: seconds before `at` that the sample covers
    window: float = 300.0
    #: previous sample, without its predecessor
    before: "Measured | None" = None
    #: arrival times of pods, and departure times by node, within the window: its mean contains
    #: parts of both
    came: Mapping[Uid, float] = attrs.field(factory=dict, repr=False)
    left: Mapping[NodeName, float] = attrs.field(factory=dict, repr=False)
    #: workloads with slower responses from the edge than from the cloud, by all samples
    slower: frozenset[Workload] = frozenset()
    #: measurement time of response times: an earlier sample may have supplied them
    answered: float = attrs.field()

    @answered.default
    def _answered(self) -> float:
        return self.at

    def after(self, before: "Measured", placed: Mapping[Uid, NodeName]) -> "Measured":
        """Return this measurement as successor of an earlier one, with the present nodes of pods.

        `NOTHING_MEASURED` stays unchanged, and has no successor.
        """
        demand, latency = self._smooth_demand(before), self._smooth_latency(before)
        if not self.at:
            kept = attrs.evolve(self, demand=demand, latency=latency)
            return self if kept == self else kept
        known = attrs.evolve(before, before=None) if before.at else None
        steady = {
            workload: {
                tier: answers.smooth_answers(before.steady.get(workload, {}).get(tier))
                for tier, answers in by_tier.items()
            }
            for workload, by_tier in self.answers.items()
        }
        news = self.answered > before.answered
        slower = frozenset(_list_slower(self, before)) if news else before.slower
        since = self.at - self.window
        came = {
            uid: at for uid, at in before.came.items() if since < at <= self.at and uid in placed
        }
        left = {node: at for node, at in before.left.items() if since < at <= self.at}
        if known is not None:
            came |= {uid: self.at for uid, _ in only_in(placed, before.placed)}
            left |= {node: self.at for _, node in only_in(before.placed, placed)}
        return attrs.evolve(
            self,
            steady=steady,
            demand=demand,
            latency=latency,
            placed=placed,
            before=known,
            came=came,
            left=left,
            slower=slower,
        )

    def _smooth_demand(self, before: "Measured") -> Mapping[Workload, Mapping[str, float]]:
        """Return the demand by site, retaining former values in place of small changes, of few
        requests, and of missing answers.
        """
        if not self.demand_answered:
            return before.demand
        smoothed: dict[Workload, Mapping[str, float]] = {}
        for workload, now in self.demand.items():
            then = before.demand.get(workload)
            if self.is_enough(sum(now.values())) and (then is None or _differ(now, then)):
                smoothed[workload] = now
            elif then is not None:
                smoothed[workload] = then
        return smoothed

    def _smooth_latency(self, before: "Measured") -> Mapping[tuple[str, str], float]:
        """Return the latencies between sites, retaining former values in place of small changes and
        of missing answers.
        """
        then = before.latency
        if not self.latency_answered:
            return then
        if not self.latency:
            return {}
        now = {
            pair: _smooth_value(then[pair], time, *STEADY_LATENCY) if pair in then else time
            for pair, time in self.latency.items()
        }
        smoothed = {**then, **now}
        return then if smoothed == then else smoothed

    def is_enough(self, rate: float) -> bool:
        """Return True if the request rate, in requests/s, suffices for a reliable average response
        time.
        """
        return rate * self.window >= ENOUGH_REQUESTS

    def list_reliable_times(self, answers: Mapping[Tier, Answers]) -> dict[Tier, float]:
        """Return the workload's mean response time in each tier that has enough requests."""
        return {tier: each.seconds for tier, each in answers.items() if self.is_enough(each.rate)}

    def edge_is_slower(self, workload: Workload) -> bool | None:
        """Return whether this sample shows slower responses from the edge; None: undecided.

        True above a margin of 10%. False for a faster edge, and without enough requests in any
        tier. Undecided within the margin, or with enough requests in one tier only.
        """
        told = self.list_reliable_times(self.answers.get(workload, {}))
        if not told:
            return False
        if len(told) < len(Tier):
            return None
        edge, cloud = told[Tier.EDGE], told[Tier.CLOUD]
        return True if edge > cloud * (1 + MARGIN) else False if edge < cloud else None


def _differ(now: Mapping[str, float], then: Mapping[str, float]) -> bool:
    """Return True if any site's part of the requests changed by more than `STEADY` of all."""
    total, former = sum(now.values()), sum(then.values())
    return any(
        abs(now.get(site, 0.0) / total - then.get(site, 0.0) / former) > STEADY
        for site in now.keys() | then.keys()
    )


def only_in(
    placed: Mapping[Uid, NodeName], other: Mapping[Uid, NodeName]
) -> Iterator[tuple[Uid, NodeName]]:
    """Yield the pods, with their nodes, that the other placement lacks or has on another node."""
    return ((uid, node) for uid, node in placed.items() if other.get(uid) != node)


def _list_slower(sample: Measured, before: Measured) -> Iterator[Workload]:
    """Yield the workloads with a slower edge; two successive samples must agree on a change."""
    for workload in sample.answers.keys() | before.slower:
        said = {sample.edge_is_slower(workload), before.edge_is_slower(workload)}
        if said == {True} or (workload in before.slower and said != {False}):
            yield workload


NOTHING_MEASURED = Measured()

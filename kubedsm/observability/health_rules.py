"""Health of scheduler, cluster and services: the rules for healthy, degraded and down.

An alert of the same name in
`manifests/components/monitoring/prometheusrule.yaml` has the same threshold, and fires once the
rule has held for the alert's `for`. docs/reference/health.md lists the rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from kubedsm.explain.node import node_state
from kubedsm.model.model import Tier, deviation_of_shares
from kubedsm.model.sites import Away
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.plurals import counted, named, sentence

State = Literal["healthy", "degraded", "down"]

#: seconds of pending before an unschedulable pod counts
PATIENCE = 10.0
#: part of a workload's pods that may be missing at the edge
SHORTFALL = 0.25
#: seconds of event loop lag; every start has less
LATE = 0.5
#: failed migrations, in number and as part of all, within a period in seconds
FAILURES, FAILING, PERIOD = 3, 0.3, 1800.0
#: seconds for which a caught internal error, and a single failed migration, counts
CAUGHT_WITHIN, REMEMBERED = 900.0, 300.0
_MILLI, _GIBI = 1000, 1 << 30


@attrs.frozen
class EdgeCapacity:
    """Edge capacity of nodes that accept pods: all, and free; cpu in millicores, memory in
    bytes.
    """

    nodes: int = 0
    cpu: int = 0
    cpu_free: int = 0
    memory: int = 0
    memory_free: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot, away: Away) -> "EdgeCapacity":
        nodes = [n for n in snapshot.of_tier(Tier.EDGE) if not node_state(n, away)]
        free = [snapshot.free[node.name] for node in nodes]
        return cls(
            len(nodes),
            sum(node.allocatable.cpu for node in nodes),
            sum(max(0, each.cpu) for each in free),
            sum(node.allocatable.memory for node in nodes),
            sum(max(0, each.memory) for each in free),
        )

    def __str__(self) -> str:
        cores = f"{_round(self.cpu_free / _MILLI)} of {_round(self.cpu / _MILLI)} cores"
        memory = f"{_round(self.memory_free / _GIBI)} of {_round(self.memory / _GIBI)} Gi"
        return f"{cores} and {memory} free at the edge"


@attrs.frozen
class EdgeShare:
    """Edge share of a workload, and its QoS target."""

    workload: str
    edge: int
    total: int
    #: pending pods, part of `total`
    waiting: int = 0
    #: targeted edge share; None for unknown
    qos: float | None = None
    #: pods missing at the edge
    missing: int = 0
    #: of the workload; empty if nothing asks for it
    kind: str = ""

    @property
    def gap(self) -> float:
        """Shortfall of the workload's edge share against its QoS target, among bound pods only."""
        bound = self.total - self.waiting
        return max(0.0, (self.qos or 0.0) - self.edge / bound) if bound and self.missing else 0.0

    def __str__(self) -> str:
        return f"{self.workload}: {self.edge} of {self.total} pods, target {self.qos or 0:.0%}"


@attrs.frozen
class HealthFacts:
    """Facts that the health rules evaluate; a default stands for nothing wrong or not known."""

    #: some process leads, or no leader election is in use
    has_leader: bool = True
    #: reason for an unreadable pause switch
    pause_unknown: str = ""
    #: reason for refusing the newest configuration
    refusal: str = ""
    #: failures of watches by kind
    watches: Mapping[str, str] = attrs.field(factory=dict)
    #: messages about tiers without nodes
    tiers: Sequence[str] = ()
    #: node names: by partitioned site, and by state unreachable and not ready
    partitioned: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    lost_nodes: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    #: unschedulable pods that have waited for `PATIENCE`, with the reason
    waiting: Mapping[str, str] = attrs.field(factory=dict)
    shares: Sequence[EdgeShare] = ()
    edge: EdgeCapacity = EdgeCapacity()
    #: failed migrations, and all ended migrations, of the last `PERIOD`
    failed_moves: int = 0
    ended_moves: int = 0
    #: sentence about the last failure within `REMEMBERED`
    last_failure: str = ""
    #: seconds
    loop_lag: float = 0.0
    events_lost: int = 0
    #: internal errors of the last `CAUGHT_WITHIN`, by part
    caught: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def share_deviation(self) -> float | None:
        """Standard deviation of the edge shares of workloads with a target; None without any."""
        return deviation_of_shares([s.edge / s.total for s in self.shares if s.qos and s.total])

    @property
    def below_target(self) -> list[EdgeShare]:
        """Workloads below their QoS target, the greatest shortfall first."""
        short = [share for share in self.shares if share.missing]
        return sorted(short, key=lambda share: (-share.gap, -share.missing, share.workload))


@attrs.frozen
class Rule:
    """Health rule: the state it implies, and the sentences of its violations.

    State healthy: a notice. `alert`: the alert with the same threshold, if any.
    """

    name: str
    state: State
    #: condition in words, for the reference
    when: str
    find: Callable[[HealthFacts], Iterable[str]]
    alert: str = ""


@attrs.frozen
class Problem:
    rule: str
    state: State
    text: str


@attrs.frozen
class HealthReport:
    state: State
    problems: tuple[Problem, ...]

    @property
    def troubles(self) -> tuple[str, ...]:
        return tuple(problem.text for problem in self.problems if problem.state != "healthy")

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(problem.text for problem in self.problems if problem.state == "healthy")


def assess_health(facts: HealthFacts) -> HealthReport:
    """Apply all rules; the worst state of a violated rule is the state."""
    problems = tuple(
        Problem(rule.name, rule.state, text) for rule in RULES for text in rule.find(facts)
    )
    states = {problem.state for problem in problems}
    worst: State = "down" if "down" in states else "degraded" if "degraded" in states else "healthy"
    return HealthReport(worst, problems)


def _find_no_leader(facts: HealthFacts) -> Iterator[str]:
    if not facts.has_leader:
        yield "No scheduler is known to lead: no pod is scheduled, and none is migrated."


def _find_unknown_pause(facts: HealthFacts) -> Iterator[str]:
    if facts.pause_unknown:
        why = end_sentence(facts.pause_unknown)
        yield f"The pause switch cannot be read, so no migration begins: {why}"


def _find_refusal(facts: HealthFacts) -> Iterator[str]:
    if facts.refusal:
        yield f"The latest configuration is refused: {end_sentence(facts.refusal)}"


def _find_watches(facts: HealthFacts) -> Iterator[str]:
    for kind, why in facts.watches.items():
        yield f"The mirror of {kind} may be outdated: {end_sentence(why)}"


def _find_missing_tiers(facts: HealthFacts) -> Iterator[str]:
    yield from (sentence(text) for text in dict.fromkeys(facts.tiers))


def _find_partitions(facts: HealthFacts) -> Iterator[str]:
    for site, names in facts.partitioned.items():
        yield f"Site {site} is partitioned ({named(sorted(names))}): its pods are left alone."


def _find_lost_nodes(facts: HealthFacts) -> Iterator[str]:
    for state, names in facts.lost_nodes.items():
        if len(names) == 1:
            yield f"Node {names[0]} is {state}."
        elif names:
            yield f"{len(names)} nodes are {state}: {named(sorted(names))}."


def _find_pending_pods(facts: HealthFacts) -> Iterator[str]:
    for name, why in facts.waiting.items():
        others = len(facts.waiting) - 1
        more = f" and {counted(others, 'more pod')}" if others else ""
        yield f"{name}{more} cannot be scheduled: {end_sentence(why)}"
        return


def _find_shortfalls(facts: HealthFacts) -> Iterator[str]:
    below = facts.below_target
    if below and below[0].gap > SHORTFALL:
        verb = "is below its" if len(below) == 1 else "are below their"
        yield (
            f"{len(below)} of {counted(len(facts.shares), 'service')} {verb} edge target;"
            f" worst {below[0]}; {facts.edge}."
        )


def _find_failing_moves(facts: HealthFacts) -> Iterator[str]:
    failed, ended = facts.failed_moves, facts.ended_moves
    if failed > FAILURES and failed > FAILING * ended:
        yield f"{failed} of {counted(ended, 'migration')} of the last half hour failed."


def _find_failed_move(facts: HealthFacts) -> Iterator[str]:
    if facts.last_failure:
        yield facts.last_failure


def _find_lag(facts: HealthFacts) -> Iterator[str]:
    if facts.loop_lag > LATE:
        yield (
            "The scheduler is slow: its event loop was up to"
            f" {_MILLI * facts.loop_lag:.0f} ms late."
        )


def _find_lost_events(facts: HealthFacts) -> Iterator[str]:
    if facts.events_lost:
        lost = counted(facts.events_lost, "Event")
        yield f"{lost} could not be written since the start; see the log."


def _find_caught(facts: HealthFacts) -> Iterator[str]:
    if facts.caught:
        parts = named([f"{number} in {part}" for part, number in facts.caught.items()])
        yield f"Internal errors of the scheduler were caught, {parts}; see the log."


RULES = (
    Rule("NoLeader", "down", "no replica holds the Lease", _find_no_leader, "KubeDSMNoLeader"),
    Rule(
        "PauseUnknown",
        "degraded",
        "the ConfigMap with the pause switch cannot be read",
        _find_unknown_pause,
    ),
    Rule(
        "ConfigurationRefused",
        "degraded",
        "the newest configuration is invalid",
        _find_refusal,
        "KubeDSMConfigurationRefused",
    ),
    Rule(
        "WatchTroubled",
        "degraded",
        "the watch of a kind of objects fails",
        _find_watches,
        "KubeDSMWatchTroubled",
    ),
    Rule("TierEmpty", "degraded", "no node is edge, or none is cloud", _find_missing_tiers),
    Rule(
        "SitePartitioned",
        "degraded",
        "all nodes of an edge site are unreachable together",
        _find_partitions,
    ),
    Rule(
        "NodesLost",
        "healthy",
        "a node is unreachable or not ready (its pods count by the other rules)",
        _find_lost_nodes,
    ),
    Rule(
        "PodsPending",
        "degraded",
        f"an unschedulable pod has waited for {PATIENCE:g} s",
        _find_pending_pods,
        "KubeDSMPodsPending",
    ),
    Rule(
        "BelowTarget",
        "degraded",
        f"more than {SHORTFALL:.0%} of a service's pods are missing at the edge",
        _find_shortfalls,
        "KubeDSMBelowPromise",
    ),
    Rule(
        "MigrationsFailing",
        "degraded",
        f"more than {FAILURES} migrations, and {FAILING:.0%} of all, failed in half an hour",
        _find_failing_moves,
        "KubeDSMMovesFailing",
    ),
    Rule(
        "MigrationFailed",
        "healthy",
        f"a migration failed in the last {REMEMBERED / 60:g} min",
        _find_failed_move,
    ),
    Rule(
        "LoopLags",
        "degraded",
        f"the event loop was more than {LATE:g} s late in the last 5 min",
        _find_lag,
        "KubeDSMLoopLags",
    ),
    Rule("EventsLost", "healthy", "Events could not be written", _find_lost_events),
    Rule(
        "ErrorsCaught",
        "degraded",
        f"an internal error was caught in the last {CAUGHT_WITHIN / 60:g} min",
        _find_caught,
        "KubeDSMErrorsCaught",
    ),
)


def _round(amount: float) -> str:
    return f"{amount:.1f}".removesuffix(".0")


def end_sentence(text: str) -> str:
    """Return the text with exactly one full stop at its end."""
    return f"{text.rstrip('.')}."

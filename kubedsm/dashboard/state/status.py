"""Status row of the dashboard: the scheduler's role, settings, and counters."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

import attrs
import msgspec

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, Role, StatusRow
from kubedsm.dashboard.state.headline import Scenery, headline, migration_route, nodes_by_site
from kubedsm.model.events import Change
from kubedsm.model.model import Node, NodeName, Pod, Tier, Uid
from kubedsm.observability.health_rules import (
    PATIENCE,
    PERIOD,
    REMEMBERED,
    EdgeCapacity,
    EdgeShare,
    HealthFacts,
    assess_health,
)
from kubedsm.observability.reading import Leadership, Reading
from kubedsm.planner.plurals import counted, sentence
from kubedsm.process.clock import Clock

#: number of recent binds with latency; seconds for which the headline displays a bind
_LAST, NEWS = 500, 1.5
#: displayed increments of event loop lag, in milliseconds; samples of 10 seconds, five minutes
_LAGS = (0, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_SAMPLES = 30


@attrs.define
class WorkCounters:
    """Counters of batches, binds and migrations, and recent bind latencies, for the status row."""

    _clock: Clock
    batches: int = attrs.field(default=0, init=False)
    bound: int = attrs.field(default=0, init=False)
    moves_done: int = attrs.field(default=0, init=False)
    #: time since when each pod has waited, of all schedulers
    _since: dict[Uid, float] = attrs.field(factory=dict, init=False)
    #: recent binds: time, node, and seconds of pending
    _bound: deque[tuple[float, NodeName | None, float]] = attrs.field(
        factory=lambda: deque(maxlen=_LAST), init=False
    )
    #: lags of the event loop in seconds
    lags: deque[float] = attrs.field(factory=lambda: deque(maxlen=_SAMPLES), init=False)

    def observe_change(self, change: Change) -> None:
        pod = change.pod_after
        if pod is not None and pod.waits_for_node:
            self._since.setdefault(pod.uid, self._clock.monotonic())
        elif gone := pod or change.pod_before:
            self._since.pop(gone.uid, None)

    def count_bind(self, pod: Pod) -> None:
        """Count a bind that the watch confirmed, with its latency."""
        now = self._clock.monotonic()
        self.bound += 1
        self._bound.append((now, pod.node_name, now - self._since.get(pod.uid, now)))

    @property
    def loop_lag(self) -> float | None:
        """Greatest recent event loop lag in milliseconds, rounded up; None if unknown."""
        if not self.lags:
            return None
        worst = 1000 * max(self.lags)
        return next((each for each in _LAGS if each >= int(worst)), _LAGS[-1])

    def latency(self, part: float) -> float | None:
        """Return the specified quantile of recent bind latencies, in milliseconds."""
        if not self._bound:
            return None
        seconds = sorted(took for _, _, took in self._bound)
        return round(1000 * seconds[min(len(seconds) - 1, int(part * len(seconds)))], 1)

    def count_recent(self, nodes: Mapping[NodeName, Node]) -> Counter[Tier]:
        """Count the pods bound in the last few seconds, by tier of their node."""
        since = self._clock.monotonic() - NEWS
        there = (nodes.get(node) for at, node, _ in self._bound if at > since and node)
        return Counter(node.tier for node in there if node is not None and node.tier)


def status_row(
    runtime: Runtime,
    leadership: Leadership | None,
    reading: Reading,
    there: Scenery,
    work: WorkCounters,
    tiers: Iterable[str],
) -> StatusRow:
    """Compute the status row of the dashboard: role, headline, counters and problems.

    leadership: None for a runtime without decisions. tiers: messages about tiers without nodes.
    """
    suggester, states = runtime.migrator, [move.state for move in there.moves.values()]
    proposed = suggester.proposed if suggester is not None else None
    status = StatusRow(
        headline="listing the cluster",
        role=_find_role(leadership),
        leader="" if leadership is None else leadership.leader,
        paused=reading.paused and runtime.pause_switch.config_map.known,
        dry_run=runtime.dry_run,
        mode=runtime.configuration.current.suggester.mode,
        proposal=proposed.id if proposed is not None else "",
        generation=reading.generation,
        configured=reading.configured_at,
        refusal=runtime.configuration.refusal,
        bind_p50=work.latency(0.5),
        bind_p99=work.latency(0.99),
        loop_lag=work.loop_lag,
        batches=work.batches,
        bound=work.bound,
        moves_done=work.moves_done,
        waiting=len(there.waiting),
        moving=states.count("moving"),
        planned=states.count("planned"),
    )
    synced, text = runtime.synced.is_set(), status.headline
    if synced:
        recent = work.count_recent(reading.snapshot.nodes)
        text = headline(status, there, recent, reading.now)
    facts = _collect_facts(status, there, runtime, reading, tiers if synced else ())
    health = assess_health(facts)
    notices = health.notices
    if leadership is not None and not leadership.leading:
        notices = (sentence(describe_standby(leadership)), *notices)
    return msgspec.structs.replace(
        status,
        headline=text,
        state=health.state,
        troubles=health.troubles,
        notices=notices,
        edge_cpu=facts.edge.cpu,
        edge_cpu_free=facts.edge.cpu_free,
        edge_memory=facts.edge.memory,
        edge_memory_free=facts.edge.memory_free,
        share_deviation=None if facts.share_deviation is None else round(facts.share_deviation, 3),
    )


def _collect_facts(
    status: StatusRow, there: Scenery, runtime: Runtime, reading: Reading, tiers: Iterable[str]
) -> HealthFacts:
    """Collect the facts for the health rules; `tiers`: messages about tiers without nodes."""
    now, moves = reading.now, list(there.moves.values())
    ended = [move for move in moves if move.ended and abs(now - move.ended) < PERIOD]
    failed = [move for move in ended if move.state in ("failed", "rolled back")]
    return HealthFacts(
        has_leader=status.role != "standby" or bool(status.leader),
        pause_unknown=runtime.pause_switch.config_map.trouble or "",
        refusal=status.refusal,
        watches={kind: each.trouble for kind, each in reading.watches.items() if each.trouble},
        tiers=tuple(tiers),
        partitioned=nodes_by_site(there.nodes, "partitioned"),
        lost_nodes={
            state: sorted(name for name, node in there.nodes.items() if node.state == state)
            for state in ("unreachable", "not ready")
        },
        waiting={
            name: pod.message
            for name, pod in there.waiting.items()
            if pod.message and now - pod.created > PATIENCE and (pod.rules or not status.dry_run)
        },
        shares=[
            EdgeShare(name, row.edge, row.total, row.waiting, row.target, row.missing)
            for name, row in there.workloads.items()
        ],
        edge=EdgeCapacity.of(reading.snapshot, reading.away),
        failed_moves=len(failed),
        ended_moves=len(ended),
        last_failure=_describe_failures(failed, now),
        loop_lag=(status.loop_lag or 0.0) / 1000,
        events_lost=reading.events_lost,
        caught=reading.caught_lately,
    )


def _describe_failures(failed: Iterable[MoveRow], now: float) -> str:
    """Describe the last failed migration of the last minutes; empty without one."""
    lost = [move for move in failed if abs(now - move.ended) < REMEMBERED]
    if not lost:
        return ""
    last = max(lost, key=lambda move: move.ended)
    more = f"; so did {counted(len(lost) - 1, 'migration')} before" if lost[1:] else ""
    how = "failed" if last.state == "failed" else "was rolled back"
    return f"The migration of {migration_route(last)} {how}: {last.reason.rstrip('.')}{more}."


def describe_standby(leadership: Leadership) -> str:
    """Explain that a standby computes no plans, and how to reach the leader."""
    if not leadership.leader:
        return "this scheduler is a standby and plans nothing; the leader is not known"
    where = f"kubectl -n {leadership.namespace} port-forward pod/{leadership.leader} 10270"
    return (
        f"this scheduler is a standby and plans nothing; {leadership.leader} leads: ask there"
        f" (if that is a pod: {where})"
    )


def _find_role(leadership: Leadership | None) -> Role:
    if leadership is None:
        return "watching"
    if not leadership.leading:
        return "standby"
    return "leading" if leadership.holder else "alone"

"""Expected and measured effect of migrations on response times.

The sample before a migration is compared with the first sample entirely after the migration. The
comparison is valid without concurrent changes of the service: constant number of pods, and no other
migration. Simultaneous migrations of a service are evaluated together. Otherwise the record
explains why the effect is unknown.
"""

from collections import Counter

import attrs
import msgspec
import structlog

from kubedsm.config.duration import format_duration
from kubedsm.events.controller import Controller
from kubedsm.events.event_writer import WorkloadEvents
from kubedsm.execution.limits import LATE_IN_A_ROW, LEFT_ALONE
from kubedsm.explain.decisions import Decisions
from kubedsm.explain.effects import Around, Effect, Response, expect_change
from kubedsm.explain.event_notes import Note, note_migration
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.events import Change
from kubedsm.model.measured import Measured
from kubedsm.model.model import NodeName, Share, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.qos_targets import ResponseTimes
from kubedsm.optimizer.moving.suggestion import MoveKind

log = structlog.get_logger()

#: why no effect can be measured
NOT_MEASURED = "no response times were available"
TOO_FEW = "too few requests to measure"
OTHER_MOVES = "other pods of the workload were migrated at that time"
SCALED = "scaled from {} to {} meanwhile"
#: placeholder while the effect is unknown
AWAITED = "waiting for the next sample"


@attrs.define(slots=True)
class _Watched:
    """Overlapping migrations of one workload whose effect on response times is measured
    together.
    """

    workload: Workload
    #: sample, share and times at the first migration's start
    sample: Measured
    share: Share
    times: ResponseTimes
    untold: str
    #: change in edge pods by migration id, for migrations in progress or completed
    more: dict[str, int] = attrs.field(factory=dict)
    under_way: set[str] = attrs.field(factory=set)
    kinds: dict[str, MoveKind | None] = attrs.field(factory=dict)
    #: of the last, seconds since the epoch
    ended_at: float = 0.0

    def effect(self, measured: Around[Response] | None = None) -> Effect:
        both = expect_change(self.times, self.share, sum(self.more.values()))
        return Effect(both, measured, None if measured else self.untold or None, len(self.more))


@attrs.define
class MoveEffects(Controller):
    """Measures how migrations change the response times of their workloads: compares measurements
    before and after.
    """

    _decisions: Decisions
    _watched: dict[Workload, _Watched] = attrs.field(factory=dict, init=False)
    #: end of each workload's latest migration, if recent
    _ended: dict[Workload, float] = attrs.field(factory=dict, init=False)

    def note_begin(self, move: MoveOutcome) -> None:
        """Record the start of a migration, and the workload's response times before the pod
        leaves.
        """
        snapshot, workload = self._decisions.mirror.snapshot(), move.move.pod.workload
        watched = self._watched.get(workload)
        if watched is None or not watched.under_way:
            if watched is not None:
                self._record_effect(watched, watched.untold or OTHER_MOVES)
            watched = self._watched[workload] = self._start_watch(snapshot, workload)
        watched.more[move.id] = _change_of_share(snapshot, move)
        watched.kinds[move.id] = move.move.kind
        watched.under_way.add(move.id)

    def _start_watch(self, snapshot: Snapshot, workload: Workload) -> _Watched:
        self._forget_long_ended()
        sample, share = snapshot.measured, snapshot.census.shares.get(workload, Share())
        untold = _why_unknown(sample, workload)
        if self._ended.get(workload, 0.0) > sample.answered - sample.window:
            untold = untold or OTHER_MOVES
        believed = sample.list_reliable_times(sample.answers.get(workload, {}))
        times = ResponseTimes.of(believed, self.configuration.current.latency.times)
        return _Watched(workload, sample, share, times, untold)

    def note_end(self, move: MoveOutcome) -> MoveOutcome:
        """Record the end of a migration; return its outcome completed by the effect on response
        times, if already known.
        """
        watched = self._watched.get(move.move.pod.workload)
        if watched is None or move.id not in watched.under_way:
            return move
        watched.under_way.remove(move.id)
        watched.ended_at = self._ended[watched.workload] = self.clock.wall()
        completed = move.outcome is Outcome.COMPLETED
        if not completed:
            del watched.more[move.id]
        if not watched.under_way:
            self._judge_if_known(watched, None)
        effect = msgspec.structs.replace(watched.effect(), untold=watched.untold or AWAITED)
        return attrs.evolve(move, effect=effect) if completed else move

    def observe(self, change: Change) -> None:
        """Measure the effect of finished migrations on response times, once Prometheus delivers a
        new measurement.
        """
        sample = change.measured_after
        if sample is not None:
            for watched in [each for each in self._watched.values() if not each.under_way]:
                self._judge_if_known(watched, sample)

    def _judge_if_known(self, watched: _Watched, sample: Measured | None) -> None:
        """Evaluate finished migrations if a new measurement, or a workload change, permits."""
        pods = self._decisions.mirror.snapshot().census.shares.get(watched.workload, Share()).total
        why = watched.untold
        if not watched.more:
            del self._watched[watched.workload]
        elif why or pods != watched.share.total:
            self._record_effect(watched, why or SCALED.format(watched.share.total, pods))
        elif sample is not None and not sample.at:
            self._record_effect(watched, NOT_MEASURED)
        elif sample is not None and sample.answered - sample.window >= watched.ended_at:
            self._record_effect(watched, _why_unknown(sample, watched.workload), sample)

    def _record_effect(
        self, watched: _Watched, untold: str, sample: Measured | None = None
    ) -> None:
        """Record the final effect of a workload's migrations on response times, or the reason why
        the effect is unknown.
        """
        del self._watched[watched.workload]
        watched.untold = untold
        measured = None
        if sample is not None and not untold:
            before, after = (
                Response.of(of.answers[watched.workload]) for of in (watched.sample, sample)
            )
            measured = Around(before, after)
        effect = watched.effect(measured)
        if measured:
            log.info("migration effect", workload=str(watched.workload), effect=str(effect))
        for move in watched.more:
            self._decisions.record.move_helped(move, effect)
            self.listener.move_judged(watched.kinds[move], effect)

    def _forget_long_ended(self) -> None:
        oldest = self.clock.wall() - 2 * self.configuration.current.load_aware.window
        self._ended = {w: at for w, at in self._ended.items() if at > oldest}


@attrs.define(eq=False)
class MigrationRecorder(Controller):
    """Records ended migrations in the decision record, metrics, log, and Events."""

    effects: MoveEffects
    decisions: Decisions
    workload_events: WorkloadEvents
    #: number of ended migrations by outcome
    counts: Counter[Outcome] = attrs.field(factory=Counter, init=False)

    def record_end(self, outcome: MoveOutcome) -> None:
        """Record the outcome of a migration (also of a migration that never began) in the decision
        record, metrics, log, and Events.
        """
        ended = self.effects.note_end(outcome)
        self.decisions.record.move_ended(ended)
        self.listener.move_ended(ended)
        self.counts[ended.outcome] += 1
        if ended.outcome is Outcome.DROPPED:
            return
        pod, completed = ended.move.pod, ended.outcome is Outcome.COMPLETED
        log.info("migration ended", pod=str(pod), outcome=ended.outcome, reason=ended.reason)
        self.workload_events.add_migration(ended)
        self.recorder.record_migration(pod, note_migration(ended), completed=completed)
        replacement = ended.replacement
        if completed and replacement is not None and replacement.node_name is not None:
            self.recorder.record_bind(replacement, replacement.node_name)

    def record_left_alone(self, workload: Workload, ready_within: float) -> None:
        """Log and report that pods of a workload are not migrated for a while, after repeated late
        replacements.
        """
        text = (
            f"{LATE_IN_A_ROW} migrations in a row failed: the replacement was not Ready within"
            f" {format_duration(round(ready_within))}. No pod is migrated for"
            f" {format_duration(LEFT_ALONE)}, or until the pod template changes or"
            " migration.deadline is raised"
        )
        log.warning("migrations suspended", workload=str(workload), note=text)
        self.workload_events.add_note(workload, Note("MigrationsSuspended", text, warning=True))


def _why_unknown(sample: Measured, workload: Workload) -> str:
    """Return why the sample lacks response times of the workload; empty if present."""
    answers = sample.answers.get(workload)
    if not answers:
        return NOT_MEASURED
    return "" if sample.is_enough(sum(each.rate for each in answers.values())) else TOO_FEW


def _change_of_share(snapshot: Snapshot, move: MoveOutcome) -> int:
    """Return the change in the number of the workload's pods at the edge by the migration: 1, 0 or
    -1.
    """

    def on_edge(name: NodeName | None) -> bool:
        node = None if name is None else snapshot.nodes.get(name)
        return node is not None and node.tier is Tier.EDGE

    return on_edge(move.move.target) - on_edge(move.move.source)

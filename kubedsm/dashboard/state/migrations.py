"""Dashboard table of migrations: unfinished migrations with the current step, and recent
migrations.
"""

from collections.abc import Iterator, Mapping, Sequence

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, MoveState
from kubedsm.dashboard.state.tables import RowTable
from kubedsm.explain.decision_record import Entry, Kind
from kubedsm.explain.effects import Effect
from kubedsm.explain.migration import pod_names
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.explain.migration_progress import Progress
from kubedsm.model.model import Uid
from kubedsm.observability.reading import Reading
from kubedsm.planner.what_if import describe_purpose
from kubedsm.rebalancing.migration_effects import NOT_MEASURED
from plans.steps import Plan, Step

#: rows of finished migrations
LAST = 50


class MigrationTable(RowTable[MoveRow]):
    """Dashboard rows of migrations, and for each pod the key of its migration."""

    def __init__(self) -> None:
        super().__init__()
        #: purposes of each decision's migrations, by pod
        self._purposes: dict[int, dict[Uid, str]] = {}
        #: rows of the last evaluation, and the underlying outcomes
        self._made: dict[str, tuple[MoveOutcome, MoveRow]] = {}
        #: migrations with progress since; possible differences elsewhere; the newest decision
        self._advanced: set[str] = set()
        self._stale = True
        self._newest = 0
        #: migration, planned or in progress, of each pod
        self.of_pods: dict[Uid, str] = {}

    def observe_steps(self, plan: Plan, steps: Sequence[Step]) -> bool:
        """Record that steps of a bind or migration plan changed; return True if the plan contains
        migrations.
        """
        if plan.restores_only or not any(step.move for step in steps):
            return False
        self._advanced.update(step.move for step in plan.steps)
        return True

    def observe_end(self, move: MoveOutcome) -> None:
        self._advanced.add(move.id)

    def invalidate(self) -> None:
        """Mark all dashboard rows of migrations for recomputation after changed proposals or
        measured effects.
        """
        self._stale = True

    def look(self, runtime: Runtime, reading: Reading) -> Mapping[str, MoveRow] | None:
        """Recompute the dashboard rows of recently decided migrations; return the changed rows, or
        None.
        """
        record = runtime.decisions.record
        newest = next(record.newest_first(), None)
        number = newest.number if newest else 0
        if not (self._stale or self._advanced or number != self._newest):
            return None
        shown = list(_list_shown(runtime))
        rows: dict[str, MoveRow] = {}
        of_pods: dict[Uid, str] = {}
        for entry, outcome in shown:
            key = outcome.key
            purpose = self._find_purpose(entry, outcome, runtime, reading)
            progress = record.progress_of(outcome.id, reading.snapshot.pods)
            of, row = self._made.get(key, (None, None))
            if row is None or of is not outcome or key in self._advanced:
                row = _migration_row(entry, outcome, progress, purpose)
            rows[key] = row
            if row.state in ("planned", "moving"):
                of_pods |= {Uid(step.pod): key for step in progress.steps if step.pod}
        self._made = {outcome.key: (outcome, rows[outcome.key]) for _, outcome in shown}
        self._purposes = {e.number: self._purposes[e.number] for e, _ in shown}
        self.of_pods = of_pods
        self._advanced.clear()
        self._stale, self._newest = False, number
        return rows

    def _find_purpose(
        self, entry: Entry, outcome: MoveOutcome, runtime: Runtime, reading: Reading
    ) -> str:
        if entry.number not in self._purposes:
            self._purposes[entry.number] = _describe_purposes(entry, runtime, reading)
        return self._purposes[entry.number].get(outcome.move.pod.uid, outcome.move.purpose)


def _migration_row(entry: Entry, outcome: MoveOutcome, progress: Progress, purpose: str) -> MoveRow:
    move, names = outcome.move, pod_names(outcome, progress)
    step, since = progress.describe_current(names)
    done, steps = progress.count_steps()
    state: MoveState = outcome.outcome.value
    if progress.began and outcome.outcome is Outcome.PLANNED:
        state = "moving"
    return MoveRow(
        pod=names.pod,
        workload=str(move.pod.workload),
        source=move.source or "",
        target=move.target,
        kind=move.kind.value if move.kind else "",
        purpose=purpose,
        state=state,
        at=entry.at,
        began=progress.began,
        ended=progress.ended,
        decision=entry.number,
        gain=round(move.gain, 6),
        step=step,
        since=since,
        done=done,
        steps=steps,
        reason=outcome.reason,
        replacement=str(outcome.replacement) if outcome.replacement else progress.replacement,
        story=tuple(progress.describe_steps(names)),
        helped=_describe_effect(outcome.effect),
    )


def _describe_effect(effect: Effect | None) -> str:
    """Describe a migration's measured effect on response time; empty if not measured."""
    return "" if effect is None or effect.untold == NOT_MEASURED else str(effect)


def _list_shown(runtime: Runtime) -> Iterator[tuple[Entry, MoveOutcome]]:
    """Yield the migrations shown on the page, newest first; proposed ones only from the last
    suggestion.
    """
    past, latest = 0, True
    current = runtime.migrator is not None and runtime.migrator.proposed is not None
    for entry in runtime.decisions.record.newest_first():
        if entry.kind is not Kind.SUGGESTION:
            continue
        for move in entry.moves:
            if move.outcome is Outcome.PROPOSED:
                if latest and (current or move.move.room_for):
                    yield entry, move
                continue
            past += move.outcome is not Outcome.PLANNED
            if move.outcome is Outcome.PLANNED or past <= LAST:
                yield entry, move
        latest = False


def _describe_purposes(entry: Entry, runtime: Runtime, reading: Reading) -> dict[Uid, str]:
    basis = runtime.decisions.record.basis(entry)
    if basis is None:
        return {}
    moves = [outcome.move for outcome in entry.moves]
    qos_targets = reading.policy.qos_targets_in(basis.snapshot)
    shares = basis.shares_before
    return {move.pod.uid: describe_purpose(move, moves, shares, qos_targets) for move in moves}

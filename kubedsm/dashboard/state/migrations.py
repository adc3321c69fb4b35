"""Dashboard table of migrations: unfinished migrations with the current step, and recent
migrations.
"""

from collections.abc import Iterator

from kubedsm.app.assembly import Runtime
from kubedsm.dashboard.rows import MoveRow, MoveState
from kubedsm.dashboard.state.tables import Difference, RowTable
from kubedsm.explain.decision_record import DecisionRecord, Entry, Kind
from kubedsm.explain.effects import Effect
from kubedsm.explain.migration import pod_names
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.explain.migration_progress import Progress
from kubedsm.model.model import Uid
from kubedsm.observability.reading import Reading
from kubedsm.planner.what_if import describe_purpose
from kubedsm.rebalancing.migration_effects import NOT_MEASURED

#: rows of finished migrations
LAST = 50


class MigrationTable(RowTable[MoveRow]):
    """Dashboard rows of migrations, and for each pod the key of its migration."""

    def __init__(self) -> None:
        super().__init__()
        #: purposes of each decision's migrations, by pod
        self._purposes: dict[int, dict[Uid, str]] = {}
        #: changes of the record, and a current proposal, as of the last evaluation
        self._of = (-1, False)
        #: migration, planned or in progress, of each pod
        self.of_pods: dict[Uid, str] = {}

    def look(self, runtime: Runtime, reading: Reading) -> dict[str, Difference[MoveRow]]:
        """Recompute the dashboard rows of recently decided migrations after changes; return the
        changed rows.
        """
        record, migrator = runtime.decisions.record, runtime.migrator
        is_proposed = migrator is not None and migrator.proposed is not None
        if self._of == (record.changes, is_proposed):
            return {}
        self._of = record.changes, is_proposed
        rows: dict[str, MoveRow] = {}
        purposes: dict[int, dict[Uid, str]] = {}
        self.of_pods = {}
        for entry, outcome in _list_shown(record, is_proposed=is_proposed):
            if entry.number not in purposes:
                purposes[entry.number] = self._find_purposes(entry, record, reading)
            purpose = purposes[entry.number].get(outcome.move.pod.uid, outcome.move.purpose)
            progress = record.progress_of(outcome.id, reading.snapshot.pods)
            row = _migration_row(entry, outcome, progress, purpose)
            rows[outcome.key] = row
            if row.state in ("planned", "moving"):
                self.of_pods |= {Uid(step.pod): outcome.key for step in progress.steps if step.pod}
        self._purposes = purposes
        return self.replace(rows)

    def _find_purposes(
        self, entry: Entry, record: DecisionRecord, reading: Reading
    ) -> dict[Uid, str]:
        """Return the purpose of each migration of a decision, as first described: the decision's
        input is not kept as long.
        """
        basis = record.basis(entry)
        if entry.number in self._purposes or basis is None:
            return self._purposes.get(entry.number, {})
        moves = [outcome.move for outcome in entry.moves]
        qos_targets = reading.policy.qos_targets_in(basis.snapshot)
        shares = basis.shares_before
        return {move.pod.uid: describe_purpose(move, moves, shares, qos_targets) for move in moves}


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


def _list_shown(
    record: DecisionRecord, *, is_proposed: bool
) -> Iterator[tuple[Entry, MoveOutcome]]:
    """Yield the migrations shown on the page, newest first; proposed ones only from the last
    suggestion.
    """
    past, latest = 0, True
    for entry in record.newest_first():
        if entry.kind is not Kind.SUGGESTION:
            continue
        for move in entry.moves:
            if move.outcome is Outcome.PROPOSED:
                if latest and (is_proposed or move.move.room_for):
                    yield entry, move
                continue
            past += move.outcome is not Outcome.PLANNED
            if move.outcome is Outcome.PLANNED or past <= LAST:
                yield entry, move
        latest = False

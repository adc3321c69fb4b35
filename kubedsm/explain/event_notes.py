"""Texts of Kubernetes Events on pods and workloads about migrations."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.planner.plurals import counted


class Note(NamedTuple):
    """Reason and message of a Kubernetes Event."""

    reason: str
    text: str
    warning: bool = False
    action: str = "Migrating"


def note_migration(ended: MoveOutcome) -> str:
    """Return the Event text about a migration's end, for the migrated pod."""
    move, target = ended.move, ended.move.target
    if ended.outcome is not Outcome.COMPLETED:
        return f"Migration to {target} {ended.outcome}: {ended.reason}"
    purpose = f", {move.purpose}" if move.evens or move.room_for else ""
    return f"Migrated to {target}{purpose}" + (f"; {ended.reason}" if ended.reason else "")


def note_migrations(ends: Iterable[MoveOutcome]) -> Iterator[Note]:
    """Yield the Event texts about a workload's migrations: one for completed, and one for
    unsuccessful migrations.
    """
    done, lost = list[str](), list[str]()
    for ended in ends:
        move = ended.move
        kind = f" ({move.kind})" if move.kind else ""
        purpose = f", {move.purpose}" if move.evens else ""
        text = f"{move.pod.name} from {move.source} to {move.target}{kind}{purpose}"
        if ended.outcome is Outcome.COMPLETED:
            done.append(text)
        else:
            lost.append(f"{text}: {ended.outcome}, {ended.reason}")
    if done:
        yield Note("Migrated", f"Migrated {counted(len(done), 'pod')}: {'; '.join(done)}")
    if lost:
        text = f"Did not migrate {counted(len(lost), 'pod')}: {'; '.join(lost)}"
        yield Note("MigrationFailed", text, warning=True)

"""Texts of Kubernetes Events on pods and workloads about binds and migrations."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod
from kubedsm.planner.plurals import counted


class Note(NamedTuple):
    """Reason and message of a Kubernetes Event."""

    reason: str
    text: str
    warning: bool = False
    action: str = "Migrating"


def note_bind(pod: Pod, node: NodeName, why: str) -> str:
    return f"Successfully assigned {pod} to {node}" + (f": {why}" if why else "")


def note_migration(ended: MoveOutcome) -> str:
    """Return the Event text about a migration's end, for the migrated pod."""
    move, target = ended.move, ended.move.target
    if ended.outcome is not Outcome.COMPLETED:
        return f"Migration to {target} {ended.outcome}: {ended.reason}"
    purpose = f", {move.purpose}" if move.evens or move.room_for else ""
    return f"Migrated to {target}{purpose}" + (f"; {ended.reason}" if ended.reason else "")


def note_earlier_migration(target: str, *, completed: bool) -> str:
    """Return the Event text about a completed migration that a previous leader began."""
    outcome = f"Migrated to {target}" if completed else f"Migration to {target} not completed"
    return f"{outcome}; begun by an earlier leader"


def note_orphan(reason: str) -> str:
    return f"Detached by a migration, and neither restored nor evicted yet: {reason}"


def note_left_to_collector(refused: str) -> str:
    """Return the Event text about a detached pod without owner whose eviction is refused."""
    return f"Its owner was deleted during its migration; left to garbage collection: {refused}"


def note_forged_label() -> str:
    return f"Carries {MIGRATING_LABEL}, but no migration by KubeDSM detached it; ignored"


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

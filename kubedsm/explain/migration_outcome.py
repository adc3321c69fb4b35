"""Decided migration with its outcome: planned, completed, rolled back, or failed."""

import enum
from typing import Any

import attrs
import msgspec

from kubedsm.explain.effects import Effect
from kubedsm.explain.facts import MigrationFacts
from kubedsm.model.model import Pod
from kubedsm.optimizer.moving.suggestion import Leg, Move
from kubedsm.process.clock import rfc3339


class Outcome(enum.StrEnum):
    PROPOSED = "proposed"
    PLANNED = "planned"
    #: never begun
    DROPPED = "dropped"
    COMPLETED = "completed"
    #: the old pod was restored to the controller
    ROLLED_BACK = "rolled back"
    #: unchanged, or the old pod is deleted and the replacement was rescheduled
    FAILED = "failed"


@attrs.frozen(slots=True)
class MoveOutcome:
    """Migration with its outcome. A migration with a stopover in the cloud counts as two
    migrations, one value each.
    """

    #: of the order in the plan; empty for proposed migrations
    id: str
    move: Move
    outcome: Outcome
    reason: str = ""
    #: pod created in place of the migrated pod
    replacement: Pod | None = None
    #: None unless the migration has begun, and not failed
    effect: Effect | None = None

    @property
    def key(self) -> str:
        """Lookup key: the migration's id or, for a proposed migration, the pod."""
        return self.id or f"proposed/{self.move.pod}"

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The migrated pod, and the replacement pod if created."""
        return (self.move.pod,) if self.replacement is None else (self.move.pod, self.replacement)

    def facts(self, at: float) -> MigrationFacts:
        """Return the migration's facts for JSON; `at`: time of the decision, in epoch seconds."""
        ended = {
            "at": rfc3339(at),
            "outcome": self.outcome.value,
            "reason": self.reason or None,
            "replacement": str(self.replacement) if self.replacement else None,
            "effect": self.effect,
            "helped": self.effect and str(self.effect),
            "id": self.key,
        }
        return msgspec.convert(move_as_json(self.move) | ended, MigrationFacts)


def move_as_json(move: Move) -> dict[str, Any]:
    """Return the decided migration as a JSON document."""
    return {
        "pod": str(move.pod),
        "from": move.source,
        "to": move.target,
        "kind": move.kind and move.kind.value,
        "gain": round(move.gain, 6),
        "purpose": move.purpose,
        "group": move.group,
    }


def plan_outcome(id_: str, leg: Leg) -> MoveOutcome:
    """Return the outcome `planned` for a migration not yet executed."""
    move = attrs.evolve(leg.move, source=leg.source, target=leg.target)
    return MoveOutcome(id_, move, Outcome.PLANNED)

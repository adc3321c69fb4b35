"""What is remembered of a decision: a few words a pod."""

import enum
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import msgspec

from kubedsm.explain.effects import Effect
from kubedsm.explain.explanation import MoveAnswer
from kubedsm.model.model import NodeName, Pod, Tier, Uid
from kubedsm.optimizer.moving.suggestion import Leg, Move
from kubedsm.optimizer.placing.cloud import LookedAt
from kubedsm.optimizer.programming.in_order import Certificate


class Kind(enum.StrEnum):
    BATCH = "batch"
    SUGGESTION = "suggestion"


@attrs.frozen(slots=True)
class PodChoice:
    """A pod of a batch, and the node chosen for it."""

    uid: Uid
    pod: str
    node: NodeName | None
    tier: Tier | None
    #: kube-scheduler's words for a pod that no node takes
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "node": self.node,
            "tier": self.tier.value if self.tier else None,
            "message": self.message or None,
        }


class Outcome(enum.StrEnum):
    """What became of a move."""

    PROPOSED = "proposed"
    PLANNED = "planned"
    #: never begun
    DROPPED = "dropped"
    COMPLETED = "completed"
    #: the old pod is its owner's again
    TAKEN_BACK = "taken back"
    #: nothing was changed, or the old pod is gone and its replacement had to be placed anew
    FAILED = "failed"


@attrs.frozen(slots=True)
class MoveOutcome:
    """A move, or one leg of it if it goes through the cloud."""

    #: of its order in the plan; of a move that was only proposed there is none
    id: str
    move: Move
    outcome: Outcome
    reason: str = ""
    #: the pod that took its place
    replacement: Pod | None = None
    #: of one that has begun and not failed
    effect: Effect | None = None

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pod that is moved, and the one in its place."""
        return (self.move.pod,) if self.replacement is None else (self.move.pod, self.replacement)

    @property
    def told(self) -> str:
        """What became of it, for its users."""
        move, target = self.move, self.move.target
        if self.outcome is not Outcome.COMPLETED:
            return f"Move to {target} {self.outcome}: {self.reason}"
        purpose = f", {move.purpose}" * bool(move.evens or move.room_for)
        return f"Moved to {target}{purpose}" + f"; {self.reason}" * bool(self.reason)

    def answer(self, at: float) -> MoveAnswer:
        ended = {
            "at": rfc3339(at),
            "outcome": self.outcome.value,
            "reason": self.reason or None,
            "replacement": str(self.replacement) if self.replacement else None,
            "effect": self.effect and self.effect.as_json(),
            "helped": self.effect and str(self.effect),
        }
        return msgspec.convert(move_as_json(self.move) | ended, MoveAnswer)


def move_as_json(move: Move) -> dict[str, Any]:
    """A move as it was decided."""
    return {
        "pod": str(move.pod),
        "from": move.source,
        "to": move.target,
        "kind": move.kind and move.kind.value,
        "gain": round(move.gain, 6),
        "purpose": move.purpose,
        "group": move.group,
    }


@attrs.frozen(slots=True)
class Entry:
    """One decision."""

    number: int
    #: seconds since the epoch
    at: float
    kind: Kind
    #: of all opted-in workloads, in points
    qos_before: float
    qos_after: float
    proven: bool
    #: of goals that are not proven
    certificates: tuple[Certificate, ...] = ()
    pods: tuple[PodChoice, ...] = ()
    moves: tuple[MoveOutcome, ...] = ()
    #: of a batch: some of the cloud; None for all of it
    looked_at: LookedAt | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at": rfc3339(self.at),
            "kind": self.kind.value,
            "pods": [choice.as_json() for choice in self.pods],
            "moves": [msgspec.to_builtins(move.answer(self.at)) for move in self.moves],
            "qos": {"before": self.qos_before, "after": self.qos_after},
            "proven": self.proven,
            "certificates": [each.as_json() for each in self.certificates],
            "cloudNodes": self.looked_at and self.looked_at.as_json(),
        }

    def concerns(self, name: str) -> bool:
        """Whether it is about a pod of that name, or namespace and name."""
        return any(called(pod, name) for _, pod in self.about())

    def about(self) -> Iterator[tuple[str, str]]:
        """The pods it is about, replacements included."""
        for choice in self.pods:
            yield choice.uid, choice.pod
        yield from ((pod.uid, str(pod)) for move in self.moves for pod in move.pods)


def planned(id_: str, leg: Leg) -> MoveOutcome:
    """What is going to be carried out: a move, or a leg of it."""
    move = attrs.evolve(leg.move, source=leg.source, target=leg.target)
    return MoveOutcome(id_, move, Outcome.PLANNED)


def called(pod: str, name: str) -> bool:
    """Whether the pod (namespace/name) goes by that name."""
    return name in (pod, pod.partition("/")[2])


def rfc3339(at: float) -> str:
    """The moment, given in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

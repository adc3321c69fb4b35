"""What is remembered of a decision: a few words a pod."""

import enum
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs

from kubedsm.core.moving.suggestion import Move
from kubedsm.core.world.model import NodeName, Tier, Uid


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


@attrs.frozen(slots=True)
class MoveChoice:
    """A move, or one leg of it if it goes through the cloud."""

    #: of its order in the plan; of a move that was only proposed there is none
    id: str
    uid: Uid
    pod: str
    source: NodeName
    target: NodeName
    kind: str
    gain: float
    group: int
    #: planned, proposed, dropped (never begun), or as it ended: completed, taken back, failed
    outcome: str
    reason: str = ""
    #: the pod that took its place
    replacement: str = ""
    replacement_uid: str = ""

    def as_json(self, at: float) -> dict[str, Any]:
        return {
            "at": rfc3339(at),
            "pod": self.pod,
            "from": self.source,
            "to": self.target,
            "kind": self.kind,
            "gain": round(self.gain, 6),
            "group": self.group,
            "outcome": self.outcome,
            "reason": self.reason or None,
            "replacement": self.replacement or None,
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
    pods: tuple[PodChoice, ...] = ()
    moves: tuple[MoveChoice, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at": rfc3339(self.at),
            "kind": self.kind.value,
            "pods": [choice.as_json() for choice in self.pods],
            "moves": [move.as_json(self.at) for move in self.moves],
            "qos": {"before": self.qos_before, "after": self.qos_after},
            "proven": self.proven,
        }

    def concerns(self, name: str) -> bool:
        """Whether it is about a pod of that name, or namespace and name."""
        return any(called(pod, name) for _, pod in self.about())

    def about(self) -> Iterator[tuple[str, str]]:
        """The pods it is about, replacements included."""
        for choice in self.pods:
            yield choice.uid, choice.pod
        for move in self.moves:
            yield move.uid, move.pod
            if move.replacement:
                yield move.replacement_uid, move.replacement


def planned(id_: str, move: Move, *, source: NodeName, target: NodeName) -> MoveChoice:
    """A move that is going to be carried out, or a leg of it."""
    return attrs.evolve(proposed(move), id=id_, source=source, target=target, outcome="planned")


def proposed(move: Move) -> MoveChoice:
    """A move that is only proposed."""
    return MoveChoice(
        id="",
        uid=move.pod.uid,
        pod=str(move.pod),
        source=move.source,
        target=move.target,
        kind=move.kind.value,
        gain=move.gain,
        group=move.group,
        outcome="proposed",
    )


def called(pod: str, name: str) -> bool:
    """Whether the pod (namespace/name) goes by that name."""
    return name in (pod, pod.partition("/")[2])


def rfc3339(at: float) -> str:
    """The moment, given in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

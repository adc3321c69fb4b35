"""Events of a plan."""

import attrs


@attrs.frozen(slots=True)
class Begun:
    """The plan may start."""


@attrs.frozen(slots=True)
class PodSeen:
    """An observation of a pod."""

    pod: str
    #: node of the binding; empty for a pending pod
    node: str = ""
    ready: bool = False
    terminating: bool = False
    #: detached from the ReplicaSet by a migration
    detached: bool = False
    #: live read for an overdue step: anything unobserved now is considered as failed
    live: bool = False


@attrs.frozen(slots=True)
class PodGone:
    pod: str


@attrs.frozen(slots=True)
class MoveAccepted:
    """The migration passed the live check, and target capacity is reserved."""

    move: str
    #: seconds of continuous readiness of the replacement before the eviction
    settle: float = 0.0
    #: termination grace period of the old pod in seconds, added to deadlines
    grace: float = 0.0


@attrs.frozen(slots=True)
class ReplacementClaimed:
    """The owner created a replacement, assigned to the migration by the mirror."""

    move: str
    pod: str


@attrs.frozen(slots=True)
class CallRefused:
    """The call was certainly not applied, and will not be."""

    step: int
    reason: str


@attrs.frozen(slots=True)
class OutcomeLost:
    """The outcome of the call is unknown: verification starts before the deadline."""

    step: int
    #: error of the call, if any
    reason: str = ""


@attrs.frozen(slots=True)
class TimePassed:
    """Some deadline may be over."""


@attrs.frozen(slots=True)
class Cancelled:
    """Start no further migrations; migrations in progress continue."""

    reason: str


@attrs.frozen(slots=True)
class Abandoned:
    """An internal error prevents the plan: all steps end, or only the given step."""

    reason: str
    step: int | None = None


PlanEvent = (
    Begun
    | PodSeen
    | PodGone
    | MoveAccepted
    | ReplacementClaimed
    | CallRefused
    | OutcomeLost
    | TimePassed
    | Cancelled
    | Abandoned
)

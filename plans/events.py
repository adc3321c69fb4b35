"""What a plan can be told."""

import attrs


@attrs.frozen(slots=True)
class Begun:
    """The plan may start."""


@attrs.frozen(slots=True)
class PodSeen:
    """A pod as it was observed."""

    pod: str
    #: the node it is bound to; empty if none
    node: str = ""
    ready: bool = False
    terminating: bool = False
    #: taken from its owner by a migration
    detached: bool = False
    #: read just now, after a step was overdue: what is not so yet has not happened in time
    live: bool = False


@attrs.frozen(slots=True)
class PodGone:
    pod: str


@attrs.frozen(slots=True)
class MoveAccepted:
    """The move was checked once more, and what it needs is held for it."""

    move: str
    #: seconds that the replacement must stay Ready before the old pod goes
    settle: float = 0.0
    #: seconds that the old pod may take to go, on top of the deadline
    grace: float = 0.0


@attrs.frozen(slots=True)
class ReplacementClaimed:
    """The owner made a pod, and the move it belongs to is this one."""

    move: str
    pod: str


@attrs.frozen(slots=True)
class CallRefused:
    """The call was not applied, for sure, and will not be."""

    step: int
    reason: str


@attrs.frozen(slots=True)
class OutcomeLost:
    """It is not known whether the call was applied: do not wait for the deadline to find out."""

    step: int
    #: what was answered, if anything
    reason: str = ""


@attrs.frozen(slots=True)
class TimePassed:
    """Look at the deadlines."""


@attrs.frozen(slots=True)
class Cancelled:
    """Start no move any more; what has begun is finished."""

    reason: str


@attrs.frozen(slots=True)
class Abandoned:
    """Carrying the plan out has failed: end it, or that one step, whatever it has come to."""

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

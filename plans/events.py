"""Events of a plan."""

import attrs


@attrs.frozen(slots=True)
class Begun:
    """The plan may start."""


@attrs.frozen(slots=True)
class PodSeen:
    """An observation of a pod."""

    pod: str
    #: the node it is bound to; empty if none
    node: str = ""
    ready: bool = False
    terminating: bool = False
    #: detached from its owner by a migration
    detached: bool = False
    #: live read for an overdue step: what is not observed now has not happened in time
    live: bool = False


@attrs.frozen(slots=True)
class PodGone:
    pod: str


@attrs.frozen(slots=True)
class MoveAccepted:
    """The migration passed the live check, and its capacity is reserved."""

    move: str
    #: seconds for which the replacement must stay Ready before the eviction
    settle: float = 0.0
    #: termination grace period of the old pod in seconds, added to deadlines
    grace: float = 0.0


@attrs.frozen(slots=True)
class ReplacementClaimed:
    """The owner created a pod, and the mirror assigned it to this migration."""

    move: str
    pod: str


@attrs.frozen(slots=True)
class CallRefused:
    """The call was certainly not applied, and will not be."""

    step: int
    reason: str


@attrs.frozen(slots=True)
class OutcomeLost:
    """The call may have been applied: verify the step before its deadline."""

    step: int
    #: error of the call, if any
    reason: str = ""


@attrs.frozen(slots=True)
class TimePassed:
    """Some deadline may be over."""


@attrs.frozen(slots=True)
class Cancelled:
    """Start no more migrations; finish those that have begun."""

    reason: str


@attrs.frozen(slots=True)
class Abandoned:
    """A bug prevents the plan: end all its steps, or the given one."""

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

"""Events of a bind or migration plan: inputs of the transition function `advance`."""

import msgspec


class Begun(msgspec.Struct, frozen=True, gc=False):
    """Event: the first steps of the plan may start."""


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """Event: a pod was observed in some state, by watch or live read."""

    pod: str
    #: node of the binding; empty for a pending pod
    node: str = ""
    ready: bool = False
    terminating: bool = False
    #: detached from the ReplicaSet by a migration
    detached: bool = False
    #: live read for an overdue step: anything unobserved now is considered as failed
    live: bool = False
    #: no container runs any more, as of a pod that the kubelet rejected or evicted
    ended: bool = False


class VolumesSeen(msgspec.Struct, frozen=True, gc=False):
    """Event: the volume claims of a pod were observed, by watch or live read."""

    pod: str
    #: every claim is bound
    bound: bool = False
    #: no unbound claim names the plan's node
    released: bool = False
    #: reason why the claims cannot be bound for the plan's node any more
    obstacle: str = ""
    #: live read for an overdue step
    live: bool = False


class PodGone(msgspec.Struct, frozen=True, gc=False):
    pod: str


class MoveAccepted(msgspec.Struct, frozen=True, gc=False):
    """Event: a migration passed the check of live objects, and target capacity is reserved."""

    move: str
    #: seconds of continuous readiness of the replacement before the eviction
    settle: float = 0.0
    #: termination grace period of the old pod in seconds, added to deadlines
    grace: float = 0.0
    #: seconds within which the replacement should be Ready, if more than the migration's deadline
    ready_within: float = 0.0


class ReplacementClaimed(msgspec.Struct, frozen=True, gc=False):
    """Event: the owner (ReplicaSet) created a replacement pod, now assigned to the migration."""

    move: str
    pod: str


class CallRefused(msgspec.Struct, frozen=True, gc=False):
    """Event: the API server refused the call of a plan step, which is certainly not applied."""

    step: int
    reason: str


class OutcomeLost(msgspec.Struct, frozen=True, gc=False):
    """Event: the outcome of a step's API call is unknown, and verification begins immediately."""

    step: int
    #: error of the call, if any
    reason: str = ""


class TimePassed(msgspec.Struct, frozen=True, gc=False):
    """Event: the clock advanced, so step deadlines may have expired."""


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """Event: the plan must start no further migrations; its migrations in progress continue."""

    reason: str


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """Event: an internal error ends all steps of the plan, or only the given step."""

    reason: str
    step: int | None = None


PlanEvent = (
    Begun
    | PodSeen
    | VolumesSeen
    | PodGone
    | MoveAccepted
    | ReplacementClaimed
    | CallRefused
    | OutcomeLost
    | TimePassed
    | Cancelled
    | Abandoned
)

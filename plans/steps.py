"""Bind and migration plans and their steps as immutable values, and the transition table of step
states.

The rules:

1. A step is *asked* after completion of all predecessors; asking yields an effect.
2. A step is *done* after confirmation by an observation. An API response alone is no confirmation.
3. A refusal, or a contradicting observation, fails the step immediately.
4. After the deadline the state of a step is unknown. Repeated live reads *verify* the step, and
   reservations remain until confirmation or refutation. After `GIVEN_UP` seconds without a result
   the step fails. No plan lasts for ever.
5. A failed step cancels all successors. An asked step cannot be cancelled.
6. A step *rescuing* others is asked after the loss of a rescued step, otherwise cancelled.
"""

import enum

import msgspec

#: seconds of verification at most, and between two reads
GIVEN_UP, REREAD = 600.0, 60.0


class StepKind(enum.StrEnum):
    #: check the migration live, reserve target capacity, and claim the replacement
    START = "start"
    #: detach the pod; the ReplicaSet creates a replacement
    DETACH = "detach"
    AWAIT_REPLACEMENT = "await-replacement"
    #: have the pod's volume claims bound to volumes that the node reaches
    BIND_VOLUMES = "bind-volumes"
    BIND = "bind"
    AWAIT_READY = "await-ready"
    #: stay Ready until clients use the replacement
    SETTLE = "settle"
    EVICT = "evict"
    AWAIT_GONE = "await-gone"
    #: reattach a detached pod, or evict the pod if the owner has enough pods
    RESTORE = "restore"
    #: withdraw the node from claims still unbound
    RELEASE_VOLUMES = "release-volumes"


class StepState(enum.StrEnum):
    WAITING = "waiting"
    ASKED = "asked"
    VERIFYING = "verifying"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Trigger(enum.StrEnum):
    START = "start"
    PROVE = "prove"
    CONTRADICT = "contradict"
    REFUSE = "refuse"
    DISPROVE = "disprove"
    OVERDUE = "overdue"
    CANCEL = "cancel"
    ABANDON = "abandon"


TERMINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.CANCELLED})
LOST = frozenset({StepState.FAILED, StepState.CANCELLED})

#: All transitions. A pair without an entry changes nothing.
TRANSITIONS: dict[tuple[StepState, Trigger], StepState] = {
    (StepState.WAITING, Trigger.START): StepState.ASKED,
    (StepState.WAITING, Trigger.PROVE): StepState.DONE,
    (StepState.WAITING, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.WAITING, Trigger.CANCEL): StepState.CANCELLED,
    (StepState.WAITING, Trigger.ABANDON): StepState.CANCELLED,
    (StepState.ASKED, Trigger.PROVE): StepState.DONE,
    (StepState.ASKED, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.ASKED, Trigger.REFUSE): StepState.FAILED,
    (StepState.ASKED, Trigger.OVERDUE): StepState.VERIFYING,
    (StepState.ASKED, Trigger.ABANDON): StepState.FAILED,
    (StepState.VERIFYING, Trigger.PROVE): StepState.DONE,
    (StepState.VERIFYING, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.VERIFYING, Trigger.DISPROVE): StepState.FAILED,
    (StepState.VERIFYING, Trigger.OVERDUE): StepState.VERIFYING,
    (StepState.VERIFYING, Trigger.ABANDON): StepState.FAILED,
}


class Step(msgspec.Struct, frozen=True, gc=False):
    """Step of a plan; a Struct, because each transition of each bind makes another."""

    id: int
    kind: StepKind
    #: uid; empty while the replacement does not exist
    pod: str
    #: target node; empty for steps without a target
    node: str
    #: seconds from asking, or from verifying, until the step is overdue
    timeout: float
    #: ids of the predecessors
    after: frozenset[int] = frozenset()
    #: ids of rescued steps: their loss is compensated by the present step
    rescues: frozenset[int] = frozenset()
    #: migration of the step
    move: str = ""
    #: migration whose replacement sets `pod`
    replacement_of: str = ""
    state: StepState = StepState.WAITING
    #: None unless asked or verifying
    deadline: float | None = None
    #: begin of the verification; None unless verifying
    verified_since: float | None = None
    #: of a failure or cancellation
    reason: str = ""


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Steps of a single bind, or of a group of migrations executed together; a step's id is its
    position.
    """

    id: str
    steps: tuple[Step, ...]

    @property
    def finished(self) -> bool:
        return all(step.state in TERMINAL for step in self.steps)

    @property
    def restores_only(self) -> bool:
        """Return True if the plan only restores pods detached by interrupted migrations."""
        return all(step.kind is StepKind.RESTORE for step in self.steps)

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline of any step of the bind or migration plan, in monotonic
        seconds.
        """
        return min((s.deadline for s in self.steps if s.deadline is not None), default=None)

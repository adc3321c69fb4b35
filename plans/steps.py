"""Plans and steps as values, and their transition table.

The rules:

1. A step is *asked* once all its predecessors are done; asking yields an effect.
2. A step is *done* when an observation proves it. The response to its call is no proof.
3. A refusal, or an observation that contradicts the step, fails the step at once.
4. Past its deadline the state of a step is unknown: it is *verified* by repeated live reads, and
   keeps its reservations until a read proves or disproves it. After `GIVEN_UP` seconds without a
   result the step fails. No plan lasts for ever.
5. A step that fails cancels its successors. A step that is asked cannot be cancelled.
6. A step that *rescues* others is asked when one of them is lost, and cancelled when none is.
"""

import enum

import attrs

#: seconds of verification at most, and between two reads
GIVEN_UP, REREAD = 600.0, 60.0


class StepKind(enum.StrEnum):
    #: check the migration live, reserve its capacity, and claim its replacement
    START = "start"
    #: detach the pod from its owner, which creates a replacement
    DETACH = "detach"
    AWAIT_REPLACEMENT = "await-replacement"
    BIND = "bind"
    AWAIT_READY = "await-ready"
    #: stay Ready until clients use the replacement
    SETTLE = "settle"
    EVICT = "evict"
    AWAIT_GONE = "await-gone"
    #: reattach a detached pod to its owner, or evict it if the owner has enough pods
    RESTORE = "restore"


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


def state_diagram() -> str:
    """Return the transition table as a Mermaid state diagram, for the documentation."""
    edges: dict[tuple[StepState, StepState], list[str]] = {}
    for (state, trigger), after in TRANSITIONS.items():
        edges.setdefault((state, after), []).append(trigger)
    lines = ["stateDiagram-v2", f"    [*] --> {StepState.WAITING}"]
    lines += [f"    {a} --> {b}: {' / '.join(triggers)}" for (a, b), triggers in edges.items()]
    lines += [f"    {state} --> [*]" for state in StepState if state in TERMINAL]
    return "\n".join(lines) + "\n"


@attrs.frozen(slots=True)
class Step:
    id: int
    kind: StepKind
    #: uid; empty while the replacement does not exist
    pod: str
    #: target node; empty where it does not matter
    node: str
    #: seconds from asking, or from verifying, until the step is overdue
    timeout: float
    #: ids of the predecessors
    after: frozenset[int] = frozenset()
    #: ids of the steps whose loss this step makes good
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


@attrs.frozen(slots=True)
class Plan:
    """Steps of one bind, or of a group of migrations; the position of a step is its id."""

    id: str
    steps: tuple[Step, ...]

    @property
    def finished(self) -> bool:
        return all(step.state in TERMINAL for step in self.steps)

    @property
    def restores_only(self) -> bool:
        """Return whether the plan only restores orphans."""
        return all(step.kind is StepKind.RESTORE for step in self.steps)

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest time at which `TimePassed` has an effect."""
        return min((s.deadline for s in self.steps if s.deadline is not None), default=None)

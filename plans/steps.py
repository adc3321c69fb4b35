"""Plans and steps as data, and what happens to them.

The rules:

1. A step is *asked* once everything it comes after is done; asking yields an effect.
2. A step is *done* when an observation proves it. The reply to its call is no proof.
3. A refusal, or an observation that contradicts the step, fails it at once.
4. Past its deadline nobody knows: the step is *verified* by a live read, as often as it takes,
   and what it holds stays held until the answer is there.
5. A step that fails takes those that come after it with it; a step that is asked cannot be
   cancelled, only answered.
"""

import enum

import attrs


class StepKind(enum.StrEnum):
    BIND = "bind"


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


TERMINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.CANCELLED})

#: Every transition there is. A pair that is not here changes nothing.
TRANSITIONS: dict[tuple[StepState, Trigger], StepState] = {
    (StepState.WAITING, Trigger.START): StepState.ASKED,
    (StepState.WAITING, Trigger.PROVE): StepState.DONE,
    (StepState.WAITING, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.WAITING, Trigger.CANCEL): StepState.CANCELLED,
    (StepState.ASKED, Trigger.PROVE): StepState.DONE,
    (StepState.ASKED, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.ASKED, Trigger.REFUSE): StepState.FAILED,
    (StepState.ASKED, Trigger.OVERDUE): StepState.VERIFYING,
    (StepState.VERIFYING, Trigger.PROVE): StepState.DONE,
    (StepState.VERIFYING, Trigger.CONTRADICT): StepState.FAILED,
    (StepState.VERIFYING, Trigger.DISPROVE): StepState.FAILED,
    (StepState.VERIFYING, Trigger.OVERDUE): StepState.VERIFYING,
}


@attrs.frozen(slots=True)
class Step:
    id: int
    kind: StepKind
    #: uid of the pod it is about
    pod: str
    #: name of the node the pod is to be on
    node: str
    #: seconds from asking, or from verifying, until the step is overdue
    timeout: float
    #: ids of the steps that must be done before this one is asked
    after: frozenset[int] = frozenset()
    state: StepState = StepState.WAITING
    #: on the plan's clock; None unless asked or verifying
    deadline: float | None = None
    #: why it failed or was cancelled
    reason: str = ""


@attrs.frozen(slots=True)
class Plan:
    id: str
    steps: tuple[Step, ...]

    @property
    def finished(self) -> bool:
        return all(step.state in TERMINAL for step in self.steps)

    @property
    def next_deadline(self) -> float | None:
        """The earliest moment at which `TimePassed` would change something."""
        return min((s.deadline for s in self.steps if s.deadline is not None), default=None)


@attrs.frozen(slots=True)
class Begun:
    """The plan may start."""


@attrs.frozen(slots=True)
class PodOnNode:
    """Observed: the pod is bound to that node."""

    pod: str
    node: str


@attrs.frozen(slots=True)
class PodUnbound:
    """Read live, after the step was overdue: the pod is there, and on no node."""

    pod: str


@attrs.frozen(slots=True)
class PodGone:
    """Observed: the pod is deleted, or about to be before it was ever bound."""

    pod: str


@attrs.frozen(slots=True)
class CallRefused:
    """The call was not applied, for sure."""

    step: int
    reason: str


@attrs.frozen(slots=True)
class OutcomeLost:
    """Nobody knows whether the call was applied: do not wait for the deadline to find out."""

    step: int


@attrs.frozen(slots=True)
class TimePassed:
    """Look at the deadlines."""


@attrs.frozen(slots=True)
class Cancelled:
    """Start nothing more."""

    reason: str


PlanEvent = (
    Begun | PodOnNode | PodUnbound | PodGone | CallRefused | OutcomeLost | TimePassed | Cancelled
)


@attrs.frozen(slots=True)
class BindPod:
    """Ask for the pod to be bound to the node."""

    step: int
    pod: str
    node: str


@attrs.frozen(slots=True)
class ReadPod:
    """Ask where the pod is, live."""

    pod: str


@attrs.frozen(slots=True)
class Settle:
    """The step is over: give back what it held, and say how it ended."""

    step: Step


Effect = BindPod | ReadPod | Settle

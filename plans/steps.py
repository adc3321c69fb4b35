"""Plans and steps as data, and what happens to them.

The rules:

1. A step is *asked* once everything it comes after is done; asking yields an effect.
2. A step is *done* when an observation proves it. The reply to its call is no proof.
3. A refusal, or an observation that contradicts the step, fails it at once.
4. Past its deadline it is not known: the step is *verified* by a live read, again and again, and
   what it holds stays held until the answer is there; after `GIVEN_UP` seconds without one it
   fails. No plan lasts for ever.
5. A step that fails takes those that come after it with it; a step that is asked cannot be
   cancelled, only answered.
6. A step that *rescues* others is asked when one of them is lost, and not needed when none is.
"""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

#: seconds that a step is verified for at most, and from one read to the next
GIVEN_UP, REREAD = 600.0, 60.0


class StepKind(enum.StrEnum):
    #: check the move once more, live; hold its room; claim its replacement
    START = "start"
    #: take the pod from its owner, which makes a replacement
    DETACH = "detach"
    AWAIT_REPLACEMENT = "await-replacement"
    BIND = "bind"
    AWAIT_READY = "await-ready"
    #: stay Ready for a while, so that clients have found the replacement
    SETTLE = "settle"
    EVICT = "evict"
    AWAIT_GONE = "await-gone"
    #: give a detached pod back to its owner, or evict it if the owner has no use for it
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

#: Every transition there is. A pair that is not here changes nothing.
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


@attrs.frozen(slots=True)
class Step:
    id: int
    kind: StepKind
    #: uid of the pod it is about; empty while the replacement is not there
    pod: str
    #: name of the node the pod is to be on; empty where that does not matter
    node: str
    #: seconds from asking, or from verifying, until the step is overdue
    timeout: float
    #: ids of the steps that must be done before this one is asked
    after: frozenset[int] = frozenset()
    #: ids of the steps whose loss this one makes good
    rescues: frozenset[int] = frozenset()
    #: the move it belongs to
    move: str = ""
    #: the move whose replacement it is about, which sets `pod`
    replacement_of: str = ""
    state: StepState = StepState.WAITING
    #: on the plan's clock; None unless asked or verifying
    deadline: float | None = None
    #: since when it is verified, on the plan's clock; None unless it is
    verified_since: float | None = None
    #: why it failed or was cancelled
    reason: str = ""

    def become(
        self, state: StepState, deadline: float | None, verified_since: float | None, reason: str
    ) -> "Step":
        """The same in that state; `attrs.evolve` reads all fields anew: it takes thrice as long."""
        return Step(
            self.id,
            self.kind,
            self.pod,
            self.node,
            self.timeout,
            self.after,
            self.rescues,
            self.move,
            self.replacement_of,
            state,
            deadline,
            verified_since,
            reason,
        )


@attrs.frozen(slots=True)
class Plan:
    """Steps; the one with the id n is the nth. Each is looked up, however many there are."""

    id: str
    steps: tuple[Step, ...]
    _about: Mapping[str, Sequence[int]] = attrs.field(eq=False, repr=False)
    #: how many of the steps wait for others, and how many are not over
    waiting: int = attrs.field(eq=False, repr=False)
    unfinished: int = attrs.field(eq=False, repr=False)

    @_about.default
    def _by_pod(self) -> Mapping[str, Sequence[int]]:
        about = defaultdict[str, list[int]](list)
        for step in self.steps:
            about[step.pod].append(step.id)
        return dict(about)

    @waiting.default
    def _waiting(self) -> int:
        return sum(step.state is StepState.WAITING for step in self.steps)

    @unfinished.default
    def _unfinished(self) -> int:
        return sum(step.state not in TERMINAL for step in self.steps)

    @property
    def finished(self) -> bool:
        return not self.unfinished

    @property
    def restores_only(self) -> bool:
        """Whether it sees to nothing but what an earlier plan left."""
        return all(step.kind is StepKind.RESTORE for step in self.steps)

    @property
    def next_deadline(self) -> float | None:
        """The earliest moment at which `TimePassed` would change something."""
        return min((s.deadline for s in self.steps if s.deadline is not None), default=None)

    def about(self, pod: str) -> list[Step]:
        """The steps that are about the pod."""
        return [self.steps[number] for number in self._about.get(pod, ())]

    def having(self, changed: Mapping[int, Step]) -> "Plan":
        """The same with those steps, about the same pods, as they are now."""
        steps, waiting, unfinished = list(self.steps), self.waiting, self.unfinished
        for number, step in changed.items():
            before = steps[number].state
            waiting += (step.state is StepState.WAITING) - (before is StepState.WAITING)
            unfinished += (step.state not in TERMINAL) - (before not in TERMINAL)
            steps[number] = step
        return Plan(self.id, tuple(steps), self._about, waiting, unfinished)

"""A plan under way, and the story of what it was told."""

from collections import deque

import attrs

from plans.events import PlanEvent
from plans.steps import Plan, Step, StepState

#: of a plan, so many events are remembered
STORY = 200
#: Seconds without the end of a step after which a plan counts as slow, and seconds after which it
#: does in any case. While a plan is quick, suggestions wait for it: then they see all of the
#: cluster, and make fewer migrations.
STALLED, LONGEST = 3.0, 20.0


@attrs.define(slots=True)
class Running:
    """A plan under way."""

    plan: Plan
    #: on the clock
    begun: float
    #: when a step of it ended last, on the clock
    progressed: float = attrs.field()
    #: what the plan was told, when, and which steps that changed
    story: deque[tuple[float, PlanEvent, tuple[Step, ...]]] = attrs.field(
        factory=lambda: deque(maxlen=STORY)
    )

    @progressed.default
    def _not_yet(self) -> float:
        return self.begun

    def is_slow(self, now: float) -> bool:
        """Whether the plan waits for something slow, and others are not to wait for the plan."""
        return now - self.progressed >= STALLED or now - self.begun >= LONGEST

    def waits(self, number: int, state: StepState) -> bool:
        """Whether that step of it is in that state."""
        return self.plan.steps[number].state is state

    def __str__(self) -> str:
        lines = [f"{self.plan.id}, begun at {self.begun:.3f}"]
        for at, event, effects in self.story:
            came = ", ".join(f"{step.id} {step.kind} {step.state}" for step in effects)
            lines.append(f"  {at:.3f} {event} -> {came or 'nothing'}")
        return "\n".join(lines)

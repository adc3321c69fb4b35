"""A plan under way, and the story of what it was told."""

from collections import deque

import attrs

from plans.events import PlanEvent
from plans.steps import Plan, Step, StepState

#: of a plan, so many events are remembered
STORY = 200


@attrs.define(slots=True)
class Running:
    """A plan under way."""

    plan: Plan
    #: on the clock
    begun: float
    #: what the plan was told, when, and which steps that changed
    story: deque[tuple[float, PlanEvent, tuple[Step, ...]]] = attrs.field(
        factory=lambda: deque(maxlen=STORY)
    )

    def waits(self, number: int, state: StepState) -> bool:
        """Whether that step of it is in that state."""
        return self.plan.steps[number].state is state

    def __str__(self) -> str:
        lines = [f"{self.plan.id}, begun at {self.begun:.3f}"]
        for at, event, effects in self.story:
            came = ", ".join(f"{step.id} {step.kind} {step.state}" for step in effects)
            lines.append(f"  {at:.3f} {event} -> {came or 'nothing'}")
        return "\n".join(lines)

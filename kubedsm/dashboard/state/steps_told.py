"""The steps of a move in words: what goes on, and what was done."""

from typing import NamedTuple

from plans.steps import Step, StepKind, StepState

_UNDER_WAY = {
    StepKind.START: "waiting for its turn",
    StepKind.DETACH: "taking {pod} from its owner",
    StepKind.AWAIT_REPLACEMENT: "waiting for its owner to make another pod",
    StepKind.BIND: "binding {replacement} to {target}",
    StepKind.AWAIT_READY: "waiting for {replacement} to be Ready",
    StepKind.SETTLE: "waiting until {replacement} has stayed Ready for a while",
    StepKind.EVICT: "evicting {pod}",
    StepKind.AWAIT_GONE: "waiting for {pod} to be gone",
    StepKind.RESTORE: "giving {pod} back to its owner",
}
_DONE = {
    StepKind.START: "its turn came, and {target} has room held for it",
    StepKind.DETACH: "{pod} was taken from its owner",
    StepKind.AWAIT_REPLACEMENT: "its owner made {replacement}",
    StepKind.BIND: "{replacement} was bound to {target}",
    StepKind.AWAIT_READY: "{replacement} was Ready",
    StepKind.SETTLE: "{replacement} had stayed Ready",
    StepKind.EVICT: "{pod} was evicted",
    StepKind.AWAIT_GONE: "{pod} was gone",
    StepKind.RESTORE: "{pod} was given back to its owner",
}


class Names(NamedTuple):
    """What the steps of a move are about."""

    pod: str
    replacement: str
    target: str


def under_way(step: Step, names: Names) -> str:
    """What goes on."""
    said = _UNDER_WAY[step.kind].format(**names._asdict())
    return f"{said}, which is overdue" if step.state is StepState.VERIFYING else said


def over(step: Step, names: Names) -> str:
    """How a step ended that was done, or failed."""
    if step.state is StepState.DONE:
        return _DONE[step.kind].format(**names._asdict())
    return f"{_UNDER_WAY[step.kind].format(**names._asdict())} failed: {step.reason}"

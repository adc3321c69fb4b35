"""The transition table as a Mermaid state diagram, for the documentation."""

from plans.steps import TERMINAL, TRANSITIONS, StepState


def state_diagram() -> str:
    edges: dict[tuple[StepState, StepState], list[str]] = {}
    for (state, trigger), after in TRANSITIONS.items():
        edges.setdefault((state, after), []).append(trigger)
    lines = ["stateDiagram-v2", f"    [*] --> {StepState.WAITING}"]
    lines += [f"    {a} --> {b}: {' / '.join(triggers)}" for (a, b), triggers in edges.items()]
    lines += [f"    {state} --> [*]" for state in StepState if state in TERMINAL]
    return "\n".join(lines) + "\n"

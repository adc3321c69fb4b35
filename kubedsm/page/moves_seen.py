"""What is seen of moves: those under way with the step that is waited for, and the last ones."""

from collections.abc import Iterator

from kubedsm.page.rows import MoveRow, MoveState
from kubedsm.runtime.assembly import Runtime
from kubedsm.why.entries import Entry, MoveOutcome, Outcome
from plans.steps import TERMINAL, Step, StepKind, StepState

#: moves that are over, of which rows are kept
LAST = 50

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


def moves_seen(runtime: Runtime) -> Iterator[tuple[str, MoveRow]]:
    """Of the last decisions, newest first."""
    steps = runtime.manager.steps_of_moves()
    over = 0
    for entry in runtime.decisions.record.newest_first():
        for move in entry.moves:
            own = steps.get(move.id, ())
            if not own:
                over += 1
            if own or over <= LAST:
                yield key_of(move), _row(entry, move, own)


def key_of(move: MoveOutcome) -> str:
    """Of its row."""
    return move.id or f"proposed/{move.move.pod}"


def _row(entry: Entry, outcome: MoveOutcome, steps: tuple[Step, ...]) -> MoveRow:
    move, replacement = outcome.move, outcome.replacement
    current = next((s for s in steps if s.state in (StepState.ASKED, StepState.VERIFYING)), None)
    names = {
        "pod": str(move.pod),
        "replacement": "the new pod" if replacement is None else str(replacement),
        "target": move.target,
    }
    begun = current is not None and current.kind is not StepKind.START
    return MoveRow(
        pod=str(move.pod),
        workload=str(move.pod.workload),
        source=move.source or "",
        target=move.target,
        kind=move.kind.value if move.kind else "",
        purpose=move.purpose,
        state=_state(outcome, begun=begun),
        at=entry.at,
        decision=entry.number,
        gain=round(move.gain, 6),
        step="" if current is None else _UNDER_WAY[current.kind].format(**names),
        done=sum(step.state in TERMINAL for step in steps if step.kind is not StepKind.RESTORE),
        steps=sum(step.kind is not StepKind.RESTORE for step in steps),
        reason=outcome.reason,
        replacement="" if replacement is None else str(replacement),
        helped=str(outcome.effect) if outcome.effect else "",
    )


def _state(outcome: MoveOutcome, *, begun: bool) -> MoveState:
    if begun and outcome.outcome is Outcome.PLANNED:
        return "moving"
    return outcome.outcome.value

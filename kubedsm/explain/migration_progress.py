"""Progress of a migration: steps, request and completion times, and descriptions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import attrs

from kubedsm.model.model import Pod, Uid
from plans.steps import TERMINAL, Step, StepKind, StepState

_IN_PROGRESS = {
    StepKind.START: "waiting for its turn",
    StepKind.DETACH: "detaching {pod} from its owner",
    StepKind.AWAIT_REPLACEMENT: "waiting for the owner to create another pod",
    StepKind.BIND: "binding {replacement} to {target}",
    StepKind.AWAIT_READY: "waiting for {replacement} to be Ready",
    StepKind.SETTLE: "waiting until {replacement} has stayed Ready for a while",
    StepKind.EVICT: "evicting {pod}",
    StepKind.AWAIT_GONE: "waiting for {pod} to be gone",
    StepKind.RESTORE: "restoring {pod} to its owner",
}
_DONE = {
    StepKind.START: "its turn came, and capacity is reserved on {target}",
    StepKind.DETACH: "{pod} was detached from its owner",
    StepKind.AWAIT_REPLACEMENT: "the owner created {replacement}",
    StepKind.BIND: "{replacement} was bound to {target}",
    StepKind.AWAIT_READY: "{replacement} was Ready",
    StepKind.SETTLE: "{replacement} had stayed Ready",
    StepKind.EVICT: "{pod} was evicted",
    StepKind.AWAIT_GONE: "{pod} was gone",
    StepKind.RESTORE: "{pod} was restored to its owner",
}


class Names(NamedTuple):
    """Names of pods and nodes in descriptions of migration steps."""

    pod: str
    replacement: str
    target: str


@attrs.define
class Progress:
    """Progress of a migration: its steps, with request and completion times.

    Times are seconds since the epoch, 0 for unfinished steps.
    """

    steps: Sequence[Step] = ()
    #: request time of each step; finished and failed steps with completion times
    requested: dict[int, float] = attrs.field(factory=dict)
    over: list[tuple[float, Step]] = attrs.field(factory=list)
    began: float = 0.0
    ended: float = 0.0
    #: names of the pods, once known
    pod: str = ""
    replacement: str = ""

    def observe(self, step: Step, now: float) -> None:
        """Record that a migration step was requested or has finished."""
        if step.state is StepState.ASKED:
            self.requested[step.id] = now
        elif step.state in (StepState.DONE, StepState.FAILED):
            self.over.append((now, step))
            if step.kind is StepKind.START and step.state is StepState.DONE:
                self.began = now

    @property
    def current(self) -> Step | None:
        """Migration step in progress, if any."""
        states = (StepState.ASKED, StepState.VERIFYING)
        return next((step for step in self.steps if step.state in states), None)

    @property
    def in_progress(self) -> bool:
        return any(step.state not in TERMINAL for step in self.steps)

    def name_pods(self, migration: str, pods: Mapping[Uid, Pod]) -> None:
        """Store the names of the pods that the migration's steps are about."""
        for step in self.steps:
            pod = pods.get(Uid(step.pod))
            if pod is not None and step.replacement_of == migration:
                self.replacement = str(pod)
            elif pod is not None:
                self.pod = str(pod)

    def count_steps(self) -> tuple[int, int]:
        """Return the numbers of finished and of all migration steps, excluding rollback steps."""
        steps = [step for step in self.steps if step.kind is not StepKind.RESTORE]
        return sum(step.state in TERMINAL for step in steps), len(steps)

    def describe_current(self, names: Names) -> tuple[str, float]:
        """Return the description and the request time of the migration step in progress."""
        step = self.current
        if step is None:
            return "", 0.0
        words = _IN_PROGRESS[step.kind].format(**names._asdict())
        overdue = ", which is overdue" if step.state is StepState.VERIFYING else ""
        return words + overdue, self.requested.get(step.id, 0.0)

    def describe_steps(self, names: Names) -> Iterator[tuple[float, str]]:
        """Yield completion time and description of the finished migration steps, oldest first."""
        for at, step in self.over:
            if step.state is StepState.DONE:
                yield at, _DONE[step.kind].format(**names._asdict())
            else:
                words = _IN_PROGRESS[step.kind].format(**names._asdict())
                yield at, f"{words} failed: {step.reason}"

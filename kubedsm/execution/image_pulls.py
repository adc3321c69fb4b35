"""Image pulls of migrations: expected time on the target node, and the speed observed there."""

import attrs

from kubedsm.events.controller import Controller
from kubedsm.execution.migration_calls import LONGEST_START, SLACK
from kubedsm.model.images import LEAST_OBSERVED, estimate_pull, list_missing
from kubedsm.model.model import NodeName, Pod
from plans.steps import Step, StepKind, StepState


@attrs.define(eq=False, repr=False)
class ImagePulls(Controller):
    """Missing images of migrations in progress."""

    #: bytes that each migration's replacement pulls, and the time of its bind
    _sizes: dict[str, int] = attrs.field(factory=dict, init=False)
    _bound: dict[str, float] = attrs.field(factory=dict, init=False)

    def extend_deadline(self, step: Step, pod: Pod, ready_within: float) -> float:
        """Return the seconds within which the replacement should be Ready, given those without a
        pull; 0 for the deadline of every migration.
        """
        size = self._count_missing(pod, NodeName(step.node))
        self._sizes[step.move] = size
        if not size:
            return ready_within
        pull = estimate_pull(size, NodeName(step.node), self.mirror.pull_speeds)
        usual = max(ready_within, self.configuration.current.migration.deadline)
        return min(usual + SLACK * pull, LONGEST_START)

    def _count_missing(self, pod: Pod, target: NodeName) -> int:
        """Return the bytes of the pod's images that the target lacks."""
        node = self.mirror.node(target)
        if node is None:
            return 0
        return sum(list_missing(pod, node, self.mirror.snapshot().index).values())

    def observe_step(self, step: Step) -> None:
        """Derive the speed of a pull from the time between a replacement's bind and readiness."""
        now, move = self.clock.monotonic(), step.move
        if step.kind is StepKind.BIND and step.state is StepState.DONE:
            self._bound[move] = now
        elif step.kind is StepKind.AWAIT_READY:
            size, bound = self._sizes.pop(move, 0), self._bound.pop(move, None)
            if step.state is StepState.DONE and bound is not None:
                self.observe(NodeName(step.node), size, now - bound)

    def observe(self, node: NodeName, size: int, seconds: float) -> None:
        """Record the speed of a pull; small images show little of it."""
        if size >= LEAST_OBSERVED and seconds > 0:
            self.mirror.pull_speeds = self.mirror.pull_speeds.set(node, size / seconds)

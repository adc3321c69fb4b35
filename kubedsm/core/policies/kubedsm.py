"""KubeDSM itself: exact batches, as much of every service at the edge as its promise asks for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from kubedsm.core.deadline import NO_DEADLINE, Deadline
from kubedsm.core.decision import Decision
from kubedsm.core.fragmentation import Measure
from kubedsm.core.immediate import immediate_schedule
from kubedsm.core.match import Bounds
from kubedsm.core.model import Pod, Snapshot
from kubedsm.core.movable import Movable
from kubedsm.core.objective import Objective, Promises
from kubedsm.core.suggest import SUGGEST_BOUNDS, suggest
from kubedsm.core.suggestion import Suggestion, SuggestLimits

if TYPE_CHECKING:
    import random


@attrs.frozen
class KubeDSM:
    promises: Promises
    objective: Objective
    limits: SuggestLimits = attrs.field(factory=SuggestLimits)
    algorithm: Literal["exact", "paper"] = "exact"
    measure: Measure = Measure.UNUSABLE

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",  # noqa: ARG002 - nothing is left to chance
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        return self.decide(snapshot, pods, deadline)

    def decide(
        self, snapshot: Snapshot, pods: Sequence[Pod], deadline: Deadline = NO_DEADLINE
    ) -> Decision:
        bounds = Bounds(deadline=deadline)
        return immediate_schedule(
            snapshot, pods, self.promises, self.objective, self.measure, bounds
        )

    def suggest(
        self, snapshot: Snapshot, movable: Movable, deadline: Deadline = NO_DEADLINE
    ) -> Suggestion:
        return suggest(
            snapshot,
            self.promises,
            self.objective,
            self.limits,
            algorithm=self.algorithm,
            measure=self.measure,
            bounds=attrs.evolve(SUGGEST_BOUNDS, deadline=deadline),
            movable=movable,
        )

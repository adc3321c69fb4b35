"""KubeDSM itself: exact batches, as much of every service at the edge as its promise asks for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from kubedsm.core.decision import Decision
from kubedsm.core.fragmentation import Measure
from kubedsm.core.immediate import immediate_schedule
from kubedsm.core.model import Pod, Snapshot
from kubedsm.core.movable import Movable
from kubedsm.core.objective import Objective, Promises
from kubedsm.core.suggest import suggest
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

    def place(self, snapshot: Snapshot, pods: Sequence[Pod], rng: "random.Random") -> Decision:  # noqa: ARG002 - nothing is left to chance
        return self.decide(snapshot, pods)

    def decide(self, snapshot: Snapshot, pods: Sequence[Pod]) -> Decision:
        return immediate_schedule(snapshot, pods, self.promises, self.objective, self.measure)

    def suggest(self, snapshot: Snapshot, movable: Movable) -> Suggestion:
        return suggest(
            snapshot,
            self.promises,
            self.objective,
            self.limits,
            algorithm=self.algorithm,
            measure=self.measure,
            movable=movable,
        )

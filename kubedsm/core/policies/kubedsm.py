"""KubeDSM itself: exact batches, as much of every service at the edge as its promise asks for."""

import random
from collections.abc import Sequence

import attrs

from kubedsm.core.decision import Decision
from kubedsm.core.immediate import immediate_schedule
from kubedsm.core.model import Pod, Snapshot
from kubedsm.core.objective import Objective, Promises


@attrs.frozen
class KubeDSM:
    promises: Promises
    objective: Objective

    def place(self, snapshot: Snapshot, pods: Sequence[Pod], rng: random.Random) -> Decision:  # noqa: ARG002 - nothing is left to chance
        return immediate_schedule(snapshot, pods, self.promises, self.objective)

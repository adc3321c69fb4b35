"""CloudFirst: the cloud, at random; the edge, at random, only for what the cloud cannot take."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from kubedsm.core.goals.objective import Objective, Promises
from kubedsm.core.placing.decision import Decision
from kubedsm.core.policies.in_turn import Room, of_tier, pick, place_in_turn
from kubedsm.core.world.deadline import NO_DEADLINE, Deadline
from kubedsm.core.world.model import Node, Pod, Snapshot, Tier

if TYPE_CHECKING:
    import random


@attrs.frozen
class CloudFirst:
    promises: Promises
    objective: Objective

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        def choose(_pod: Pod, fitting: Sequence[Node], _room: Room) -> Node:
            return pick(rng, of_tier(fitting, Tier.CLOUD) or fitting)

        return place_in_turn(snapshot, pods, choose, self.promises, self.objective, deadline)

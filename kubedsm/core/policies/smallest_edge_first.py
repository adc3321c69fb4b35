"""SmallestEdgeFirst: the edge node with the least room left; the cloud, at random, for the rest."""

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
class SmallestEdgeFirst:
    """Room is free cores, then free memory; of equal nodes the first by name."""

    promises: Promises
    objective: Objective

    def place(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        rng: "random.Random",
        deadline: Deadline = NO_DEADLINE,
    ) -> Decision:
        def choose(_pod: Pod, fitting: Sequence[Node], room: Room) -> Node:
            def least_room(node: Node) -> tuple[int, int, str]:
                free = room.free[node.name]
                return free.cpu, free.memory, node.name

            edge = of_tier(fitting, Tier.EDGE)
            return min(edge, key=least_room) if edge else pick(rng, fitting)

        return place_in_turn(snapshot, pods, choose, self.promises, self.objective, deadline)

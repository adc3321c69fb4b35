"""The policies of the Sencillo scheduler: each takes one of the nodes where the pod fits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubedsm.model.model import Node, Pod, Tier
from kubedsm_lab.baselines.in_turn import Room, of_tier, pick

if TYPE_CHECKING:
    import random


def biggest_edge_first(
    _pod: Pod, fitting: Sequence[Node], room: Room, rng: "random.Random"
) -> Node:
    """Select the feasible edge node with the largest free capacity; otherwise a random cloud node.

    Capacity compares free cores, then free memory; ties resolve alphabetically.
    """

    def most_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return -free.cpu, -free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=most_room) if edge else pick(rng, fitting)


def smallest_edge_first(
    _pod: Pod, fitting: Sequence[Node], room: Room, rng: "random.Random"
) -> Node:
    """Select the feasible edge node with the smallest free capacity; otherwise as
    `biggest_edge_first`.
    """

    def least_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return free.cpu, free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=least_room) if edge else pick(rng, fitting)


def cloud_first(_pod: Pod, fitting: Sequence[Node], _room: Room, rng: "random.Random") -> Node:
    """Select a random feasible cloud node; a random edge node only if the cloud is infeasible."""
    return pick(rng, of_tier(fitting, Tier.CLOUD) or fitting)


def random_node(_pod: Pod, fitting: Sequence[Node], _room: Room, rng: "random.Random") -> Node:
    """Select uniformly among the feasible nodes."""
    return pick(rng, fitting)

"""Baseline policies of the Sencillo scheduler: each chooses one of the feasible nodes of a pod."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubedsm.model.model import Node, Pod, Tier
from kubedsm_lab.baselines.in_turn import NodeUsage, of_tier, pick

if TYPE_CHECKING:
    import random


def biggest_edge_first(
    _pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: "random.Random"
) -> Node:
    """Choose the feasible edge node with the most free capacity, otherwise a random cloud node.

    Free cores are compared first, then free memory; ties are alphabetical.
    """

    def most_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return -free.cpu, -free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=most_room) if edge else pick(rng, fitting)


def smallest_edge_first(
    _pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: "random.Random"
) -> Node:
    """Choose the feasible edge node with the least free capacity, otherwise a random cloud node."""

    def least_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return free.cpu, free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=least_room) if edge else pick(rng, fitting)


def cloud_first(_pod: Pod, fitting: Sequence[Node], _room: NodeUsage, rng: "random.Random") -> Node:
    """Choose a random feasible cloud node, or a random feasible edge node if no cloud node is
    feasible.
    """
    return pick(rng, of_tier(fitting, Tier.CLOUD) or fitting)


def random_node(_pod: Pod, fitting: Sequence[Node], _room: NodeUsage, rng: "random.Random") -> Node:
    """Choose one of the pod's feasible nodes uniformly at random."""
    return pick(rng, fitting)

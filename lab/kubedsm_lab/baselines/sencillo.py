"""Baseline policies of the Sencillo scheduler: each chooses one of the feasible nodes of a pod."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubedsm.model.model import Node, Pod, Tier
from kubedsm_lab.baselines.in_turn import NodeUsage, of_tier, pick

if TYPE_CHECKING:
    import random


def edge_first(
    order: int, _pod: Pod, fitting: Sequence[Node], room: NodeUsage, rng: "random.Random"
) -> Node:
    """Choose the feasible edge node with the least free capacity if `order` is 1, with the most if
    it is -1; otherwise a random cloud node.

    Free cores are compared first, then free memory; ties are alphabetical.
    """

    def rank(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return order * free.cpu, order * free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=rank) if edge else pick(rng, fitting)


def cloud_first(_pod: Pod, fitting: Sequence[Node], _room: NodeUsage, rng: "random.Random") -> Node:
    """Choose a random feasible cloud node, or a random feasible edge node if no cloud node is
    feasible.
    """
    return pick(rng, of_tier(fitting, Tier.CLOUD) or fitting)


def random_node(_pod: Pod, fitting: Sequence[Node], _room: NodeUsage, rng: "random.Random") -> Node:
    """Choose one of the pod's feasible nodes uniformly at random."""
    return pick(rng, fitting)

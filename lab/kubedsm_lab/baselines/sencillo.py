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
    """The edge node with the most room left; the cloud, at random, for the rest.

    Room is free cores, then free memory; of equal nodes the first by name.
    """

    def most_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return -free.cpu, -free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=most_room) if edge else pick(rng, fitting)


def smallest_edge_first(
    _pod: Pod, fitting: Sequence[Node], room: Room, rng: "random.Random"
) -> Node:
    """The edge node with the least room left; else as `biggest_edge_first`."""

    def least_room(node: Node) -> tuple[int, int, str]:
        free = room.free[node.name]
        return free.cpu, free.memory, node.name

    edge = of_tier(fitting, Tier.EDGE)
    return min(edge, key=least_room) if edge else pick(rng, fitting)


def cloud_first(_pod: Pod, fitting: Sequence[Node], _room: Room, rng: "random.Random") -> Node:
    """The cloud, at random; the edge, at random, only for what the cloud cannot take."""
    return pick(rng, of_tier(fitting, Tier.CLOUD) or fitting)


def random_node(_pod: Pod, fitting: Sequence[Node], _room: Room, rng: "random.Random") -> Node:
    """Any node that takes the pod, each as likely."""
    return pick(rng, fitting)

"""Algorithm 8 as it is written: a DP over nodes and sets of pods, in plain Python.

O(N 3^n), for n pods on N nodes: the readable form that `core.packing.match` is measured against
and must agree with. Nothing here is shared with it but the model and the rules of `fit`.
"""

from collections.abc import Mapping, Sequence

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources
from kubedsm.objective.fragmentation import Fragmentation, Measure
from kubedsm_lab.bench.literal.fit import reasons


@attrs.frozen
class LiteralMatch:
    #: for every set of pods, as a bit mask, the least cost of placing exactly those; None: no way
    costs: list[int | None]
    #: (most pods, their least cost)
    optimum: tuple[int, int]
    targets: Mapping[Pod, NodeName]


def literal_fragmentation(fragmentation: Fragmentation, node: Node, free: Resources) -> int:
    """The cost of one node with that free room."""
    size = dict(node.allocatable.items())
    room = {name: max(0, min(amount, size.get(name, 0))) for name, amount in free.items()}
    if fragmentation.measure is Measure.PRODUCT:
        return _scaled(_product(size, room))
    pods = sum(count for _, count in fragmentation.mix)
    total = 0.0
    for vector, count in fragmentation.mix:
        asked = {name: amount for name, amount in vector.items() if amount}
        fitting = min((room.get(name, 0) // amount for name, amount in asked.items()), default=0)
        parts = [
            (room.get(name, 0) - fitting * amount) / size[name]
            for name, amount in asked.items()
            if name != "pods" and size.get(name, 0) > 0
        ]
        if parts:
            total += (count / pods) * (sum(parts) / len(parts))
    return _scaled(total)


def _product(size: Mapping[str, int], room: Mapping[str, int]) -> float:
    used = {name: size[name] - room[name] for name in ("cpu", "memory")}
    if not any(used.values()):
        return 0.9
    product = 1.0
    for name, amount in used.items():
        if size[name] > 0:
            product *= amount / size[name]
    return 1.0 - product


def _scaled(fragmentation: float) -> int:
    return round(2**32 * fragmentation)


def literal_match(
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    free: Mapping[NodeName, Resources],
    fragmentation: Fragmentation,
) -> LiteralMatch:
    """Most pods placed, then least fragmentation."""
    everything = range(1 << len(pods))
    best: list[int | None] = [0] + [None] * (len(everything) - 1)
    chosen: list[list[int]] = []
    for node in nodes:
        costs = _node_costs(pods, node, free[node.name], fragmentation)
        following: list[int | None] = []
        choices = []
        for whole in everything:
            least, choice = None, 0
            part = whole
            while True:
                before, cost = best[whole ^ part], costs[part]
                if before is not None and cost is not None:
                    total = before + cost
                    if least is None or total < least:
                        least, choice = total, part
                if not part:
                    break
                part = (part - 1) & whole
            following.append(least)
            choices.append(choice)
        best = following
        chosen.append(choices)
    reached = [
        (-mask.bit_count(), cost, mask) for mask, cost in enumerate(best) if cost is not None
    ]
    most, cost, mask = min(reached)
    targets: dict[Pod, NodeName] = {}
    for node, choices in zip(reversed(nodes), reversed(chosen), strict=True):
        here = choices[mask]
        targets |= {pod: node.name for i, pod in enumerate(pods) if here >> i & 1}
        mask ^= here
    return LiteralMatch(best, (-most, cost), targets)


def _node_costs(
    pods: Sequence[Pod], node: Node, free: Resources, fragmentation: Fragmentation
) -> list[int | None]:
    """What the node costs with each set of pods on it; None where they do not fit."""
    rooms: list[Resources | None] = [free]
    for mask in range(1, 1 << len(pods)):
        last = mask.bit_length() - 1
        pod, room = pods[last], rooms[mask ^ (1 << last)]
        if room is not None:
            room = None if reasons(pod.pod_class, node, room) else room - pod.requests
        rooms.append(room)
    return [
        None if room is None else literal_fragmentation(fragmentation, node, room) for room in rooms
    ]

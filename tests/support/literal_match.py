"""Algorithm 8 of the paper in its textbook form on bit masks: the oracle of `match`.

The form shares only the model and the rules of `fit` with the scheduler.
"""

from collections.abc import Mapping

import attrs

from kubedsm.model.model import NodeName, Pod
from kubedsm.objective.fragmentation import Measure
from kubedsm.plugins.plugins import accepts


@attrs.frozen
class LiteralMatch:
    """Result of `literal_match`."""

    #: Least cost of placing exactly one set of pods, indexed by the set's bit mask; None if the
    #: set does not fit.
    costs: list[int | None]
    #: (most pods, their least cost)
    optimum: tuple[int, int]
    targets: Mapping[Pod, NodeName]


def literal_fragmentation(fragmentation, node, free):
    """Return the fragmentation of one node with these free resources, scaled to a whole number."""
    size = dict(node.allocatable.items())
    room = {name: max(0, min(amount, size.get(name, 0))) for name, amount in free.items()}
    if fragmentation.measure is Measure.PRODUCT:
        return _scale_up(_product_fragmentation(size, room))
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
    return _scale_up(total)


def _product_fragmentation(size, room):
    used = {name: size[name] - room[name] for name in ("cpu", "memory")}
    if not any(used.values()):
        return 0.9
    product = 1.0
    for name, amount in used.items():
        if size[name] > 0:
            product *= amount / size[name]
    return 1.0 - product


def _scale_up(fragmentation):
    return round(2**32 * fragmentation)


def literal_match(pods, nodes, free, fragmentation):
    """Place most pods, then minimise fragmentation: a DP over nodes and pod sets, O(N 3^n)."""
    everything = range(1 << len(pods))
    best = [0] + [None] * (len(everything) - 1)
    chosen = []
    for node in nodes:
        costs = _node_costs(pods, node, free[node.name], fragmentation)
        following = []
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
    targets = {}
    for node, choices in zip(reversed(nodes), reversed(chosen), strict=True):
        here = choices[mask]
        targets |= {pod: node.name for i, pod in enumerate(pods) if here >> i & 1}
        mask ^= here
    return LiteralMatch(best, (-most, cost), targets)


def _node_costs(pods, node, free, fragmentation):
    """Return the node's cost for each set of pods; None for infeasible sets."""
    rooms = [free]
    for mask in range(1, 1 << len(pods)):
        last = mask.bit_length() - 1
        pod, room = pods[last], rooms[mask ^ (1 << last)]
        if room is not None:
            room = room - pod.requests if accepts(pod.pod_class, node, room) else None
        rooms.append(room)
    return [
        None if room is None else literal_fragmentation(fragmentation, node, room) for room in rooms
    ]

"""`kubedsm bench match`: Algorithm 8 on count vectors, next to its textbook bitmask form.

`literal_match` is Algorithm 8 in the paper's form. The implementation shares only the model and the
rules of `fit` with the scheduler, so tests use `literal_match` as an oracle.
"""

from collections.abc import Mapping, Sequence

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.optimizer.matching.match import match
from kubedsm.plugins.plugins import accepts
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI, SERVICES
from kubedsm_lab.bench.report import (
    DisagreementError,
    Report,
    format_duration,
    format_ratio,
    measure_cpu,
    measure_fastest,
)

#: Edge nodes n2, n3, n4 of the papers, in turn: cores, 10^9 bytes.
_NODES = ((5, 5), (4, 4), (7, 5))
_REPEATS = 30


def run(pods: int = 16, nodes: int = 3) -> Report:
    """Time both forms on one instance, from pods and nodes to targets.

    Raises DisagreementError for different optima.
    """
    snapshot = instance(pods, nodes)
    waiting, targets = list(snapshot.pods.values()), list(snapshot.nodes.values())
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    literal, literal_seconds = measure_cpu(
        lambda: literal_match(waiting, targets, snapshot.free, fragmentation)
    )
    found, seconds = measure_fastest(
        lambda: match(waiting, targets, snapshot.free, fragmentation), _REPEATS
    )
    placed, cost = optimum = len(found.targets), found.cost
    if optimum != literal.optimum:
        raise DisagreementError(f"match found {optimum}, its textbook form {literal.optimum}")
    ratio = literal_seconds / seconds
    headings = ("pods", "nodes", "placed", "count vectors", "bitmask", "times as long")
    cells = (
        *(f"{pods:,}", f"{nodes:,}", f"{placed:,}"),
        *(format_duration(seconds), format_duration(literal_seconds), format_ratio(ratio)),
    )
    return Report(
        {
            "pods": pods,
            "nodes": nodes,
            "placed": placed,
            "fragmentation": cost,
            "bitmaskMs": round(1000 * literal_seconds, 3),
            "countVectorMs": round(1000 * seconds, 4),
            "ratio": round(ratio, 1),
        },
        [table(headings, [cells], numbers=headings)],
        [
            (
                f"CPU time: the best of {_REPEATS} runs, and one run of the textbook bitmask form."
                " Both find the same optimum."
            )
        ],
    )


def instance(pods: int, nodes: int) -> Snapshot:
    """Return pending pods of services A to D in turn, and empty edge nodes."""
    edge = [_edge_node(index) for index in range(nodes)]
    waiting = [_service_pod(index) for index in range(pods)]
    return instances.snapshot(edge, waiting, {node.name: node.allocatable for node in edge})


def _edge_node(index: int) -> Node:
    cores, gigabytes = _NODES[index % len(_NODES)]
    allocatable = Resources(cpu=cores * 1000, memory=gigabytes * 10**9, pods=110)
    return instances.node(f"edge-{index:03}", Tier.EDGE, allocatable)


def _service_pod(index: int) -> Pod:
    service = list(SERVICES)[index % len(SERVICES)]
    cores, mebibytes = SERVICES[service]
    requests = Resources(cpu=cores * 1000, memory=mebibytes * MI, pods=1)
    workload = Workload("default", "Deployment", service)
    return instances.pod(f"{service}-{index:03}", workload, requests, created=float(index))


@attrs.frozen
class LiteralMatch:
    """Result of `literal_match`."""

    #: Least cost of placing exactly one set of pods, indexed by the set's bit mask; None if the
    #: set does not fit.
    costs: list[int | None]
    #: (most pods, their least cost)
    optimum: tuple[int, int]
    targets: Mapping[Pod, NodeName]


def literal_fragmentation(fragmentation: Fragmentation, node: Node, free: Resources) -> int:
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


def _product_fragmentation(size: Mapping[str, int], room: Mapping[str, int]) -> float:
    used = {name: size[name] - room[name] for name in ("cpu", "memory")}
    if not any(used.values()):
        return 0.9
    product = 1.0
    for name, amount in used.items():
        if size[name] > 0:
            product *= amount / size[name]
    return 1.0 - product


def _scale_up(fragmentation: float) -> int:
    return round(2**32 * fragmentation)


def literal_match(
    pods: Sequence[Pod],
    nodes: Sequence[Node],
    free: Mapping[NodeName, Resources],
    fragmentation: Fragmentation,
) -> LiteralMatch:
    """Place most pods, then minimise fragmentation: a DP over nodes and pod sets, O(N 3^n)."""
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
    """Return the node's cost for each set of pods; None for infeasible sets."""
    rooms: list[Resources | None] = [free]
    for mask in range(1, 1 << len(pods)):
        last = mask.bit_length() - 1
        pod, room = pods[last], rooms[mask ^ (1 << last)]
        if room is not None:
            room = room - pod.requests if accepts(pod.pod_class, node, room) else None
        rooms.append(room)
    return [
        None if room is None else literal_fragmentation(fragmentation, node, room) for room in rooms
    ]

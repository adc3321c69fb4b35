"""What the comparisons are made of: services, pods, nodes, and how long a call takes."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Tier,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot

T = TypeVar("T")

MI = 2**20
#: The papers' services A, B, C, D: cores, memory.
SERVICES = {"a": (1, 950), "b": (1, 1900), "c": (1, 950), "d": (2, 1900)}


class DisagreementError(Exception):
    """Two forms disagree about the same instance: one of them is wrong."""


def pod(
    name: str,
    workload: Workload,
    requests: Resources,
    rules: SchedulingRules | None = None,
    uid: str = "",
    **others: Any,
) -> Pod:
    return Pod(
        uid=Uid(uid or name),
        namespace=workload.namespace,
        name=name,
        workload=workload,
        pod_class=PodClass(requests, rules or SchedulingRules()),
        scheduler_name="kubedsm",
        **others,
    )


def node(name: str, tier: Tier, room: Resources) -> Node:
    return Node(NodeName(name), {"kubedsm.io/tier": tier.value}, room, tier=tier)


def snapshot(
    nodes: Sequence[Node], pods: Sequence[Pod], free: Mapping[NodeName, Resources]
) -> Snapshot:
    """Those pods on the nodes that they name."""
    placed = {pod.uid: pod.node_name for pod in pods if pod.node_name is not None}
    return Snapshot(
        {node.name: node for node in nodes}, {pod.uid: pod for pod in pods}, free, placed
    )


def timed(what: Callable[[], T]) -> tuple[T, float]:
    """What came of it, and the seconds of CPU of this process: others may be at work, too."""
    started = time.process_time()
    result = what()
    return result, time.process_time() - started


def fastest(what: Callable[[], T], repeats: int) -> tuple[T, float]:
    """What came of the first run, and the seconds of the fastest."""
    runs = [timed(what) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)

"""Constructors of pods, nodes and snapshots for benchmarks."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

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

MI = 2**20


def pod(
    name: str,
    workload: Workload,
    requests: Resources,
    rules: SchedulingRules | None = None,
    **others: Any,
) -> Pod:
    return Pod(
        uid=Uid(name),
        namespace=workload.namespace,
        name=name,
        workload=workload,
        pod_class=_pod_class(requests, rules or SchedulingRules()),
        scheduler_name="kubedsm",
        **others,
    )


#: Equal classes are one object, as in the decoder of pods.
_pod_class = lru_cache(maxsize=1024)(PodClass)


def node(name: str, tier: Tier, allocatable: Resources) -> Node:
    return Node(NodeName(name), {"kubedsm.io/tier": tier.value}, allocatable, tier=tier)


def snapshot(
    nodes: Sequence[Node], pods: Sequence[Pod], free: Mapping[NodeName, Resources]
) -> Snapshot:
    """Return a cluster snapshot of the given nodes and pods, in which each pod runs on the node of
    its nodeName.
    """
    placed = {pod.uid: pod.node_name for pod in pods if pod.node_name is not None}
    return Snapshot(
        {node.name: node for node in nodes}, {pod.uid: pod for pod in pods}, free, placed
    )

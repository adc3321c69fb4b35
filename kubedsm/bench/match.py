"""How much faster `match` is than its literal form, on the papers' services and nodes."""

import time
from typing import Any

import attrs

from kubedsm.bench.literal.match import literal_match
from kubedsm.core.goals.fragmentation import Fragmentation, request_mix
from kubedsm.core.packing.match import match
from kubedsm.core.world.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Snapshot,
    Tier,
    Uid,
    Workload,
)

_MI = 2**20
#: The papers' services A, B, C, D: cores, memory.
_SERVICES = {"a": (1, 950), "b": (1, 1900), "c": (1, 950), "d": (2, 1900)}
#: The papers' edge nodes n2, n3, n4 in turn: cores, 10^9 bytes.
_NODES = ((5, 5), (4, 4), (7, 5))
_REPEATS = 30


@attrs.frozen
class MatchResult:
    pods: int
    nodes: int
    #: pods placed, and the fragmentation of all nodes; of both forms
    placed: int
    cost: int
    #: seconds; the best of several runs, and one run
    seconds: float
    literal_seconds: float

    @property
    def ratio(self) -> float:
        return self.literal_seconds / self.seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "pods": self.pods,
            "nodes": self.nodes,
            "placed": self.placed,
            "fragmentation": self.cost,
            "bitmaskMs": round(1000 * self.literal_seconds, 3),
            "countVectorMs": round(1000 * self.seconds, 4),
            "ratio": round(self.ratio, 1),
        }


class DisagreementError(Exception):
    """The two forms found different optima: one of them is wrong."""


def instance(pods: int, nodes: int) -> Snapshot:
    """That many pods, of services A to D in turn, waiting before that many empty edge nodes."""
    made = [_node(index) for index in range(nodes)]
    waiting = [_pod(index) for index in range(pods)]
    return Snapshot(
        nodes={node.name: node for node in made},
        pods={pod.uid: pod for pod in waiting},
        free={node.name: node.allocatable for node in made},
        placed={},
    )


def _node(index: int) -> Node:
    cores, gigabytes = _NODES[index % len(_NODES)]
    room = Resources(cpu=cores * 1000, memory=gigabytes * 10**9, pods=110)
    return Node(NodeName(f"edge-{index:03}"), {"kubedsm.io/tier": "edge"}, room, tier=Tier.EDGE)


def _pod(index: int) -> Pod:
    service = list(_SERVICES)[index % len(_SERVICES)]
    cores, mebibytes = _SERVICES[service]
    name = f"{service}-{index:03}"
    requests = Resources(cpu=cores * 1000, memory=mebibytes * _MI, pods=1)
    return Pod(
        uid=Uid(name),
        namespace="default",
        name=name,
        workload=Workload("default", "Deployment", service),
        pod_class=PodClass(requests, SchedulingRules()),
        scheduler_name="kubedsm",
        created=float(index),
    )


def run(pods: int = 16, nodes: int = 3) -> MatchResult:
    """Time both forms on one instance, from pods and nodes to targets.

    Raises DisagreementError if they do not find the same optimum.
    """
    snapshot = instance(pods, nodes)
    waiting, made = list(snapshot.pods.values()), list(snapshot.nodes.values())
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    started = time.perf_counter()
    literal = literal_match(waiting, made, snapshot.free, fragmentation)
    literal_seconds = time.perf_counter() - started
    seconds = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        found = match(waiting, made, snapshot.free, fragmentation)
        seconds = min(seconds, time.perf_counter() - started)
    optimum = (len(found.targets), found.cost)
    if optimum != literal.optimum:
        raise DisagreementError(f"match found {optimum}, its literal form {literal.optimum}")
    return MatchResult(pods, nodes, *optimum, seconds, literal_seconds)

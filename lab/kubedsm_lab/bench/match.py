"""How much faster `match` is than its literal form, on the papers' services and nodes."""

from typing import Any

import attrs

from kubedsm.model.model import Node, Pod, Resources, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.optimizer.matching.match import match
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI, SERVICES, DisagreementError, fastest, timed
from kubedsm_lab.bench.literal.match import literal_match
from kubedsm_lab.bench.telling import many, span, times_as_long

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
    #: seconds of CPU; the best of several runs, and one run
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

    @property
    def sentences(self) -> list[str]:
        return [
            (
                f"A batch of {many(self.pods, 'pod')} on {many(self.nodes, 'node')}, of which"
                f" {self.placed:,} fit, was placed in {span(self.seconds)}; the textbook bitmask"
                f" form took {span(self.literal_seconds)}: {times_as_long(self.ratio)}, to the same"
                f" optimum. Times are of CPU: the best of {_REPEATS} runs, and one."
            )
        ]


def instance(pods: int, nodes: int) -> Snapshot:
    """That many pods, of services A to D in turn, waiting before that many empty edge nodes."""
    made = [_node(index) for index in range(nodes)]
    waiting = [_pod(index) for index in range(pods)]
    return instances.snapshot(made, waiting, {node.name: node.allocatable for node in made})


def _node(index: int) -> Node:
    cores, gigabytes = _NODES[index % len(_NODES)]
    room = Resources(cpu=cores * 1000, memory=gigabytes * 10**9, pods=110)
    return instances.node(f"edge-{index:03}", Tier.EDGE, room)


def _pod(index: int) -> Pod:
    service = list(SERVICES)[index % len(SERVICES)]
    cores, mebibytes = SERVICES[service]
    requests = Resources(cpu=cores * 1000, memory=mebibytes * MI, pods=1)
    workload = Workload("default", "Deployment", service)
    return instances.pod(f"{service}-{index:03}", workload, requests, created=float(index))


def run(pods: int = 16, nodes: int = 3) -> MatchResult:
    """Time both forms on one instance, from pods and nodes to targets.

    Raises DisagreementError if they do not find the same optimum.
    """
    snapshot = instance(pods, nodes)
    waiting, made = list(snapshot.pods.values()), list(snapshot.nodes.values())
    fragmentation = Fragmentation(mix=request_mix(snapshot))
    literal, literal_seconds = timed(
        lambda: literal_match(waiting, made, snapshot.free, fragmentation)
    )
    found, seconds = fastest(lambda: match(waiting, made, snapshot.free, fragmentation), _REPEATS)
    optimum = (len(found.targets), found.cost)
    if optimum != literal.optimum:
        raise DisagreementError(f"match found {optimum}, its literal form {literal.optimum}")
    return MatchResult(pods, nodes, *optimum, seconds, literal_seconds)

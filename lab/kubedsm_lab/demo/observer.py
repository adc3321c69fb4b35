"""State of a run on the emulated cluster: pods of its store, and measures of its timeline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import attrs

from kubedsm.kube.wire import decoding
from kubedsm.model.model import Node, NodeName, Pod, Resources, Share, Tier
from kubedsm.objective.objective import count_target_pods
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.emulated_cluster import EmulatedCluster
from kubedsm_lab.replay.measures import Latency, lost_pod_seconds
from kubedsm_lab.replay.timeline import Timeline


@attrs.frozen(slots=True)
class NodeView:
    name: NodeName
    tier: str
    allocatable: Resources
    used: Resources
    #: pods by service
    pods: Mapping[str, int]


@attrs.frozen(slots=True)
class ServiceView:
    name: str
    #: offered requests a second
    rate: float
    pods: int
    #: target edge share
    promise: float
    #: edge share of the Ready pods
    share: Share

    @property
    def missing(self) -> int:
        """Return the shortfall of Ready pods on the edge."""
        return max(0, count_target_pods(self.promise, self.share.total) - self.share.edge)


@attrs.frozen(slots=True)
class Migrations:
    """Migrations begun, those rolled back, and pod-seconds lost to them."""

    begun: int = 0
    taken_back: int = 0
    lost_pod_seconds: float = 0.0

    @classmethod
    def of(cls, timeline: Timeline) -> "Migrations":
        moves = [move for move in timeline.moves if move.began >= 0.0]
        taken_back = sum(move.taken_back for move in moves)
        return cls(len(moves), taken_back, lost_pod_seconds(timeline))


@attrs.frozen
class Observation:
    """Pods of a cluster at one moment."""

    cluster: EmulatedCluster
    nodes: Sequence[Node]

    @cached_property
    def pods(self) -> list[Pod]:
        return [decoding.pod(each) for each in self.cluster.api.list(PODS)]

    @property
    def waiting(self) -> int:
        """Return the number of pods without a node."""
        return sum(pod.node_name is None and not pod.terminating for pod in self.pods)

    @property
    def unready(self) -> int:
        return sum(not pod.ready and not pod.terminating for pod in self.pods)

    def node(self, node: Node) -> NodeView:
        here = [p for p in self.pods if p.node_name == node.name and not p.finished]
        used = sum((pod.requests for pod in here), Resources())
        pods = Counter(pod.workload.name for pod in here)
        return NodeView(
            node.name, str(node.tier), node.allocatable, used, dict(sorted(pods.items()))
        )

    def services(
        self, promises: Mapping[str, float], rates: Mapping[str, float]
    ) -> list[ServiceView]:
        edge = {node.name for node in self.nodes if node.tier is Tier.EDGE}
        pods = [pod for pod in self.pods if not pod.terminating]
        ready = [pod for pod in pods if pod.ready and pod.node_name is not None]
        number, total = (Counter(pod.workload.name for pod in some) for some in (pods, ready))
        on_edge = Counter(pod.workload.name for pod in ready if pod.node_name in edge)
        return [
            ServiceView(name, rates[name], number[name], promise, Share(on_edge[name], total[name]))
            for name, promise in promises.items()
        ]


def bind_latency(timeline: Timeline) -> tuple[int, Latency | None]:
    """Return the number of bound pods, and the time from creation to binding."""
    seconds = [life.bound - life.created for life in timeline.lives if life.bound is not None]
    return len(seconds), Latency.of(seconds)

"""What a run on the emulated cluster comes to, read off its store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.clock import Clock
from kubedsm.cluster.wire import decoding
from kubedsm.core.world.model import Node, NodeName, Pod, Resources, Share, Tier, Tiers, Uid
from kubedsm.emulator.api.resources import PODS
from kubedsm.emulator.api.store import ObjectChange
from kubedsm.replay.measures import lost_pod_seconds
from kubedsm.replay.recording import TimelineRecorder
from kubedsm.replay.summaries import EdgeRatio, Latency


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
    pods: int
    ready: int
    #: of the Ready pods, now
    share: Share
    #: mean over the time so far; None before the first Ready pod
    mean_share: float | None


@attrs.frozen(slots=True)
class Migrations:
    """Migrations begun; those that were taken back; pod-seconds that services lost to them."""

    begun: int
    taken_back: int
    lost_pod_seconds: float


class Observer:
    """Keeps the pods of some services and the measures over them; subscribe `notice` to a store."""

    def __init__(self, nodes: Iterable[Node], services: Sequence[str], clock: Clock) -> None:
        self._tiers = {node.name: node.tier for node in nodes}
        self._services = services
        self._clock = clock
        self._pods: dict[Uid, Pod] = {}
        self._created: dict[Uid, float] = {}
        self._latencies: list[float] = []
        self._edge_ratio = EdgeRatio(services)
        self._recorder = TimelineRecorder(tuple(services), Tiers())

    def notice(self, change: ObjectChange) -> None:
        now = self._clock.monotonic()
        self._recorder.notice(change, now)
        if change.resource is not PODS:
            return
        pod = decoding.pod(change.object)
        before = self._pods.get(pod.uid)
        if change.type == "DELETED":
            self._pods.pop(pod.uid, None)
        else:
            self._pods[pod.uid] = pod
            self._created.setdefault(pod.uid, now)
        if pod.node_name is not None and (before is None or before.node_name is None):
            self._latencies.append(now - self._created[pod.uid])
        self._edge_ratio.observe(now, self._shares())

    def _shares(self) -> dict[str, Share]:
        total: Counter[str] = Counter()
        edge: Counter[str] = Counter()
        for pod in self._pods.values():
            if pod.ready and not pod.terminating and pod.node_name is not None:
                total[pod.workload.name] += 1
                edge[pod.workload.name] += self._tiers.get(pod.node_name) is Tier.EDGE
        return {name: Share(edge[name], total[name]) for name in self._services}

    @property
    def bound(self) -> int:
        """Return how many binds there have been."""
        return len(self._latencies)

    @property
    def waiting(self) -> int:
        """Return how many pods are on no node."""
        return sum(pod.node_name is None and not pod.terminating for pod in self._pods.values())

    @property
    def unready(self) -> int:
        return sum(not pod.ready and not pod.terminating for pod in self._pods.values())

    @property
    def moving(self) -> list[str]:
        """Return the services of which pods are being moved."""
        return sorted(pod.workload.name for pod in self._pods.values() if pod.detached)

    def migrations(self, since: float) -> "Migrations":
        """Return those that began since then."""
        timeline = self._recorder.timeline(since, self._clock.monotonic())
        moves = [move for move in timeline.moves if move.began >= 0.0]
        taken_back = sum(move.taken_back for move in moves)
        return Migrations(len(moves), taken_back, lost_pod_seconds(timeline))

    @property
    def latency(self) -> Latency | None:
        return Latency.of(self._latencies)

    @property
    def edge_ratio(self) -> float | None:
        self._edge_ratio.observe(self._clock.monotonic(), self._shares())
        return self._edge_ratio.ratio

    def services(self) -> list[ServiceView]:
        shares, means = self._shares(), self._edge_ratio.shares()
        pods = Counter(pod.workload.name for pod in self._pods.values() if not pod.terminating)
        return [
            ServiceView(name, pods[name], shares[name].total, shares[name], means[name])
            for name in self._services
        ]

    def node(self, node: Node) -> NodeView:
        here = [p for p in self._pods.values() if p.node_name == node.name and not p.finished]
        used = sum((pod.requests for pod in here), Resources())
        pods = Counter(pod.workload.name for pod in here)
        return NodeView(
            node.name, str(node.tier), node.allocatable, used, dict(sorted(pods.items()))
        )

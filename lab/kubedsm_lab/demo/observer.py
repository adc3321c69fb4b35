"""What a run on the emulated cluster comes to, read off its store."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.kube.wire import decoding
from kubedsm.model.model import Node, NodeName, Pod, Resources, Share, Tier, Tiers, Uid
from kubedsm.objective.objective import count_target_pods
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.resources import PODS
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.measures import lost_pod_seconds
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.summaries import Latency
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
    #: requests a second offered to it now
    rate: float
    pods: int
    #: the edge share that it was promised
    promise: float
    #: of the Ready pods, now
    share: Share

    @property
    def missing(self) -> int:
        """How many of its Ready pods would have to be on the edge, and are not."""
        return max(0, count_target_pods(self.promise, self.share.total) - self.share.edge)


@attrs.frozen(slots=True)
class Migrations:
    """Migrations begun; those that were taken back; pod-seconds that services lost to them."""

    begun: int = 0
    taken_back: int = 0
    lost_pod_seconds: float = 0.0

    @classmethod
    def of(cls, timeline: Timeline) -> "Migrations":
        moves = [move for move in timeline.moves if move.began >= 0.0]
        taken_back = sum(move.taken_back for move in moves)
        return cls(len(moves), taken_back, lost_pod_seconds(timeline))


class Observer:
    """Keeps the pods of some services and the measures over them; subscribe `notice` to a store."""

    def __init__(self, nodes: Iterable[Node], promises: Mapping[str, float], clock: Clock) -> None:
        self._tiers = {node.name: node.tier for node in nodes}
        self._promises = promises
        self._clock = clock
        self._pods: dict[Uid, Pod] = {}
        self._created: dict[Uid, float] = {}
        self._latencies: list[float] = []
        self._recorder = TimelineRecorder(tuple(promises), Tiers())

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

    def shares(self) -> dict[str, Share]:
        """Of the Ready pods, now."""
        total: Counter[str] = Counter()
        edge: Counter[str] = Counter()
        for pod in self._pods.values():
            if pod.ready and not pod.terminating and pod.node_name is not None:
                total[pod.workload.name] += 1
                edge[pod.workload.name] += self._tiers.get(pod.node_name) is Tier.EDGE
        return {name: Share(edge[name], total[name]) for name in self._promises}

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

    def timeline(self, since: float) -> Timeline:
        """From that moment until now."""
        return self._recorder.timeline(since, self._clock.monotonic())

    @property
    def latency(self) -> Latency | None:
        return Latency.of(self._latencies)

    def services(self, rates: Mapping[str, float]) -> Sequence[ServiceView]:
        shares = self.shares()
        pods = Counter(pod.workload.name for pod in self._pods.values() if not pod.terminating)
        return [
            ServiceView(name, rates[name], pods[name], promise, shares[name])
            for name, promise in self._promises.items()
        ]

    def node(self, node: Node) -> NodeView:
        here = [p for p in self._pods.values() if p.node_name == node.name and not p.finished]
        used = sum((pod.requests for pod in here), Resources())
        pods = Counter(pod.workload.name for pod in here)
        return NodeView(
            node.name, str(node.tier), node.allocatable, used, dict(sorted(pods.items()))
        )

"""Watch of all pods during a soak: waiting times, and violated invariants."""

from collections import defaultdict

import attrs

from kubedsm.model.events import ClusterEvent, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.model import NodeName, Pod, Resources, Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.soak.tenants import ODD_NAMESPACE

SCHEDULER_NAME = "kubedsm"


@attrs.frozen(slots=True)
class Wait:
    """Waiting time of a pod: first observed at `created`, then seconds until bound or deleted."""

    created: float
    seconds: float
    bound: bool


class PodWatch:
    """Watch handler that records the waiting times of KubeDSM's pods and checks invariants.

    A pod keeps its node, requests on a node do not exceed the allocatable resources, and migrations
    do not remove the last Ready pod of a workload.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Uid, float] = {}
        self._odd: set[Uid] = set()
        self._pods: dict[Uid, Pod] = {}
        self._allocatable: dict[NodeName, Resources] = {}
        self._requested: defaultdict[NodeName, Resources] = defaultdict(Resources)
        #: waiting times of all pods except the odd tenant's
        self.waits: list[Wait] = []
        #: number of live pods after each event
        self.pods: list[tuple[float, int]] = []
        self.most_odd = 0
        self.events = 0
        #: violated invariants, in words
        self.amiss: list[str] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def handle(self, event: ClusterEvent) -> None:
        self.events += 1
        match event:
            case NodeApplied(node):
                self._allocatable[node.name] = node.allocatable
            case PodDeleted(uid):
                self._end_wait(uid, bound=False)
                self._odd.discard(uid)
                self._check_last_ready(self._pods.pop(uid, None))
            case PodApplied(pod):
                before = self._pods.get(pod.uid)
                self._pods[pod.uid] = pod
                self._check_capacity(before, pod)
                self._check_rebind(before, pod)
                if pod.namespace == ODD_NAMESPACE:
                    self._odd.add(pod.uid)
                    self.most_odd = max(self.most_odd, len(self._odd))
                elif pod.scheduler_name == SCHEDULER_NAME:
                    was_bound = before is not None and before.node_name is not None
                    self._track_wait(pod, was_bound=was_bound)
        self.pods.append((self._clock.monotonic(), len(self._pods)))

    def _track_wait(self, pod: Pod, *, was_bound: bool) -> None:
        if pod.node_name is not None:
            if not was_bound:
                self._end_wait(pod.uid, bound=True)
        elif pod.terminating:
            self._end_wait(pod.uid, bound=False)
        else:
            self._waiting.setdefault(pod.uid, self._clock.monotonic())

    def _end_wait(self, uid: Uid, *, bound: bool) -> None:
        now = self._clock.monotonic()
        created = self._waiting.pop(uid, now if bound else None)
        if created is not None:
            self.waits.append(Wait(created, now - created, bound))

    def _check_capacity(self, before: Pod | None, after: Pod | None) -> None:
        was, now = (pod.held if pod is not None else None for pod in (before, after))
        if was == now:
            return
        if was is not None:
            node, amount = was
            self._requested[node] -= amount
        if now is not None:
            node, amount = now
            self._requested[node] += amount
            left = self._allocatable.get(node, Resources()) - self._requested[node]
            if any(amount < 0 for _, amount in left.items()):
                self.amiss.append(f"{node} holds more than it has: {after} came")

    def _check_rebind(self, before: Pod | None, after: Pod) -> None:
        was = before.node_name if before is not None else None
        if was is not None and after.node_name != was:
            self.amiss.append(f"{after} was bound to {was}, then to {after.node_name}")

    def _check_last_ready(self, gone: Pod | None) -> None:
        self._check_capacity(gone, None)
        if gone is None or not gone.detached or not gone.ready:
            return
        app = gone.namespace, gone.labels.get("app")
        others = [
            pod
            for pod in self._pods.values()
            if (pod.namespace, pod.labels.get("app")) == app and not pod.terminating
        ]
        if others and not any(pod.ready for pod in others):
            self.amiss.append(f"{gone} was moved away, the last of its workload that was Ready")

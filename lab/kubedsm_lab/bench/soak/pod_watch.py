"""What one watch shows of all pods, from outside: how long they wait, and what must never be."""

from collections import defaultdict

from kubedsm.model.events import ClusterEvent, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.model import NodeName, Pod, Resources, Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.bench.soak.tenants import ODD_NAMESPACE
from kubedsm_lab.bench.soak.verdict import Wait

SCHEDULER_NAME = "kubedsm"


class PodWatch:
    """When pods of our scheduler were first seen, and first seen bound; to be told every event.

    At each of them no pod may have changed its node, no node hold more than it has, and none that
    was moved away be the last Ready one of its workload.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[Uid, float] = {}
        self._odd: set[Uid] = set()
        self._pods: dict[Uid, Pod] = {}
        self._allocatable: dict[NodeName, Resources] = {}
        self._held: defaultdict[NodeName, Resources] = defaultdict(Resources)
        #: of all pods but the odd tenant's
        self.waits: list[Wait] = []
        self.most_odd = 0
        self.events = 0
        #: what must never be and was, in words
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
                self._waited(uid, bound=False)
                self._odd.discard(uid)
                self._moved_away(self._pods.pop(uid, None))
            case PodApplied(pod):
                before = self._pods.get(pod.uid)
                self._pods[pod.uid] = pod
                self._held_by(before, pod)
                self._bound_once(before, pod)
                if pod.namespace == ODD_NAMESPACE:
                    self._odd.add(pod.uid)
                    self.most_odd = max(self.most_odd, len(self._odd))
                elif pod.scheduler_name == SCHEDULER_NAME:
                    self._seen(
                        pod, bound_before=before is not None and before.node_name is not None
                    )

    def _seen(self, pod: Pod, *, bound_before: bool) -> None:
        if pod.node_name is not None:
            if not bound_before:
                self._waited(pod.uid, bound=True)
        elif pod.terminating:
            self._waited(pod.uid, bound=False)
        else:
            self._waiting.setdefault(pod.uid, self._clock.monotonic())

    def _waited(self, uid: Uid, *, bound: bool) -> None:
        now = self._clock.monotonic()
        created = self._waiting.pop(uid, now if bound else None)
        if created is not None:
            self.waits.append(Wait(created, now - created, bound))

    def _held_by(self, before: Pod | None, after: Pod | None) -> None:
        """Keep what each node holds, which must be no more than it has."""
        was, now = (pod.held if pod is not None else None for pod in (before, after))
        if was == now:
            return
        if was is not None:
            node, amount = was
            self._held[node] -= amount
        if now is not None:
            node, amount = now
            self._held[node] += amount
            left = self._allocatable.get(node, Resources()) - self._held[node]
            if any(amount < 0 for _, amount in left.items()):
                self.amiss.append(f"{node} holds more than it has: {after} came")

    def _bound_once(self, before: Pod | None, after: Pod) -> None:
        was = before.node_name if before is not None else None
        if was is not None and after.node_name != was:
            self.amiss.append(f"{after} was bound to {was}, then to {after.node_name}")

    def _moved_away(self, gone: Pod | None) -> None:
        self._held_by(gone, None)
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

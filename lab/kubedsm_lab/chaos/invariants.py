"""I1 and I2 of the design, looked at with every revision of the store."""

from collections import Counter

from kubedsm.model.model import MIGRATING_LABEL
from kubedsm_lab.chaos.fitting import free
from kubedsm_lab.emulator.actors.pod_state import is_ready, is_terminating, labels_of, node_of
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES, PODS, STATEFUL_SETS, Object
from kubedsm_lab.emulator.api.store import ObjectChange

OURS = "kubedsm"


class Invariants:
    """One bind a pod, and no more on a node than it holds once we have bound something there."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        #: on the clock: until then, room that was lost just now may be unknown
        self.excused_until = 0.0
        self._bound: dict[str, str] = {}
        #: accepted ones of our pods, by uid
        self.binds: Counter[str] = Counter()
        self.writes = 0
        self.wrong: list[str] = []
        #: by workload: how many of the pods that it wants were missing at once, of those Ready,
        #: since it had had all of them
        self.missed: Counter[str] = Counter()
        self._complete: set[str] = set()
        api.store.subscribe(self._notice)

    def _notice(self, change: ObjectChange) -> None:
        self.writes += 1
        if change.resource is not PODS:
            return
        pod = change.object
        self._count_ready(pod)
        uid, node = pod["metadata"]["uid"], node_of(pod)
        before = self._bound.get(uid)
        if change.type == "DELETED" or not node or node == before:
            return
        if before is not None:
            self.wrong.append(f"I1: {pod['metadata']['name']} was on {before}, now on {node}")
        self._bound[uid] = node
        if pod["spec"]["schedulerName"] == OURS:
            self.binds[uid] += 1
            self._check_room(pod, node)

    def _count_ready(self, pod: Object) -> None:
        namespace, app = pod["metadata"]["namespace"], labels_of(pod).get("app", "")
        owners = (
            self._api.store.get(kind, namespace, app) for kind in (DEPLOYMENTS, STATEFUL_SETS)
        )
        wanted = next((owner["spec"]["replicas"] for owner in owners if owner), 0)
        pods = self._api.list(PODS, namespace, labels=f"app={app}")
        ready = [pod for pod in pods if is_ready(pod) and not is_terminating(pod)]
        missing = wanted - len(ready)
        # A detached pod and its replacement are one too many for a moment: that is no completeness.
        if wanted <= sum(MIGRATING_LABEL not in labels_of(pod) for pod in ready):
            self._complete.add(app)
        elif missing > 0 and app in self._complete:
            self.missed[app] = max(self.missed[app], missing)

    def _check_room(self, bound: Object, node: str) -> None:
        excused = self._api.clock.monotonic() <= self.excused_until
        if excused or not self._api.exists(NODES, "", node):
            return  # as a real API server, which binds to any name
        for resource, amount in free(self._api, node).items():
            if amount < 0:
                name = bound["metadata"]["name"]
                self.wrong.append(f"I2: {resource} on {node} lacks {-amount} with {name}")

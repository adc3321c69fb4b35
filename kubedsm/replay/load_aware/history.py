"""What was used of the nodes, and by whom, while pods came and went."""

import itertools
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from kubedsm.cluster.wire import decoding
from kubedsm.core.world.measured import Measured, Usage
from kubedsm.core.world.model import NodeName, Uid, Workload
from kubedsm.emulator.api.resources import PODS
from kubedsm.emulator.api.store import ObjectChange
from kubedsm.emulator.paper import NAMESPACE
from kubedsm.replay.load_aware.application import NODES, SERVICES, Floats
from kubedsm.replay.load_aware.model import Placement, Traffic
from kubedsm.replay.recording import SERVICE_LABEL

#: a pod's service, and its node's place in NODES
Serving = Mapping[Uid, tuple[str, int]]


@attrs.frozen(eq=False)
class Stretch:
    """A time in which nothing changed, seconds."""

    since: float
    until: float
    traffic: Traffic
    serving: Serving

    def within(self, since: float, until: float) -> float:
        """How much of it is in that time."""
        return max(0.0, min(self.until, until) - max(self.since, since))


class LoadHistory:
    """To be subscribed to the store with `notice`.

    `traffic`: what becomes of the requests of so many users while pods are there.
    """

    def __init__(self, traffic: Callable[[Placement, int], Traffic]) -> None:
        self._traffic = traffic
        self._users = 0
        self._since = 0.0
        self._serving: dict[Uid, tuple[str, int]] = {}
        self._past: list[Stretch] = []

    def notice(self, change: ObjectChange, now: float) -> None:
        """Take in a change that came at `now`, seconds."""
        if change.resource is not PODS:
            return
        pod = decoding.pod(change.object)
        service = pod.labels.get(SERVICE_LABEL, "")
        serving = pod.ready and not pod.terminating and change.type != "DELETED"
        if serving != (pod.uid in self._serving) and service in SERVICES and pod.node_name:
            self._pass(now)
            if serving:
                self._serving[pod.uid] = service, NODES.index(pod.node_name)
            else:
                del self._serving[pod.uid]

    def come(self, users: int, now: float) -> None:
        """From now on there are so many users."""
        self._pass(now)
        self._users = users

    def between(self, since: float, until: float) -> list[Stretch]:
        """What was in that time; until then nothing is known that comes after it."""
        self._pass(until)
        return [
            attrs.evolve(each, since=max(each.since, since), until=min(each.until, until))
            for each in self._past
            if each.within(since, until)
        ]

    def measured(self, now: float, window: float, at: float) -> Measured:
        """Means over the last `window` seconds, as Prometheus would have them, at that wall time.

        Of a pod over as much of it as it served.
        """
        stretches = self.between(now - window, now)
        nodes = np.zeros((len(NODES), 4))
        used: dict[Uid, Floats] = {}
        seconds: dict[Uid, float] = {}
        for each in stretches:
            length = each.until - each.since
            nodes += each.traffic.used * length
            for uid, (service, _) in each.serving.items():
                used[uid] = used.get(uid, 0) + each.traffic.of_pods[service] * length
                seconds[uid] = seconds.get(uid, 0) + length
        of_service = sorted((name, uid) for uid, (name, _) in self._serving.items() if uid in used)
        return Measured(
            at,
            {NodeName(name): _usage(nodes[n] / window) for n, name in enumerate(NODES)},
            {
                Workload(NAMESPACE, "Deployment", name): _usage(
                    np.mean([used[uid] / seconds[uid] for _, uid in pods], axis=0)
                )
                for name, pods in itertools.groupby(of_service, key=lambda each: each[0])
            },
        )

    def _pass(self, now: float) -> None:
        if now <= self._since:
            return
        nodes: dict[str, list[int]] = {}
        for service, node in self._serving.values():
            nodes.setdefault(service, []).append(node)
        placement = tuple(tuple(sorted(nodes.get(name, ()))) for name in SERVICES)
        traffic = self._traffic(placement, self._users)
        self._past.append(Stretch(self._since, now, traffic, dict(self._serving)))
        self._since = now


def _usage(amounts: Floats) -> Usage:
    cores, memory, net, disk = amounts.tolist()
    return Usage(1000 * cores, memory, net, disk)

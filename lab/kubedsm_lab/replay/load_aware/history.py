"""What was used of the nodes, and by whom, while pods came and went."""

from collections.abc import Callable, Mapping

import attrs
import numpy as np

from kubedsm.model.model import Uid
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.load_aware.application import CAPACITY, NODES, SERVICES, Floats
from kubedsm_lab.replay.load_aware.model import Placement, Traffic
from kubedsm_lab.replay.serving import Serving, serving_after


@attrs.frozen(eq=False)
class Stretch:
    """A time in which nothing changed, seconds."""

    since: float
    until: float
    traffic: Traffic
    serving: Mapping[Uid, Serving]

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
        self._serving: Mapping[Uid, Serving] = {}
        self._past: list[Stretch] = []

    def notice(self, change: ObjectChange, now: float) -> None:
        """Take in a change that came at `now`, seconds."""
        serving = serving_after(self._serving, change, SERVICES)
        if serving is not self._serving:
            self._pass(now)
            self._serving = serving

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

    def means(self, now: float, window: float) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """What nodes and pods used, by name, as means over the last `window` seconds.

        In units of CAPACITY. Of a pod, over as much of that as it served.
        """
        nodes = np.zeros((len(NODES), len(CAPACITY)))
        used: dict[Uid, Floats] = {}
        seconds: dict[Uid, float] = {}
        for each in self.between(now - window, now):
            length = each.until - each.since
            nodes += each.traffic.used * length
            for uid, pod in each.serving.items():
                used[uid] = used.get(uid, 0) + each.traffic.of_pods[pod.service] * length
                seconds[uid] = seconds.get(uid, 0) + length
        pods = {p.name: used[uid] / seconds[uid] for uid, p in self._serving.items() if uid in used}
        return dict(zip(NODES, nodes / window, strict=True)), pods

    def _pass(self, now: float) -> None:
        if now <= self._since:
            return
        nodes: dict[str, list[int]] = {}
        for pod in self._serving.values():
            nodes.setdefault(pod.service, []).append(NODES.index(pod.node))
        placement = tuple(tuple(sorted(nodes.get(name, ()))) for name in SERVICES)
        traffic = self._traffic(placement, self._users)
        self._past.append(Stretch(self._since, now, traffic, self._serving))
        self._since = now

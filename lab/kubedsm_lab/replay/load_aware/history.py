"""Modelled resource usage of nodes and pods over time, while pods come and go.

`ModelledPrometheus` returns its means to the scheduler, as Prometheus would.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs
import numpy as np

from kubedsm.app.load_reading import KINDS
from kubedsm.app.prometheus import Answers, Sample, Vector
from kubedsm.config.load_aware import LoadAware
from kubedsm.model.model import Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.load_aware.application import CAPACITY, NODES, SERVICES, Floats
from kubedsm_lab.replay.load_aware.model import Placement, Traffic
from kubedsm_lab.replay.recording import Serving, serving_after

T = TypeVar("T")
#: units of a query per core: millicores
_UNITS = {"cpu": 1000.0}


@attrs.frozen(eq=False)
class Stretch:
    """Interval in which traffic and serving pods of the modelled application are constant; times in
    seconds.
    """

    since: float
    until: float
    traffic: Traffic
    serving: Mapping[Uid, Serving]


class LoadHistory:
    """History of the modelled resource usage: observes pods through store changes (`notice`), and
    models the users' traffic.

    `traffic` returns the traffic of a number of users under a placement of the pods.
    """

    def __init__(self, traffic: Callable[[Placement, int], Traffic]) -> None:
        self._traffic = traffic
        self._users = 0
        self._since = 0.0
        self._serving: Mapping[Uid, Serving] = {}
        self._past: list[Stretch] = []

    def notice(self, change: ObjectChange, now: float) -> None:
        serving = serving_after(self._serving, change, SERVICES)
        if serving is not self._serving:
            self._close_stretch(now)
            self._serving = serving

    def set_users(self, users: int, now: float) -> None:
        """Set the number of simulated users from time `now` (seconds) on."""
        self._close_stretch(now)
        self._users = users

    def between(self, since: float, until: float) -> list[Stretch]:
        """Return the intervals of constant traffic between two times in seconds; `until` is not in
        the future.
        """
        self._close_stretch(until)
        return [
            attrs.evolve(each, since=max(each.since, since), until=min(each.until, until))
            for each in self._past
            if min(each.until, until) > max(each.since, since)
        ]

    def means(self, now: float, window: float) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return the mean consumption of nodes and of pods by name, in units of CAPACITY.

        Means are over the last `window` seconds; for a pod, over its serving part of the window.
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

    def _close_stretch(self, now: float) -> None:
        if now <= self._since:
            return
        nodes: dict[str, list[int]] = {}
        for pod in self._serving.values():
            nodes.setdefault(pod.service, []).append(NODES.index(pod.node))
        placement = tuple(tuple(sorted(nodes.get(name, ()))) for name in SERVICES)
        traffic = self._traffic(placement, self._users)
        self._past.append(Stretch(self._since, now, traffic, self._serving))
        self._since = now


@attrs.frozen
class ModelledPrometheus:
    """`Asker` that responds with a history's means over the configured window."""

    history: LoadHistory
    clock: Clock

    async def ask(
        self,
        whom: LoadAware,
        queries: Mapping[str, str],
        _seconds: float,
        _most: int,
        then: Callable[[Answers], T],
    ) -> T:
        """Return the modelled results of the queries (`Asker.ask`)."""
        found = self._make_vectors(whom.window)
        return then({name: found[name] for name in queries})

    def _make_vectors(self, window: float) -> dict[str, Vector]:
        at, (nodes, pods) = self.clock.wall(), self.history.means(self.clock.monotonic(), window)
        found: dict[str, Vector] = {}
        for number, kind in enumerate(KINDS):
            unit = _UNITS.get(kind, 1.0)
            for query, label, usage in (("node", "instance", nodes), ("pod", "pod", pods)):
                found[f"{query}_{kind}"] = tuple(
                    Sample({"namespace": NAMESPACE, label: name}, unit * float(used[number]), at)
                    for name, used in usage.items()
                )
        return found

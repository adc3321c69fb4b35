"""The service's pods as the model has them, and what metrics-server would see of them."""

import random
from collections.abc import Mapping

from kubedsm.model.model import Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.api.store import ObjectChange
from kubedsm_lab.replay.hpa.processor_sharing import ClosedLoop
from kubedsm_lab.replay.hpa.service import NAME, TIMEOUT
from kubedsm_lab.replay.serving import Serving, serving_after
from loadgen.recovery import Window


class ModelledService:
    """To be subscribed to the store with `notice`; `usage` is a cluster's source of figures.

    demand: core-seconds of a request.
    """

    def __init__(self, clock: Clock, demand: float) -> None:
        self._clock = clock
        self._loop = ClosedLoop(demand, TIMEOUT)
        self._serving: Mapping[Uid, Serving] = {}
        #: by pod: when it was asked about last, and what it had used by then
        self._asked: dict[Uid, tuple[float, float]] = {}

    def notice(self, change: ObjectChange) -> None:
        serving = serving_after(self._serving, change, {NAME})
        if serving is not self._serving:
            self._serving = serving
            nodes = {uid: pod.node for uid, pod in serving.items()}
            self._loop.have(nodes, self._clock.monotonic())

    async def window(self, clients: int, seconds: float, rng: random.Random) -> Window:
        """What so many clients see for so long, with connections of their own."""
        self._loop.begin(clients, rng, self._clock.monotonic())
        await self._clock.sleep(seconds)
        return self._loop.window(self._clock.monotonic())

    def usage(self, _namespace: str, pod: str, resource: str) -> float | None:
        """As `metrics_server.Usage`. Of a pod that is asked about for the first time, nothing."""
        uid = next((uid for uid, each in self._serving.items() if each.name == pod), None)
        if uid is None or resource != "cpu":
            return None
        now = self._clock.monotonic()
        self._loop.advance(now)
        used = self._loop.used.get(uid, 0.0)
        before, self._asked[uid] = self._asked.get(uid), (now, used)
        if before is None or before[0] == now:
            return None
        return (used - before[1]) / (now - before[0])

"""Where autoscalers learn what pods use: all that run are looked at every 15 s.

As by metrics-server: so a figure is up to 15 s old, and a pod that has just started has none.
"""

import math
from collections.abc import Callable, Mapping

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.actors.cache import Cache, Key, key_of
from kubedsm_lab.emulator.actors.controller import Controller
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import PODS

#: seconds from one look to the next, which a figure is the mean of
PERIOD = 15.0
#: (namespace, pod, resource) → cores of `cpu` or bytes of `memory` that the pod has used on average
#: since it was asked about 15 s ago; None if nothing is known yet
Usage = Callable[[str, str, str], float | None]

_LOOK: Key = ("", "")
_RESOURCES = ("cpu", "memory")


@attrs.frozen
class Sample:
    """What one pod uses."""

    #: seconds since the epoch
    at: float
    #: thousandths of cores and of bytes, rounded up
    amounts: Mapping[str, int]


class MetricsServer(Controller):
    """Its `samples` are what metrics.k8s.io would answer, of the last look."""

    def __init__(self, api: ApiServer, cache: Cache, clock: Clock, usage: Usage) -> None:
        super().__init__(api, cache, clock)
        self._usage = usage
        self.samples: Mapping[Key, Sample] = {}
        self.enqueue(_LOOK)

    def reconcile(self, key: Key) -> None:
        self.enqueue_after(key, PERIOD)
        found = {}
        for pod in self.cache.all(PODS):
            if pod["status"].get("phase") == "Running":
                amounts = self._amounts(*key_of(pod))
                if amounts:
                    found[key_of(pod)] = Sample(self.clock.wall(), amounts)
        self.samples = found

    def _amounts(self, namespace: str, pod: str) -> dict[str, int]:
        used = {name: self._usage(namespace, pod, name) for name in _RESOURCES}
        return {
            # Of whole thousand-millionths first: .3 cores are 300m, whatever floats make of them.
            name: -(-round(1e9 * amount) // 10**6)
            for name, amount in used.items()
            if amount is not None and math.isfinite(1e9 * amount)
        }

"""What Prometheus would say of the nodes and pods: their history, told in its place."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs

from kubedsm.app.load_reading import KINDS
from kubedsm.app.prometheus import Answers, Sample, Vector
from kubedsm.config.load_aware import LoadAware
from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.paper import NAMESPACE
from kubedsm_lab.replay.load_aware.history import LoadHistory

T = TypeVar("T")

#: what a core is in what is asked for: millicores
_UNITS = {"cpu": 1000.0}


@attrs.frozen
class ModelledPrometheus:
    """An `Asker` that knows the means over the window that is asked for."""

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
        """As `Asker.ask`."""
        found = self._vectors(whom.window)
        return then({name: found[name] for name in queries})

    def _vectors(self, window: float) -> dict[str, Vector]:
        at, (nodes, pods) = self.clock.wall(), self.history.means(self.clock.monotonic(), window)
        found: dict[str, Vector] = {}
        for number, kind in enumerate(KINDS):
            unit = _UNITS.get(kind, 1.0)
            for query, label, of in (("node", "instance", nodes), ("pod", "pod", pods)):
                found[f"{query}_{kind}"] = tuple(
                    Sample({"namespace": NAMESPACE, label: name}, unit * float(used[number]), at)
                    for name, used in of.items()
                )
        return found

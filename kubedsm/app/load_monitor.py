"""Asks Prometheus, period by period, and has the mirror know what it says.

What a query said is used until it is answered anew, or for `STALE` periods; then it is not known
any more, and once nothing is, pods are placed as if nobody had measured anything. A failure costs
no more than that. It is counted each time, and told in an Event when something is not known any
more that was asked for, and when all of it is known again.

Only a leader asks: a standby needs to know nothing, and knows all a moment after it is elected.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial

import attrs
import structlog

from kubedsm.app.load_queries import Known, Round, taken_in
from kubedsm.app.load_reading import queries_of
from kubedsm.app.prometheus import Asker
from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.load_aware import LoadAware
from kubedsm.config.settings import Configuration
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.explain.listener import Listener
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Measured
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.clock import Clock
from kubedsm.process.log_throttle import SaidByCause
from kubedsm.scheduling.scheduling_queue import RESOLUTION

log = structlog.get_logger()

#: seconds that all queries together may take
BUDGET = 10.0
#: bytes of the answers to all queries together; more only in a cluster that needs them: four series
#: of a pod take about 500
BYTES, BYTES_EACH = 4 * 2**20, 768


@attrs.define
class LoadMonitor:
    mirror: ClusterMirror
    configuration: CurrentConfiguration
    clock: Clock
    asker: Asker
    #: takes each sample
    handle: Callable[[MeasuredApplied], None]
    recorder: EventRecorder
    #: on which it is told what is not known any more
    config_map: FollowedConfigMap
    listener: Listener
    said: SaidByCause
    _known: Mapping[str, Known] = attrs.field(factory=dict, init=False)
    #: what was told last of what is not known
    _missing: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.configuration.observe(self._changed)

    def _changed(self, before: Configuration) -> None:
        """Forget what was asked elsewhere, and ask at once what is to be asked now."""
        after = self.configuration.current
        if _asked(before) == _asked(after):
            return
        if not after.load_aware.prometheus or _whom(before.load_aware) != _whom(after.load_aware):
            self._known, self._missing = {}, frozenset()
            self._apply(NOTHING_MEASURED)
        self._reconfigured.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            began = self.clock.monotonic()
            self._reconfigured.clear()
            load = self.configuration.current.load_aware
            if load.prometheus:
                await self._ask()
            pause = load.period - (self.clock.monotonic() - began) if load.prometheus else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause if pause is None else max(pause, RESOLUTION)):
                    await self._reconfigured.wait()

    async def _ask(self) -> None:
        configuration = self.configuration.current
        load, queries = configuration.load_aware, queries_of(configuration)
        snapshot = self.mirror.snapshot()
        then = partial(taken_in, load, queries, self._known, snapshot, self.clock.wall)
        most = max(BYTES, BYTES_EACH * (len(snapshot.nodes) + len(snapshot.pods)))
        round_ = await self.asker.ask(load, queries, BUDGET, most, then)
        if _asked(configuration) != _asked(self.configuration.current):
            return  # it is asked anew at once
        for query, result in round_.results.items():
            self.listener.load_asked(query, result)
        for query, why in round_.wrong.items():
            self.said.log(log.warning, "load not measured", why, query=query)
        less = round_.known.keys() != self._known.keys()
        self._known = round_.known
        if not round_.known:
            self._apply(NOTHING_MEASURED)
        elif round_.news or less:
            self._apply(round_.measured)
        self._tell(queries, round_)

    def _apply(self, measured: Measured) -> None:
        if measured.at or self.mirror.snapshot().measured.at:
            self.handle(MeasuredApplied(measured))

    def _tell(self, queries: Mapping[str, str], round_: Round) -> None:
        missing = frozenset(queries.keys() - round_.known.keys())
        if missing == self._missing:
            return
        news = bool(missing - self._missing) or not missing
        self._missing = missing
        if not news:
            return  # some of it is known again; more will be, or has been told
        text = round_.in_a_line(missing)
        if missing:
            log.warning("load not known", error=text)
        else:
            log.info("load known", queries=len(queries))
        if self.config_map.found is not None:
            self.recorder.load_told(self.config_map.found, text)


def _asked(configuration: Configuration) -> object:
    """All by which it is asked."""
    return configuration.load_aware, queries_of(configuration)


def _whom(load: LoadAware) -> object:
    return load.prometheus, load.node_label

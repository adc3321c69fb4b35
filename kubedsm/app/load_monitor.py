"""Monitor that queries Prometheus periodically, and passes the measured load to the mirror.

The result of a query is used until the next result, or for `STALE` periods. Without any result,
placement relies on resource requests. Failures are counted. Events report stale results, and the
recovery of all queries.

Only the leader queries: a new leader has all results immediately after the election.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs
import structlog

from kubedsm.app.load_reading import (
    DEMAND,
    LATENCY,
    OPTIONAL,
    REQUESTS,
    SECONDS,
    Reading,
    queries_of,
    read_load,
    select_usable,
)
from kubedsm.app.prometheus import Answers, Asker, Failure, Vector
from kubedsm.config.load_aware import LoadAware
from kubedsm.config.settings import Configuration
from kubedsm.events.controller import Controller
from kubedsm.explain.listener import LoadResult
from kubedsm.kube.watching.config_map import FollowedConfigMap
from kubedsm.model.events import MeasuredApplied
from kubedsm.model.measured import NOTHING_MEASURED, Measured
from kubedsm.model.snapshot import Snapshot
from kubedsm.process.clock import RESOLUTION, ends_within

log = structlog.get_logger()

#: maximum seconds for all queries together
BUDGET = 10.0
#: bytes of all responses together, more in a large cluster: four series of a pod take about 500
BYTES, BYTES_EACH = 4 * 2**20, 768
#: staleness limit of a measurement, in periods
STALE = 3
NOTHING = "no series; an empty query disables it"
_LOAD_KNOWN = "All Prometheus queries return data again"
ELSEWHERE = "no series belongs to a node or pod of this cluster"
#: causes, and queries of each cause, in a message
_MOST_SHOWN = 3


@attrs.frozen
class Known:
    """Last usable result of a Prometheus query, with its time in seconds since the epoch."""

    query: str
    vector: Vector
    at: float


@attrs.frozen
class Round:
    #: by query, like the other fields
    known: Mapping[str, Known]
    results: Mapping[str, LoadResult]
    #: explanations of unusable results
    wrong: Mapping[str, str]
    measured: Measured

    @property
    def news(self) -> bool:
        """True if this round of Prometheus queries returned at least one usable result."""
        return any(each.at == self.measured.at for each in self.known.values())

    def in_a_line(self, missing: Iterable[str]) -> str:
        """Summarise on one line why Prometheus queries returned no usable result, and the
        consequence; empty if all did.
        """
        by_cause: dict[str, list[str]] = {}
        for name in sorted(missing):
            by_cause.setdefault(self.wrong.get(name, ""), []).append(name)
        causes = [
            f"{', '.join(names[:_MOST_SHOWN])}{' and others' * (len(names) > _MOST_SHOWN)}: {why}"
            for why, names in list(by_cause.items())[:_MOST_SHOWN]
        ]
        placed = "" if self.measured.nodes else "; pods are placed by their requests"
        return f"{'; '.join(causes)}{placed}" if causes else ""


def combine_answers(
    load: LoadAware,
    queries: Mapping[str, str],
    before: Mapping[str, Known],
    snapshot: Snapshot,
    now: Callable[[], float],
    answers: Answers,
    site_labels: Sequence[str] = (),
) -> Round:
    """Combine new Prometheus query results with recent earlier results of the failed queries. Pure,
    and therefore safe in any thread.
    """
    at, oldest = now(), STALE * load.period
    known = {
        name: was
        for name, was in before.items()
        if was.query == queries.get(name) and abs(at - was.at) <= oldest
    }
    results: dict[str, LoadResult] = {}
    wrong: dict[str, str] = {}
    for name, answer in answers.items():
        if isinstance(answer, Failure):
            results[name], wrong[name] = "failed", answer.reason
            continue
        vector, unusable = select_usable(name, answer, at, oldest)
        results[name], why = _classify_samples(vector, unusable)
        if why:
            wrong[name] = why
        if vector or name in OPTIONAL:
            known[name] = Known(queries[name], vector, at)
    vectors = {name: each.vector for name, each in known.items()}
    reading = read_load(vectors, snapshot, load.node_label, at, site_labels)
    for name in [name for name, each in known.items() if each.at == at and each.vector]:
        result, why = _classify_objects(reading, name)
        if result is not None:
            results[name], wrong[name] = result, why
        if result == "empty" and name not in OPTIONAL:
            del known[name]
    timed = (known[name].at for name in (SECONDS, REQUESTS) if name in known)
    measured = attrs.evolve(
        reading.measured,
        window=load.window,
        answered=min(timed, default=at),
        demand_answered=DEMAND in known or DEMAND not in queries,
        latency_answered=bool(reading.measured.latency) or LATENCY not in queries,
    )
    return Round(known, results, wrong, measured)


def _classify_samples(vector: Vector, unusable: str) -> tuple[LoadResult, str]:
    """Classify a query result by its valid samples; return the metric label and the reason."""
    if unusable:
        return "partial" if vector else "empty", f"not used: {unusable}"
    return ("answered", "") if vector else ("empty", NOTHING)


def _classify_objects(reading: Reading, name: str) -> tuple[LoadResult | None, str]:
    """Classify a query result by the nodes or pods that it matches; return (None, "") if usable."""
    used, doubled = reading.used[name], reading.doubled[name]
    if doubled:
        why = f"not used: {doubled} with several series"
        return "partial" if used else "empty", why
    return (None, "") if used else ("empty", ELSEWHERE)


@attrs.define
class LoadMonitor(Controller):
    asker: Asker
    #: applies each sample
    apply: Callable[[MeasuredApplied], None]
    #: object of the Events about stale results
    config_map: FollowedConfigMap
    _known: Mapping[str, Known] = attrs.field(factory=dict, init=False)
    #: queries without results at the last report
    _missing: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _reconfigured: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.configuration.observe(self._apply_configuration)

    def _apply_configuration(self, before: Configuration) -> None:
        """After a configuration change, drop another Prometheus's results, and query at once."""
        after = self.configuration.current
        if _query_inputs(before) == _query_inputs(after):
            return
        load = after.load_aware
        if not load.prometheus or _server_of(before.load_aware) != _server_of(load):
            self._known, self._missing = {}, frozenset()
            self._apply_sample(NOTHING_MEASURED)
        self._reconfigured.set()

    async def run(self) -> None:
        """Query Prometheus periodically, until cancelled."""
        while True:
            began = self.clock.monotonic()
            self._reconfigured.clear()
            load = self.configuration.current.load_aware
            if load.prometheus:
                await self._run_queries()
            pause = load.period - (self.clock.monotonic() - began) if load.prometheus else None
            pause = pause if pause is None else max(pause, RESOLUTION)
            await ends_within(pause, self._reconfigured.wait())

    async def _run_queries(self) -> None:
        configuration = self.configuration.current
        load, queries = configuration.load_aware, queries_of(configuration)
        snapshot = self.mirror.snapshot()
        then = partial(
            combine_answers,
            load,
            queries,
            self._known,
            snapshot,
            self.clock.wall,
            site_labels=configuration.site.label,
        )
        most = max(BYTES, BYTES_EACH * (len(snapshot.nodes) + len(snapshot.pods)))
        round_ = await self.asker.ask(load, queries, BUDGET, most, then)
        if _query_inputs(configuration) != _query_inputs(self.configuration.current):
            return  # the changed queries are sent at once
        for query, result in round_.results.items():
            self.listener.load_asked(query, result)
        for query, why in round_.wrong.items():
            self.throttle.log(log.warning, "load not measured", why, query=query)
        less = round_.known.keys() != self._known.keys()
        self._known = round_.known
        if not round_.known:
            # Without any answer, the last demand and latencies by site are better than none.
            lost = attrs.evolve(
                NOTHING_MEASURED,
                demand_answered=DEMAND not in queries,
                latency_answered=LATENCY not in queries,
            )
            self._apply_sample(lost)
        elif round_.news or less:
            self._apply_sample(round_.measured)
        self._report_missing(queries, round_)

    def _apply_sample(self, measured: Measured) -> None:
        if measured.at or self.mirror.snapshot().measured.at:
            self.apply(MeasuredApplied(measured))

    def _report_missing(self, queries: Mapping[str, str], round_: Round) -> None:
        missing = frozenset(queries.keys() - round_.known.keys())
        if missing == self._missing:
            return
        news = bool(missing - self._missing) or not missing
        self._missing = missing
        if not news:
            return  # some results are back; the others follow, or were reported
        text = round_.in_a_line(missing)
        if missing:
            log.warning("load not known", error=text)
        else:
            log.info("load known", queries=len(queries))
        if self.config_map.found is not None:
            reason = "LoadUnknown" if text else "LoadKnown"
            self.recorder.record_event(reason, self.config_map.found, text or _LOAD_KNOWN)


def _query_inputs(configuration: Configuration) -> object:
    """Return the configuration values that determine the Prometheus queries, to detect changes."""
    return configuration.load_aware, configuration.site.label, queries_of(configuration)


def _server_of(load: LoadAware) -> object:
    return load.prometheus, load.node_label

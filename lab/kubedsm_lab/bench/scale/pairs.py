"""`kubedsm bench scale`: cost of decoding, deciding and suggesting, each against an alternative.

Decoding is compared with kubernetes_asyncio's typed models of the same bytes. Decisions and
suggestions are compared with the same computation on a snapshot without cached aggregates.
Decisions with demand or resilience at 100 sites are compared with one pool.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from types import SimpleNamespace
from typing import Any, TypeVar

import attrs
import numpy as np
import orjson
from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.watch import Watch
from rich.console import RenderableType

from kubedsm.config.sections import SolverSettings
from kubedsm.config.services import EVERY_SERVICE, Service
from kubedsm.config.settings import Configuration
from kubedsm.kube.watching.reflector import PAGE_SIZE
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.schema import List
from kubedsm.model.deadline import PATIENT_SHARE, URGENT_SHARE, Deadline
from kubedsm.model.events import PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Pod, Tier
from kubedsm.model.snapshot import Snapshot
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench.report import (
    DisagreementError,
    Report,
    format_duration,
    measure_cpu,
    measure_with_solvers,
)
from kubedsm_lab.bench.scale import running
from kubedsm_lab.bench.scale.world import (
    SITES,
    Batch,
    Size,
    build_mirror,
    without_aggregates,
)
from kubedsm_lab.bench.watched_pods import watch_line

T = TypeVar("T")
#: computation on a snapshot, as configured
Work = Callable[[Configuration, Snapshot], object]

LINES = 200
BATCHES = (Batch(1, 1), Batch(200, 8), Batch(500, 1), Batch(500, 8))
#: Seconds that a solver may take for its work.
_PATIENCE = 3600.0
#: Without a solver, and with the default solver.
_CONFIGURATION = Configuration(solver=SolverSettings(kind="off"))
_CONFIGURATIONS = {"": Configuration(), ", solver off": _CONFIGURATION}


@attrs.frozen(slots=True)
class Pair:
    """Comparison of one operation in KubeDSM and in an alternative implementation: median CPU ms of
    both, and their median ratio.
    """

    what: str
    rounds: int
    ours: float
    beside: float
    ratio: float
    #: (processed, total) if the other form's cost is extrapolated from a part
    sampled: tuple[int, int] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "rounds": self.rounds,
            "ms": round(self.ours, 3),
            "besideMs": round(self.beside, 3),
            "ratio": round(self.ratio, 2),
            **({"besideSampled": list(self.sampled)} if self.sampled else {}),
        }


def run(size: Size, *, rounds: int, suggestions: int, seconds: float) -> Report:
    """Measure the operations at one cluster size and return the report; with `seconds`, also run a
    scheduler process for that long.

    Must not be called from a running event loop. Raises DisagreementError if two implementations
    differ, and the errors of `running.run`.
    """
    pairs = (
        asyncio.run(compare_watch_lines(rounds)),
        asyncio.run(_compare_list(size.pods)),
        *_compare_decisions(size, rounds, suggestions),
    )
    headings = ("ms of CPU, medians", "KubeDSM", "other form", "ratio")
    rows = (
        (pair.what, f"{pair.ours:,.2f}", f"{pair.beside:,.2f}", f"{pair.ratio:.2f}")
        for pair in pairs
    )
    figures = {
        "nodes": size.nodes,
        "pods": size.pods,
        "paired": [pair.as_json() for pair in pairs],
        "running": None,
    }
    tables: list[RenderableType] = [table(headings, rows, title=str(size), numbers=headings[1:])]
    notes = [
        (
            "Other form: kubernetes_asyncio's typed models for reading; a snapshot without cached"
            " aggregates for decisions and suggestions; one pool for demand by site,"
            " and the next decision for the first one. Solvers are included. Work is limited as by"
            " `kubedsm run`, but time is not."
        ),
        *(
            f"{pair.what}, other form: {format_duration(pair.beside / 1e3)}, extrapolated from"
            f" {pair.sampled[0]:,} of {pair.sampled[1]:,} pods."
            for pair in pairs
            if pair.sampled
        ),
    ]
    if seconds:
        process = asyncio.run(running.run(size, seconds))
        figures["running"] = process.figures
        tables += process.tables
        notes += process.notes
    return Report(figures, tables, notes)


def fit_growth(figures: Sequence[Mapping[str, Any]]) -> Report:
    """Fit CPU = c * nodes^k for each operation that was measured at all sizes of clusters.

    `figures` are those of `run`, one for each size. The exponents k are least-squares fits of the
    logarithms: 1 is linear growth.
    """
    nodes = np.log([each["nodes"] for each in figures])
    costs = [{pair["what"]: pair["ms"] for pair in each["paired"]} for each in figures]
    exponents = {
        what: round(float(np.polyfit(nodes, np.log([cost[what] for cost in costs]), 1)[0]), 2)
        for what in costs[0]
        if all(cost.get(what) for cost in costs)
    }
    headings = ("growth of CPU with nodes, pods in proportion", "exponent")
    rows = ((what, f"{exponent:.2f}") for what, exponent in exponents.items())
    return Report({"exponents": exponents}, [table(headings, rows, numbers=headings[1:])])


def compare(
    what: str,
    rounds: int,
    ours: Callable[[], T],
    beside: Callable[[], T],
    between: Callable[[], object] = lambda: None,
) -> Pair:
    """Measure the CPU time of two implementations alternately; `between` is called before each
    measurement.

    Raises DisagreementError if their results differ.
    """
    costs = []
    for _ in range(rounds):
        between()
        result, our_seconds = measure_with_solvers(ours)
        between()
        other_result, other_seconds = measure_with_solvers(beside)
        if result != other_result:
            raise DisagreementError(f"{what}: the results of both forms differ")
        costs.append((1000 * our_seconds, 1000 * other_seconds))
    return Pair(
        what,
        rounds,
        median(mine for mine, _ in costs),
        median(theirs for _, theirs in costs),
        median(theirs / mine for mine, theirs in costs),
    )


async def compare_watch_lines(rounds: int) -> Pair:
    """Compare parsing pod watch lines by KubeDSM's decoder and by kubernetes_asyncio's `Watch`."""
    rng = random.Random(0)
    lines = [watch_line(rng) for _ in range(LINES)]
    async with Watch("V1Pod") as watch:

        def decode() -> None:
            for line in lines:
                decoding.PODS.reader.line(line)

        def build_models() -> None:
            for line in lines:
                watch.unmarshal_event(line.decode("utf8"), "V1Pod")

        for line in lines:
            read = decoding.PODS.reader.line(line)
            model = watch.unmarshal_event(line.decode("utf8"), "V1Pod")["object"]
            if not isinstance(read, decoding.Applied) or read.object.uid != model.metadata.uid:
                raise DisagreementError(f"both forms read different pods from {line!r}")
        return compare(f"parse {LINES:,} watch lines", rounds, decode, build_models)


async def _compare_list(pods: int) -> Pair:
    """Compare listing all pods into an empty mirror with decoding typed models.

    The cost of typed models is extrapolated from one page.
    """
    rng, mirror, ours = random.Random(0), ClusterMirror(), 0.0
    for first in range(0, pods, PAGE_SIZE):
        body = _encode_page(rng, min(PAGE_SIZE, pods - first))
        ours += measure_cpu(partial(_apply_page, mirror, body))[1]
    count = min(PAGE_SIZE, pods)
    async with ApiClient() as client:
        page = SimpleNamespace(data=_encode_page(rng, count))
        models = measure_cpu(partial(client.deserialize, page, "V1PodList"))[1] * pods / count
    sampled = (count, pods) if count < pods else None
    return Pair("list all pods", 1, 1000 * ours, 1000 * models, models / ours, sampled)


def _apply_page(mirror: ClusterMirror, body: bytes) -> None:
    for item in decoding.read_json("PodList", body, List).items or ():
        mirror.apply(PodApplied(decoding.PODS.reader.item(item).object))


def _encode_page(rng: random.Random, count: int) -> bytes:
    items = [orjson.loads(watch_line(rng))["object"] for _ in range(count)]
    return orjson.dumps({"metadata": {"resourceVersion": "1"}, "items": items})


def _compare_decisions(size: Size, rounds: int, suggestions: int) -> Iterator[Pair]:
    """Compare placement decisions on each batch, then migration suggestions, with and without the
    mirror's cached aggregates; then the same of many sites with those of one pool.
    """
    mirror = build_mirror(size)
    yield _compare_first_decision(mirror)
    aggregates, sites = partial(_compare_aggregates, mirror), partial(_compare_sites, mirror)
    for compare_ways in (aggregates, sites):
        for batch in BATCHES:
            waiting = batch.pending_pods()
            for pod in waiting:
                mirror.apply(PodApplied(pod))
            decide = partial(_decide_batch, waiting)
            yield from compare_ways(f"decide {batch}", rounds, decide)
            for pod in waiting:
                mirror.apply(PodDeleted(pod.uid, pod.namespace, pod.name))
        if suggestions:
            yield from compare_ways("suggest", suggestions, _suggest)


def _compare_aggregates(
    mirror: ClusterMirror, what: str, rounds: int, work: Work
) -> Iterator[Pair]:
    """Compare a computation with and without cached aggregates, as configured by default and
    without a solver; a pod event precedes each.
    """
    touch = _touch_pods(mirror)

    def compute(configuration: Configuration, view: Callable[[Snapshot], Snapshot]) -> object:
        next(touch)
        return work(configuration, view(mirror.snapshot()))

    for how, configuration in _CONFIGURATIONS.items():
        cached = partial(compute, configuration, lambda snapshot: snapshot)
        counted = partial(compute, configuration, without_aggregates)
        yield compare(f"{what}{how}", rounds, cached, counted)


def _compare_sites(mirror: ClusterMirror, what: str, rounds: int, work: Work) -> Iterator[Pair]:
    """Compare a computation with demand, or resilience, at all sites with that of one pool."""
    weights = {site: 1.0 + number % 5 for number, site in enumerate(SITES)}
    ways = {
        "": Service(qos=1.0, weight=1.0, demand=weights),
        " with resilience": Service(qos=1.0, weight=1.0, resilience={"site": 0.5}),
    }

    def compute(configuration: Configuration) -> None:  # the results differ
        work(configuration, mirror.snapshot())

    for how, service in ways.items():
        by_site = attrs.evolve(_CONFIGURATION, services={EVERY_SERVICE: service})
        yield compare(
            f"{what}, {len(SITES)} sites{how}",
            rounds,
            partial(compute, by_site),
            partial(compute, _CONFIGURATION),
            partial(next, _touch_pods(mirror)),
        )


def _compare_first_decision(mirror: ClusterMirror) -> Pair:
    """Compare the first decision on a pod after the start with the second one."""
    index = mirror.snapshot().index
    # `kubedsm run` counts these once all objects are listed.
    _ = index.zones, *map(index.of_tier, Tier)
    decide = partial(_decide_batch, BATCHES[0].pending_pods(), Configuration())
    touch = _touch_pods(mirror)
    costs = []
    for _ in range(2):
        next(touch)
        costs.append(1000 * measure_cpu(lambda: decide(mirror.snapshot()))[1])
    first, second = costs
    return Pair("first decision, 1 pod", 1, first, second, second / first)


def _decide_batch(waiting: list[Pod], configuration: Configuration, seen: Snapshot) -> object:
    deadline = _limit_work(max(configuration.batch.budget, configuration.solver.budget))
    return configuration.policy.decide_batch(seen, seen.schedulable(waiting), deadline)


def _suggest(configuration: Configuration, seen: Snapshot) -> object:
    deadline = _limit_work(configuration.suggester.budget, PATIENT_SHARE)
    return configuration.policy.suggest(seen, lambda _: None, deadline)


def _limit_work(seconds: float, share: float = URGENT_SHARE) -> Deadline:
    """Return a deadline by counted work alone: on a busy machine a solver would otherwise find
    less for one side than for the other.
    """
    return attrs.evolve(Deadline.within(seconds, lambda: 0.0, share), time_left=lambda: _PATIENCE)


def _touch_pods(mirror: ClusterMirror) -> Iterator[None]:
    """Update the resourceVersion of one pod of the mirror per iteration; the change influences no
    decision.
    """
    for version, pod in enumerate(itertools.cycle(mirror.pods()), 1):
        mirror.apply(PodApplied(attrs.evolve(pod, resource_version=str(version))))
        yield

"""Recording of a real cluster under load, by watches like the scheduler's.

Times are those of watch events, by the clock of this process: clocks of nodes differ, and the API's
timestamps have a resolution of one second.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgspec

from kubedsm.config.documents import DocumentError, content, reading
from kubedsm.kube.client.port import APPS, CORE, Cluster, path_of
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.wire.decoding import Watched
from kubedsm.model.model import Tier
from kubedsm.process.clock import Clock, ends_within
from kubedsm_lab.documents import json_as
from kubedsm_lab.replay.measures import Answers, ResponseTimes
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.sightings import READERS, Gone, Sighting
from loadgen.measures import Latency, Served

#: seconds by which the load may end later: it started later, and waits for responses
PATIENCE = 120.0
#: seconds between two checks for loadgen's report
LOOK = 0.5
#: seconds of load outside the recording that are reported; clocks of two machines differ by less
GAP = 2.0


@attrs.frozen
class Plan:
    #: length of the recording in seconds; the load's report ends the recording earlier
    seconds: float
    #: file that `loadgen run -o json` writes
    load_report: Path | None = None


@asynccontextmanager
async def follow_cluster(
    cluster: Cluster,
    recorder: TimelineRecorder,
    clock: Clock,
    rng: random.Random,
    report: Callable[[str], None],
) -> AsyncGenerator[None]:
    """Feed the recorder with a cluster's existing objects, then with their changes during the
    block.

    Raises ClusterError if the objects cannot be listed.
    """

    def take(seen: Sighting) -> None:
        recorder.take(seen, clock.monotonic())

    async with asyncio.TaskGroup() as tasks:
        following = []
        for watched in _list_watched(recorder.namespace):
            reflector = Reflector(cluster, watched, clock, rng, take, lambda: None, report)
            await reflector.list_once()
            following.append(tasks.create_task(reflector.run()))
        yield
        for task in following:
            task.cancel()


def _list_watched(namespace: str) -> Iterator[Watched[Any, Sighting]]:
    """Yield the watches to open for a recording: nodes, Deployments, and pods of all namespaces."""
    paths = {"Node": f"{CORE}/nodes", "Pod": f"{CORE}/pods"}
    for kind, reader in READERS.items():
        path = paths.get(kind) or path_of(APPS, namespace, "deployments")
        yield Watched(reader, path, lambda seen: seen, partial(Gone, kind))


async def record_until_end(
    recorder: TimelineRecorder,
    plan: Plan,
    stop: asyncio.Event,
    clock: Clock,
    say: Callable[[str], None],
) -> tuple[Record, Answers]:
    """Record the cluster until the plan's end or `stop`; return the record and the load generator's
    response latencies.

    With a load report, the record begins and ends with the load. Load outside the recording has no
    response times, as these would cover another interval than the shares. `say` is called with the
    reason if there are none.
    """
    began, epoch = clock.monotonic(), clock.wall() - clock.monotonic()
    load = await _wait_for_end(plan, stop, clock, say)
    ended = clock.monotonic()
    if load is None:
        return recorder.record(began, ended), Answers()
    start, end = max(began, load.start - epoch), min(ended, load.end - epoch)
    if start >= end:
        say(f"{plan.load_report}: is of load at another time; no response times")
        return recorder.record(began, ended), Answers()
    record, lasted = recorder.record(start, end), load.end - load.start
    if lasted - (end - start) > GAP:
        recorded = f"{end - start:.1f} s of {lasted:.1f} s of load were recorded"
        say(f"{plan.load_report}: {recorded}; no response times")
        return record, Answers()
    return record, load.answers(recorder.tier_of)


async def _wait_for_end(
    plan: Plan, stop: asyncio.Event, clock: Clock, say: Callable[[str], None]
) -> "LoadReport | None":
    ends = clock.monotonic() + plan.seconds + (PATIENCE if plan.load_report else 0.0)
    while not stop.is_set() and (left := ends - clock.monotonic()) > 0:
        await ends_within(min(LOOK, left) if plan.load_report else left, stop.wait())
        if plan.load_report is not None:
            with suppress(DocumentError):
                return read_load_report(plan.load_report)
    if plan.load_report is None:
        return None
    # The signal that stopped this process may have stopped the load generator as well.
    await clock.sleep(2 * LOOK)
    try:
        return read_load_report(plan.load_report)
    except DocumentError as error:
        say(f"{error}; no response times")
        return None


class _Service(msgspec.Struct, frozen=True, rename="camel"):
    requests: int
    answered: int
    latency_ms: Latency | None
    served_by: dict[str, Served]

    def times(self) -> ResponseTimes:
        latency = self.latency_ms
        if latency is None:
            return ResponseTimes()
        return ResponseTimes(round(latency.mean, 3), round(latency.p95, 3))

    def by_tier(self, tier_of: Callable[[str], Tier | None]) -> dict[Tier, float]:
        """Return mean response latencies by tier in ms, over responses that name their server."""
        answered, total = dict.fromkeys(Tier, 0), dict.fromkeys(Tier, 0.0)
        for name, served in self.served_by.items():
            tier = tier_of(name)
            if tier is not None:
                answered[tier] += served.answered
                total[tier] += served.answered * served.mean
        return {tier: round(total[tier] / answered[tier], 3) for tier in Tier if answered[tier]}


class LoadReport(msgspec.Struct, frozen=True):
    """Report of a load generator, as `loadgen run -o json` writes it.

    Format: docs/how-to/generate-load.md.
    """

    began: datetime
    #: duration
    seconds: float
    services: dict[str, _Service]
    total: _Service

    @property
    def start(self) -> float:
        """Return the beginning as a Unix timestamp in seconds, by the clock of loadgen."""
        return self.began.timestamp()

    @property
    def end(self) -> float:
        return self.start + self.seconds

    def answers(self, tier_of: Callable[[str], Tier | None]) -> Answers:
        """Return the load generator's response latencies; `tier_of` maps the name of a responding
        server to its tier.
        """
        services, total = self.services, self.total
        tiers = {name: service.by_tier(tier_of) for name, service in services.items()}
        return Answers(
            {name: service.times() for name, service in services.items() if service.requests},
            total.times(),
            total.requests - total.answered,
            {name: means for name, means in tiers.items() if means},
        )


def read_load_report(path: Path) -> LoadReport:
    """Read the JSON report that `loadgen run -o json` prints. Raises DocumentError."""
    with reading(path):
        report = json_as(content(path), LoadReport)
        if report.began.tzinfo is None:
            raise DocumentError("no time zone", ("began",))
    return report

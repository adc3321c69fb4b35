"""A cluster followed over its API while load is played on it, by watches as the scheduler has them.

Moments are those at which a watch tells, by the clock of this process: clocks of nodes are their
own affair, and the API's timestamps are in whole seconds.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from kubedsm.config.documents import DocumentError
from kubedsm.kube.client.port import (
    APPS,
    CORE,
    Cluster,
    path_of,
)
from kubedsm.kube.joining import TIMEOUT
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import Watched
from kubedsm.kube.wire.decoding import Identity, Reader
from kubedsm.model.model import Uid
from kubedsm.process.clock import Clock
from kubedsm_lab.replay import sightings
from kubedsm_lab.replay.load_report import LoadReport, read
from kubedsm_lab.replay.measures import Answers
from kubedsm_lab.replay.recording import Record, TimelineRecorder
from kubedsm_lab.replay.sightings import DeploymentGone, PodGone, Sighting

#: seconds that load may end after it was to: it began later, and its last answers are waited for
PATIENCE = 120.0
#: seconds between two looks whether loadgen has written its report
LOOK = 0.5


@attrs.frozen
class Plan:
    #: how long to record; the report of the load ends it before, and is waited for
    seconds: float
    #: where `loadgen run` writes its report
    load_report: Path | None = None


@asynccontextmanager
async def followed(
    cluster: Cluster,
    recorder: TimelineRecorder,
    clock: Clock,
    rng: random.Random,
    report: Callable[[str], None],
) -> AsyncGenerator[None]:
    """Enter when the recorder knows of all there is; it is told of whatever happens meanwhile.

    Raises ClusterError or WireError if that cannot be seen.
    """

    def take(seen: Sighting | None) -> None:
        if seen is not None:
            recorder.take(seen, clock.monotonic())

    async with asyncio.TaskGroup() as tasks:
        following = []
        for watched in _watched(recorder.namespace):
            reflector = Reflector(cluster, watched, clock, rng, take, lambda: None, report)
            await reflector.list_once(timeout=TIMEOUT)
            following.append(tasks.create_task(reflector.run()))
        yield
        for task in following:
            task.cancel()


def _watched(namespace: str) -> tuple[Watched[Any, Sighting | None], ...]:
    """Nodes before those who want to be on them; pods of all namespaces, as all take room."""

    def of(
        reader: Reader[Any, Any], path: str, deleted: Callable[[Identity], Sighting | None]
    ) -> Watched[Any, Sighting | None]:
        return Watched(reader.kind, path, reader.item, reader.line, lambda seen: seen, deleted)

    return (
        # What ran on a node that is gone has run there.
        of(sightings.NODES, f"{CORE}/nodes", lambda _: None),
        of(
            sightings.DEPLOYMENTS,
            path_of(APPS, namespace, "deployments"),
            lambda gone: DeploymentGone(gone.namespace, gone.name),
        ),
        of(sightings.PODS, f"{CORE}/pods", lambda pod: PodGone(Uid(pod.uid))),
    )


async def recorded(
    recorder: TimelineRecorder,
    plan: Plan,
    stop: asyncio.Event,
    clock: Clock,
    say: Callable[[str], None],
) -> tuple[Record, Answers]:
    """What happens from now on, until the end that is planned or `stop` is set; how load fared.

    It begins and ends with the load, where there is a report of that. `say` gets a line if there
    should be one and is not.
    """
    began, epoch = clock.monotonic(), clock.wall() - clock.monotonic()
    load = await _ended(plan, stop, clock, say)
    start, end = began, clock.monotonic()
    if load is not None:
        start, end = max(start, load.began - epoch), min(end, load.ended - epoch)
        if start < end:
            return recorder.record(start, end), load.answers(recorder.tier_of)
        say(f"{plan.load_report}: is of load at another time; no response times")
    return recorder.record(began, clock.monotonic()), Answers()


async def _ended(
    plan: Plan, stop: asyncio.Event, clock: Clock, say: Callable[[str], None]
) -> LoadReport | None:
    """Wait for the end; the report of the load, if there is one then."""
    ends = clock.monotonic() + plan.seconds + (PATIENCE if plan.load_report else 0.0)
    while not stop.is_set() and (left := ends - clock.monotonic()) > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(LOOK, left) if plan.load_report else left):
                await stop.wait()
        if plan.load_report is not None:
            with suppress(DocumentError):
                return read(plan.load_report)
    if plan.load_report is None:
        return None
    # Whoever stopped this has perhaps stopped the load at the same moment.
    await clock.sleep(2 * LOOK)
    try:
        return read(plan.load_report)
    except DocumentError as error:
        say(f"{error}; no response times")
        return None

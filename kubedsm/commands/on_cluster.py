"""A cluster itself: it is read, and, on request, what that comes to is carried out."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click
from click.core import ParameterSource

from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import Elector, NotLeadingError
from kubedsm.commands.console import remark, until_interrupted
from kubedsm.commands.electing import Election
from kubedsm.commands.handing_over import NOT_ALL, PAUSED, Handing, Scheduler
from kubedsm.config.settings import Configuration
from kubedsm.explain.client import Answering, SilentError, answering
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.kube.calls.explained_cluster import ExplainedCluster
from kubedsm.kube.calls.verbs import cluster_uid
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import (
    Cluster,
    ClusterError,
    Forbidden,
    NotFound,
    OutcomeUnknown,
)
from kubedsm.kube.client.write_gate import WriteGate
from kubedsm.kube.joining import PATIENCE, TIMEOUT, greet
from kubedsm.kube.watching.reflector import Reflector
from kubedsm.kube.watching.watched import NODES, PODS, SURROUNDINGS, Watched
from kubedsm.kube.wire.errors import WireError
from kubedsm.kube.wire.move_request import RequestedMove
from kubedsm.model.events import ClusterEvent, KindKnown
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.snapshot import Snapshot
from kubedsm.process.clock import Clock, SystemClock
from kubedsm.terminal.running import INTERRUPTED

#: what is to be begun; it ends once all plans have
Act = Callable[[Runtime], Coroutine[Any, Any, None]]


DRY = (
    "nothing was moved: the scheduler that answers on its diagnostics port is a dry run, which"
    " takes no requests; stop it, and try again"
)
#: of what a scheduler cannot be asked for
ALONE = "with optimiser.mode: apply it makes room by itself"


@attrs.frozen
class Errand:
    """What is to be done: here, or by the scheduler that runs, if it can be asked for the moves."""

    act: Act
    proposal: str = ""
    moves: tuple[RequestedMove, ...] = ()


def ask_cluster(
    kubeconfig: Path | None,
    context: str | None,
    configuration: Configuration,
    election: Election | None,
    handing: Handing,
    say: Callable[[Snapshot, Answering | None], Errand | None],
) -> int:
    """Say what there is to be said of the cluster, and have done what that comes to, if anything.

    `say` gets the scheduler of this cluster that answers at the server of `handing`, if one does.
    Returns the exit code. Raises NotLeadingError, ClusterError, WireError or ClickException if it
    may not be done.
    """
    codes = [INTERRUPTED]

    async def ask() -> int:
        clock, rng = SystemClock(), random.Random()
        async with await KubernetesCluster.connect(kubeconfig, context) as cluster:
            asked_once = ExplainedCluster(cluster, cluster.server)
            await greet(asked_once, timeout=TIMEOUT)
            found = await find_scheduler(handing.server, asked_once)
            scheduler = Scheduler(asked_once, handing.config_map, clock)
            if handing.wait and await scheduler.paused(handing.wait):
                return PAUSED
            errand = say(await read_snapshot(asked_once, configuration, clock, rng), found)
            if errand is None:
                return 0
            if await scheduler.paused():
                return PAUSED
            acting = partial(
                carry_out, configuration=configuration, act=errand.act, clock=clock, rng=rng
            )
            elected = None if election is None else election.elector(cluster, clock)
            if found is not None and found.dry_run:
                raise click.ClickException(DRY)
            runs = "one answers on its diagnostics port" if found else ""
            if not runs:
                ends, runs = await _ends(acting, cluster, elected)
            if not runs:
                return _told(ends)
            if errand.moves:
                return await scheduler.asked(errand.proposal, errand.moves)
            raise click.ClickException(f"nothing was moved beside a scheduler: {runs}; {ALONE}")

    async def asked() -> None:
        codes[0] = await ask()

    until_interrupted(asked())
    return codes[0]


def names_scheduler(kubeconfig: Path | None, context: str | None) -> bool:
    """Return whether the user names a scheduler by --server, and no cluster beside it."""
    source = click.get_current_context().get_parameter_source("server")
    return source is not ParameterSource.DEFAULT and kubeconfig is None and context is None


async def describe_scheduler(server: str) -> Answering | None:
    """Return the scheduler that answers at `server`, whichever cluster it serves."""
    try:
        return await answering(server)
    except SilentError as error:
        remark(f"{error}; the cluster is asked instead")
        return None


async def find_scheduler(server: str, cluster: ExplainedCluster) -> Answering | None:
    """Return the scheduler that answers at `server`, if it serves this cluster.

    Another cluster's scheduler is ignored, with a line on stderr. Raises ClickException if the
    clusters cannot be compared.
    """
    found = await describe_scheduler(server)
    if found is None:
        return None
    try:
        uid = await cluster_uid(cluster, timeout=TIMEOUT)
    except (ClusterError, WireError) as error:
        raise click.ClickException(
            f"cannot tell whether the scheduler at {server} serves {cluster.server}: {error}"
        ) from None
    if found.cluster == uid:
        return found
    serves = "serves another cluster" if found.cluster else "does not say which cluster it serves"
    remark(f"the scheduler at {server} {serves}; ignored: {cluster.server} is asked instead")
    return None


async def _ends(
    acting: Callable[[Cluster], Awaitable[list[MoveOutcome]]],
    cluster: Cluster,
    elected: tuple[Elector, WriteGate] | None,
) -> tuple[list[MoveOutcome], str]:
    """What came of acting as the scheduler; or that another process leads."""
    if elected is None:
        return await acting(cluster), ""
    elector, written = elected
    try:
        async with elector.held(remark):
            return await acting(written), ""
    except NotLeadingError as error:
        if not elector.holder:
            raise
        return [], str(error)


def _told(ends: Sequence[MoveOutcome]) -> int:
    """The exit code."""
    for ended in ends:
        reason = f": {ended.reason}" if ended.reason else ""
        remark(f"{ended.move.pod} to {ended.move.target} {ended.outcome}{reason}")
    return 0 if all(ended.outcome is Outcome.COMPLETED for ended in ends) else NOT_ALL


async def read_snapshot(
    cluster: Cluster, configuration: Configuration, clock: Clock, rng: random.Random
) -> Snapshot:
    """The cluster as it is now. Raises ClusterError or WireError if it cannot be seen."""
    mirror = ClusterMirror(configuration.scheduler_name, configuration.tiers)

    def take(event: ClusterEvent) -> None:
        mirror.apply(event)

    async def read(watched: Watched[Any, ClusterEvent], *then: ClusterEvent) -> None:
        def know() -> None:
            for event in then:
                take(event)

        reflector = Reflector(cluster, watched, clock, rng, take, know, remark)
        await reflector.list_once(timeout=TIMEOUT)

    for watched in (NODES, PODS):
        await read(watched)
    for kind, watched in SURROUNDINGS.items():
        try:
            await read(watched, KindKnown(kind))
        except (Forbidden, NotFound) as error:
            remark(f"decided without knowing them: {error}")
    return mirror.snapshot()


async def synced(runtime: Runtime) -> None:
    """Return when all is listed. Raises OutcomeUnknown if that takes too long."""
    try:
        async with asyncio.timeout(PATIENCE):
            await runtime.synced.wait()
    except TimeoutError:
        troubles = (watch.trouble for watch in runtime.watches.values() if watch.trouble)
        why = next(troubles, "an answer is missing")
        raise OutcomeUnknown(
            f"the cluster could not be read within {PATIENCE:g} s: {why}"
        ) from None


class _Ends(Listener):
    def __init__(self) -> None:
        self.ended: list[MoveOutcome] = []

    def move_ended(self, ended: MoveOutcome) -> None:
        self.ended.append(ended)


async def carry_out(
    cluster: Cluster, configuration: Configuration, act: Act, clock: Clock, rng: random.Random
) -> list[MoveOutcome]:
    """Act as the scheduler, and move nothing but that, until the end of it."""
    quiet = attrs.evolve(
        configuration,
        suggester=attrs.evolve(configuration.suggester, mode="off"),
        optimiser=attrs.evolve(configuration.optimiser, mode="off"),
    )
    ends = _Ends()
    runtime = Runtime(cluster, quiet, clock, rng, listener=ends)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(runtime.run())
        await synced(runtime)
        await act(runtime)
        while not runtime.manager.quiet.is_set():
            await runtime.manager.quiet.wait()
        running.cancel()
    return ends.ended

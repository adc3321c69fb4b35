"""A cluster itself: it is read, and, on request, what that comes to is carried out."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import attrs

from kubedsm.clock import Clock, SystemClock
from kubedsm.cluster.calls.explained_cluster import ExplainedCluster
from kubedsm.cluster.client.kubernetes import KubernetesCluster
from kubedsm.cluster.client.port import Cluster, Forbidden, NotFound, OutcomeUnknown
from kubedsm.cluster.joining import PATIENCE, TIMEOUT, greet
from kubedsm.cluster.watching.reflector import Reflector
from kubedsm.cluster.watching.watched import NODES, PODS, SURROUNDINGS, Watched
from kubedsm.commands.console import remark, until_interrupted
from kubedsm.commands.electing import Election
from kubedsm.configuration.settings import Configuration
from kubedsm.core.world.events import ClusterEvent, KindKnown
from kubedsm.core.world.mirror import ClusterMirror
from kubedsm.core.world.snapshot import Snapshot
from kubedsm.runtime.assembly import Runtime
from kubedsm.runtime.listener import Listener
from kubedsm.why.entries import MoveOutcome, Outcome

#: what is to be begun; it ends once all plans have
Act = Callable[[Runtime], Coroutine[Any, Any, None]]


def ask_cluster(
    kubeconfig: Path | None,
    context: str | None,
    configuration: Configuration,
    election: Election | None,
    say: Callable[[Snapshot], Act | None],
) -> None:
    """Say what there is to be said of the cluster, and have done what that comes to, if anything.

    Raises NotLeadingError, ClusterError or WireError if it may not be.
    """

    async def ask() -> None:
        clock, rng = SystemClock(), random.Random()
        async with await KubernetesCluster.connect(kubeconfig, context) as cluster:
            asked_once = ExplainedCluster(cluster, cluster.server)
            await greet(asked_once, timeout=TIMEOUT)
            act = say(await read_snapshot(asked_once, configuration, clock, rng))
            if act is None:
                return
            if election is None:
                ends = await carry_out(cluster, configuration, act, clock, rng)
            else:
                elector, written = election.elector(cluster, clock)
                async with elector.held(remark):
                    ends = await carry_out(written, configuration, act, clock, rng)
            for ended in ends:
                reason = f": {ended.reason}" if ended.reason else ""
                remark(f"{ended.move.pod} to {ended.move.target} {ended.outcome}{reason}")

    until_interrupted(ask())


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


async def _synced(runtime: Runtime) -> None:
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
        if ended.outcome is not Outcome.DROPPED:
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
        await _synced(runtime)
        await act(runtime)
        while not runtime.manager.quiet.is_set():
            await runtime.manager.quiet.wait()
        running.cancel()
    return ends.ended

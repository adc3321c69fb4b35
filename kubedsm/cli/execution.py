"""Execution of planned migrations, as the scheduler or through the running scheduler."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

import attrs
import click

from kubedsm.app.assembly import Runtime
from kubedsm.app.leader_election import NotLeadingError
from kubedsm.app.leadership import wind_down
from kubedsm.cli.cluster import connect_cluster, find_scheduler, read_snapshot, wait_until_synced
from kubedsm.cli.console import Stop, interruptible, remark, until_interrupted
from kubedsm.cli.migration_requests import NOT_ALL, PAUSED, Requests
from kubedsm.cli.options import GRACE, MigrationOptions
from kubedsm.config.settings import Configuration
from kubedsm.explain.facts import Answering
from kubedsm.explain.listener import Listener
from kubedsm.explain.migration_outcome import MoveOutcome, Outcome
from kubedsm.kube.client.port import Cluster
from kubedsm.kube.joining import greet
from kubedsm.kube.wire.annotations import RequestedMove
from kubedsm.model.snapshot import Snapshot
from kubedsm.process.clock import Clock, SystemClock

#: starts the migrations, which end with the last plan
Begin = Callable[[Runtime], Coroutine[Any, Any, None]]


@attrs.frozen
class Errand:
    """Migrations that a command is to execute, and the equivalent request to a running scheduler,
    if possible.
    """

    begin: Begin
    proposal: str = ""
    moves: tuple[RequestedMove, ...] = ()


def ask_cluster(
    options: MigrationOptions,
    configuration: Configuration,
    decide: Callable[[Snapshot, Answering | None], Errand | None],
) -> int:
    """Read the cluster, compute migrations, and execute them if requested; return the exit code.

    `decide` gets this cluster's scheduler responding at `options.server`, if any.
    Raises NotLeadingError, ClusterError or ClickException if the errand is refused.
    """
    stop = Stop()

    async def ask() -> int:
        clock, rng = SystemClock(), random.Random()
        async with connect_cluster(options.kubeconfig) as cluster:
            await greet(cluster)
            scheduler = await find_scheduler(options.server, cluster)
            requests = Requests(cluster, options.config_map, clock)
            if options.wait and await requests.is_paused(options.wait):
                return PAUSED
            snapshot = await read_snapshot(cluster, configuration)
            with interruptible():
                errand = decide(snapshot, scheduler)
            if errand is None:
                return 0
            if await requests.is_paused():
                return PAUSED
            if scheduler is not None and scheduler.dry_run:
                raise click.ClickException(
                    "nothing was migrated: the running scheduler is a"
                    " dry run, which accepts no requests; stop it, and try again"
                )
            if scheduler is not None:
                leads = "one responds on its diagnostics port"
                return await _request(errand, requests, leads)
            elector, gate = options.election.join(cluster.cluster, clock)
            try:
                async with nullcontext() if elector is None else elector.hold_lease(remark):
                    ends = await carry_out(gate, configuration, errand.begin, clock, rng, stop)
            except NotLeadingError as error:
                if elector is None or not elector.holder:
                    raise
                return await _request(errand, requests, str(error))
            code = _report_ends(ends)
            return stop.exit_code or code

    return until_interrupted(ask(), stop)


async def _request(errand: Errand, requests: Requests, leads: str) -> int:
    """Request the running scheduler to execute the migrations; `leads` explains why."""
    if not errand.moves:
        raise click.ClickException(
            f"nothing was migrated, since a scheduler runs: {leads};"
            " with optimiser.mode: apply it frees capacity by itself"
        )
    return await requests.send(errand.proposal, errand.moves)


def _report_ends(ends: list[MoveOutcome]) -> int:
    """Print the outcome of each executed migration on stderr, and return the exit code."""
    for ended in ends:
        reason = f": {ended.reason}" if ended.reason else ""
        remark(f"{ended.move.pod} to {ended.move.target} {ended.outcome}{reason}")
    return 0 if all(ended.outcome is Outcome.COMPLETED for ended in ends) else NOT_ALL


class _Ends(Listener):
    def __init__(self) -> None:
        self.ended: list[MoveOutcome] = []

    def move_ended(self, ended: MoveOutcome) -> None:
        self.ended.append(ended)


async def carry_out(
    cluster: Cluster,
    configuration: Configuration,
    begin: Begin,
    clock: Clock,
    rng: random.Random,
    stop: Stop | None = None,
) -> list[MoveOutcome]:
    """Run a scheduler that executes only these migrations; return the outcome of each.

    After a requested `stop` no migration begins; those in progress finish or are rolled back.
    """
    stop = stop or Stop()
    quiet = attrs.evolve(
        configuration,
        suggester=attrs.evolve(configuration.suggester, mode="off"),
        optimiser=attrs.evolve(configuration.optimiser, mode="off"),
    )
    ends = _Ends()
    runtime = Runtime(cluster, quiet, clock, rng, listener=ends)
    # The command has read the pause switch in the ConfigMap of its options.
    runtime.manager.migrations.is_paused = lambda: False

    async def migrate() -> None:
        await begin(runtime)
        while not runtime.manager.quiet.is_set():
            await runtime.manager.quiet.wait()

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(runtime.run())
        await wait_until_synced(runtime)
        stop.heeded = True
        ways = [tasks.create_task(migrate()), tasks.create_task(stop.asked.wait())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in ways:
            task.cancel()
        if stop.asked.is_set():
            remark(
                f"interrupted: migrations finish or are rolled back, within {GRACE:g} s; a second"
                " interrupt leaves them to the next scheduler"
            )
        await wind_down(runtime, GRACE)
        running.cancel()
    return ends.ended

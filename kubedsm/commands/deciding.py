"""`kubedsm place` and `kubedsm suggest`: decisions, shown and on request carried out."""

import sys
import time
from pathlib import Path
from typing import Any

import attrs
import click

from kubedsm.app.assembly import Runtime
from kubedsm.commands import advising, offline
from kubedsm.commands.console import log_to, print_json, progress, remark
from kubedsm.commands.electing import election_of
from kubedsm.commands.handing_over import Handing
from kubedsm.commands.inputs import (
    configuration_at,
    read_dump,
)
from kubedsm.commands.on_cluster import Errand, ask_cluster
from kubedsm.commands.tables import placement_tables
from kubedsm.config.settings import Configuration
from kubedsm.explain.client import Answering
from kubedsm.kube.watching.config_map import ConfigMapName
from kubedsm.model.model import Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.planner.plurals import counted
from kubedsm.rebalancing.migration_requests import requested_moves
from kubedsm.terminal.console import Console


def place(dump_path: str, config_path: str | None, output: str) -> None:
    configuration = configuration_at(config_path)
    dump = read_dump(dump_path)
    started = time.perf_counter()
    placement = offline.place(dump, configuration, offline.batch_deadline(configuration))
    elapsed = 1000 * (time.perf_counter() - started)
    if placement.foreign:
        remark(
            f"left alone: {counted(placement.foreign, 'waiting pod')} whose schedulerName is not"
            f" {configuration.scheduler_name}"
        )
    if output == "json":
        print_json(placement.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(placement_tables(placement, elapsed))


def suggest(
    dump_path: str | None,
    config_path: str | None,
    kubeconfig_path: Path | None,
    context: str | None,
    server: str,
    carry_out: bool,
    config_map: ConfigMapName,
    wait: float,
    output: str,
    budget: float,
    **elect: Any,
) -> None:
    if dump_path is not None and carry_out:
        raise click.UsageError("--apply needs a cluster, not a dump")
    log_to(level="ERROR")
    configuration, election = configuration_at(config_path), election_of(**elect)
    if dump_path is not None:
        snapshot = offline.snapshot_of(read_dump(dump_path), configuration)
        _say(snapshot, configuration, output, budget)
        return

    def said(snapshot: Snapshot, scheduler: Answering | None) -> Errand | None:
        slower = frozenset[Workload]() if scheduler is None else scheduler.slower
        measured = attrs.evolve(snapshot.measured, slower=slower)
        snapshot = attrs.evolve(snapshot, measured=measured)
        suggestion = _say(snapshot, configuration, output, budget).suggestion

        async def act(runtime: Runtime) -> None:
            if runtime.migrator is not None:
                runtime.migrator.execute(runtime.mirror.snapshot(), suggestion)

        if not (carry_out and suggestion.moves):
            return None
        return Errand(act, suggestion.id, requested_moves(suggestion))

    handing = Handing(config_map, wait, server)
    sys.exit(ask_cluster(kubeconfig_path, context, configuration, election, handing, said))


def _say(
    snapshot: Snapshot, configuration: Configuration, output: str, budget: float
) -> advising.Advice:
    started = time.perf_counter()
    with progress("planning migrations", budget):
        advice = advising.advise(snapshot, configuration, offline.within(budget))
    elapsed = 1000 * (time.perf_counter() - started)
    if output == "json":
        print_json(advice.as_json() | {"elapsedMs": round(elapsed, 3)})
    else:
        Console().print(advising.advice_tables(advice, elapsed))
    return advice

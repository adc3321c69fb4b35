"""The command `kubedsm suggest`."""

import sys
from typing import TYPE_CHECKING

import attrs
import click

from kubedsm.cli.options import EXIT_CODES, DurationType, MigrationOptions, migration_options

if TYPE_CHECKING:
    from kubedsm.app.assembly import Runtime
    from kubedsm.cli.execution import Errand
    from kubedsm.explain.client import Answering
    from kubedsm.model.snapshot import Snapshot


@click.command(epilog=EXIT_CODES)
@migration_options("Plan for", "Execute the migrations, and wait for their end.")
@click.option(
    "--budget",
    type=DurationType(),
    default="30s",
    help="Time limit; at its end the best migrations found so far are the result.",
)
def suggest(options: MigrationOptions, budget: float) -> None:
    """Suggest migrations, with reasons; with --apply, execute them.

    A running scheduler is asked to execute them, whatever its suggester.mode. If none runs, this
    process takes the scheduler's Lease and executes them. Measured response times come from the
    running scheduler, if it answers.
    """
    from kubedsm.cli.inputs import read_dump, snapshot_of
    from kubedsm.cli.migration_advice import report_advice

    configuration = options.load_configuration()
    if options.dump_path is not None:
        snapshot = snapshot_of(read_dump(options.dump_path), configuration)
        report_advice(snapshot, configuration, options.output, budget)
        return

    from kubedsm.cli.execution import Errand, ask_cluster
    from kubedsm.rebalancing.migration_requests import list_requested_moves

    def decide(snapshot: "Snapshot", scheduler: "Answering | None") -> "Errand | None":
        slower = frozenset() if scheduler is None else scheduler.slower
        measured = attrs.evolve(snapshot.measured, slower=slower)
        snapshot = attrs.evolve(snapshot, measured=measured)
        suggestion = report_advice(snapshot, configuration, options.output, budget).suggestion

        async def begin(runtime: "Runtime") -> None:
            if runtime.migrator is not None:
                runtime.migrator.execute(runtime.mirror.snapshot(), suggestion)

        if not (options.carry_out and suggestion.moves):
            return None
        return Errand(begin, suggestion.id, list_requested_moves(suggestion))

    sys.exit(ask_cluster(options, configuration, decide))

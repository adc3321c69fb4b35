"""The command `kubedsm pack`."""

import sys
from typing import TYPE_CHECKING

import click

from kubedsm.cli.options import EXIT_CODES, MigrationOptions, migration_options

if TYPE_CHECKING:
    from kubedsm.cli.execution import Errand
    from kubedsm.explain.client import Answering
    from kubedsm.model.snapshot import Snapshot


@click.command(epilog=EXIT_CODES)
@migration_options("Pack", "Execute the migrations, and wait for their end.")
def pack(options: MigrationOptions) -> None:
    """Plan migrations that free capacity; --apply executes them.

    A migrated pod serves until its replacement is ready. Pods are evicted only with
    optimiser.allowEvictions, and only for pods of higher priority.

    Meanwhile --apply acts as the scheduler. It takes the scheduler's Lease, and refuses to act if
    another scheduler runs.
    """
    from kubedsm.cli.console import remark
    from kubedsm.cli.inputs import read_dump, snapshot_of
    from kubedsm.cli.packing_advice import report_packing
    from kubedsm.solvers.available import explain_missing

    configuration = options.load_configuration()
    if missing := explain_missing(configuration.solver.kind):
        remark(missing)
    if options.dump_path is not None:
        snapshot = snapshot_of(read_dump(options.dump_path), configuration)
        report_packing(snapshot, configuration, options.output)
        return

    from kubedsm.cli.execution import Errand, ask_cluster

    def decide(snapshot: "Snapshot", _: "Answering | None") -> "Errand | None":
        advice = report_packing(snapshot, configuration, options.output)
        return Errand(advice.carry_out) if options.carry_out and advice.packed.better else None

    sys.exit(ask_cluster(options, configuration, decide))

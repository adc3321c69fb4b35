"""What `kubedsm suggest` is called with."""

from typing import Any

import click

from kubedsm.commands.options import (
    EXIT_CODES,
    config_file,
    handing_over,
    kubeconfig_context,
    kubeconfig_file,
    leader_election,
    output,
    scheduler_address,
)


@click.command(epilog=EXIT_CODES)
@click.option(
    "--from",
    "dump_path",
    type=click.Path(allow_dash=True),
    show_default="none: ask the cluster",
    help="Judge what `kubectl get nodes,pods -A -o json` printed; - for standard input.",
)
@config_file
@kubeconfig_file
@kubeconfig_context
@scheduler_address
@click.option("--apply", "carry_out", is_flag=True, help="Have it done, and wait for the end.")
@handing_over
@leader_election
@output
def suggest(**given: Any) -> None:
    """Say what would be moved now, and why; with --apply, move it.

    A scheduler that runs is asked to make the moves, whatever its suggester.mode; where none does,
    this process takes the scheduler's Lease, and makes them. What is measured is asked of the
    running scheduler, if it answers.
    """
    from kubedsm.commands import deciding

    deciding.suggest(**given)

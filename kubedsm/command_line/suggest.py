"""What `kubedsm suggest` is called with."""

from typing import Any

import click

from kubedsm.commands.options import EXIT_CODES, DurationType, deciding_on_moves


@click.command(epilog=EXIT_CODES)
@deciding_on_moves("Judge", "Have it done, and wait for the end.")
@click.option(
    "--budget",
    type=DurationType(),
    default="30s",
    show_default=True,
    help="Time limit; at its end the best migrations found so far are the result.",
)
def suggest(**given: Any) -> None:
    """Say what would be moved now, and why; with --apply, move it.

    A scheduler that runs is asked to make the moves, whatever its suggester.mode; where none does,
    this process takes the scheduler's Lease, and makes them. What is measured is asked of the
    running scheduler, if it answers.
    """
    from kubedsm.commands import deciding

    deciding.suggest(**given)

"""What `kubedsm pack` is called with."""

from typing import Any

import click

from kubedsm.commands.options import EXIT_CODES, deciding_on_moves


@click.command(epilog=EXIT_CODES)
@deciding_on_moves("Pack", "Carry it out, and wait for the end.")
def pack(**given: Any) -> None:
    """Say what moves would make room for pods; with --apply, make it.

    No pod that is moved is missing meanwhile, and what is moved comes to a node that takes it. Pods
    are evicted only with optimiser.allowEvictions, and only for pods of higher priority.

    --apply acts as the scheduler meanwhile. It takes the scheduler's Lease, and refuses to act if
    another scheduler runs.
    """
    from kubedsm.commands import packing

    packing.pack(**given)

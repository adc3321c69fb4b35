"""What `kubedsm pack` is called with."""

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
    help="Pack what `kubectl get nodes,pods -A -o json` printed; - for standard input.",
)
@config_file
@kubeconfig_file
@kubeconfig_context
@scheduler_address
@click.option("--apply", "carry_out", is_flag=True, help="Carry it out, and wait for the end.")
@handing_over
@leader_election
@output
def pack(**given: Any) -> None:
    """Say what moves would make room for pods; with --apply, make it.

    No pod that is moved is missing meanwhile, and what is moved comes to a node that takes it. Pods
    are evicted only with optimiser.allowEvictions, and only for pods of higher priority.

    --apply acts as the scheduler meanwhile. It takes the scheduler's Lease, and refuses to act if
    another scheduler runs.
    """
    from kubedsm.commands import packing

    packing.pack(**given)

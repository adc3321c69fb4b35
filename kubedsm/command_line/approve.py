"""What `kubedsm approve` is called with."""

import re
from typing import Any

import click

from kubedsm.commands.options import EXIT_CODES, handing_over, kubeconfig_context, kubeconfig_file


def _id(_: click.Context, __: click.Parameter, value: str) -> str:
    from kubedsm.optimizer.moving.suggestion import ID_LENGTH

    if not re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", value):
        raise click.BadParameter(
            f"{value} is no id of a proposal, such as 3f2a91c0: the Events MigrationProposed of"
            " pods have it, and the scheduler's log"
        )
    return value


@click.command(epilog=EXIT_CODES)
@click.argument("proposal", metavar="ID", callback=_id)
@kubeconfig_file
@kubeconfig_context
@handing_over
def approve(**given: Any) -> None:
    """Have a proposal carried out by the scheduler that made it.

    In mode suggest its id stands in the Events MigrationProposed of the pods, and in the log. It
    is carried out only while the scheduler would still propose the same.
    """
    from kubedsm.commands import approving

    approving.approve(**given)

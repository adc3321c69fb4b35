"""What `kubedsm place` is called with."""

from typing import Any

import click

from kubedsm.commands.options import (
    config_file,
    output,
)


@click.command()
@click.option(
    "--from",
    "dump_path",
    required=True,
    type=click.Path(allow_dash=True),
    help="What `kubectl get nodes,pods -A -o json` printed; - for standard input.",
)
@config_file
@output
def place(**given: Any) -> None:
    """Decide, offline, where the waiting pods of a dump would go."""
    from kubedsm.commands import deciding

    deciding.place(**given)

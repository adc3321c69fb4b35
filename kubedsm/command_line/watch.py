"""What `kubedsm watch` is called with."""

from pathlib import Path
from typing import Any

import click

from kubedsm.commands.options import (
    config_file,
    kubeconfig_context,
    output,
    scheduler_address,
    scheduler_config_map,
)


@click.command()
@scheduler_address
@click.option(
    "--token-file",
    "token_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the token that the page asks for: `kubedsm run --page-token-file`.",
)
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    type=click.Path(path_type=Path),
    show_default="none: ask the scheduler",
    help="Follow the cluster of this kubeconfig itself, with no scheduler.",
)
@kubeconfig_context
@config_file
@scheduler_config_map
@output
def watch(**given: Any) -> None:
    """Watch the cluster as the page of a running scheduler shows it.

    The scheduler was started with `kubedsm run --page`, or with --page-address, which --server
    then names. Where no picture can change in place, and with -o json, there is a line for each
    thing that is new. With --kubeconfig or --context the cluster itself is followed, without a
    scheduler's decisions; QoS targets come from --config, or else from the ConfigMap. It changes
    nothing.
    """
    from kubedsm.commands import watching

    watching.watch(**given)

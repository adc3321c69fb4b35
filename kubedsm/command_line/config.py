"""What `kubedsm config` is called with."""

from typing import Any

import click

from kubedsm.commands.options import (
    config_map_name,
    kubeconfig_context,
    kubeconfig_file,
    output,
    scheduler_address,
)


@click.group()
def config() -> None:
    """Check a configuration, or show what holds and what can be said."""


@config.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@output
def check(**given: Any) -> None:
    """Say all that is wrong with a configuration file.

    A line for each mistake, and exit code 1; or ok.
    """
    from kubedsm.commands import configuring

    configuring.check(**given)


@config.command()
@click.argument(
    "path", metavar="[FILE]", required=False, type=click.Path(dir_okay=False, allow_dash=True)
)
@config_map_name
@kubeconfig_file
@kubeconfig_context
@click.option(
    "--from",
    "dump_path",
    type=click.Path(allow_dash=True),
    help="Say also what it promises each workload of a dump; - for standard input.",
)
@click.option(
    "--running",
    is_flag=True,
    help="Say also what the running scheduler promises each workload now, and by which response"
    " times.",
)
@scheduler_address
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", help="Format."
)
def show(**given: Any) -> None:
    """Show every value that holds, and where it comes from.

    Without a FILE, the defaults.
    With --configmap, of the configuration in a cluster. -o yaml prints a whole document.
    """
    from kubedsm.commands import configuring

    configuring.show(**given)


@config.command("schema")
def schema_() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    from kubedsm.commands import configuring

    configuring.schema_()

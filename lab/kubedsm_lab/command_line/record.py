"""What `kubedsm record` is called with."""

from pathlib import Path
from typing import Any

import click

from kubedsm.commands.options import (
    config_file,
    kubeconfig_context,
    kubeconfig_file,
    output,
    report_folder,
    scheduler_address,
)


@click.command()
@click.argument("folders", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--scenario",
    "scenario_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="DrStress file of the load: which services there are, and how long it lasts.",
)
@click.option(
    "--requests",
    "requests_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where `loadgen run -o json` is about to write: the recording begins and ends with the"
    " load, and has its response times.",
)
@click.option(
    "--policy",
    show_default="by the pods' scheduler",
    help="What the results are called.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 7 * 86_400),
    show_default="as the scenario",
    help="How long to record.",
)
@click.option("--namespace", default="default", show_default=True, help="Of the services.")
@click.option(
    "--compare",
    is_flag=True,
    help="Put the results in the folders DIR side by side instead, in one report.",
)
@scheduler_address
@config_file
@kubeconfig_file
@kubeconfig_context
@report_folder
@output
def record(**given: Any) -> None:
    """Record a cluster under load, and judge it as a replay is.

    Nothing is changed. Ctrl-C or SIGTERM ends it with the report of what was seen until then.
    """
    from kubedsm_lab.commands import recording

    recording.record(**given)

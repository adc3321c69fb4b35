"""Definition of the command `kubedsm demo`."""

import os
import sys
from pathlib import Path

import click

from kubedsm.cli.options import output


def _check_picture(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """Reject a picture path that cannot be written, before the run rather than after."""
    if value is None:
        return None
    folder = value.parent
    if value.is_dir():
        raise click.BadParameter(f"{value} is a folder")
    if value.suffix.lower() != ".svg":
        raise click.BadParameter(f"{value} does not end with .svg, and nothing else can be drawn")
    if not folder.is_dir():
        what = "no folder" if folder.exists() else "no such folder"
        raise click.BadParameter(f"{folder}: {what}")
    if not all(os.access(each, os.W_OK) for each in (folder, value) if each.exists()):
        raise click.BadParameter(f"{value} cannot be written")
    return value


@click.command()
@click.option("--seed", type=int, default=1, help="Seed of the scenario.")
@click.option(
    "--cycles", type=click.IntRange(1, 60), default=12, help="Number of cycles, of 5 s each."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    callback=_check_picture,
    help="Also save the last table, as SVG.",
)
@click.option(
    "--page",
    is_flag=True,
    help="Also show a page in the browser, which stays until you press Enter.",
)
@click.option("--no-open", is_flag=True, help="Print the address of the page, but do not open it.")
@output
def demo(
    seed: int,
    cycles: int,
    picture: Path | None,
    page: bool,
    no_open: bool,
    output: str,
) -> None:
    """Watch KubeDSM place and migrate pods for a minute, emulated.

    The paper's services run under a generated load on the paper's cluster, over real HTTP.
    kube-scheduler's results under the same load are replayed next to it.
    """
    from kubedsm.cli.console import log_to, print_json, until_interrupted
    from kubedsm_lab.cli.demo_session import DemoSession
    from kubedsm_lab.demo.results import as_json

    if no_open and not page:
        raise click.UsageError("--no-open is about the page of --page")
    log_to(level="ERROR")
    session = DemoSession(
        seed,
        cycles,
        shows_page=page,
        opens_page=not no_open,
        as_document=output == "json",
    )
    until_interrupted(session.run(), session.stop)
    if session.last is None:
        raise KeyboardInterrupt
    if output == "json":
        print_json(as_json(session.last))
    if picture is not None:
        session.save_picture(picture)
    sys.exit(session.stop.exit_code)

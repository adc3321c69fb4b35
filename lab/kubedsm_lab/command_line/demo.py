"""What `kubedsm demo` is called with."""

import os
from pathlib import Path
from typing import Any

import click

from kubedsm.commands.options import (
    output,
)


def _picture(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """What would keep the picture from being written is found before the run, not after it."""
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
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the scenario.")
@click.option(
    "--cycles", type=click.IntRange(1, 60), default=12, show_default=True, help="Of 5 s each."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    callback=_picture,
    help="Also save the last table, as SVG.",
)
@click.option(
    "--disconnect",
    is_flag=True,
    help="Cut a site of the edge off in the middle, for a while. Nothing is replayed beside it.",
)
@click.option(
    "--page",
    is_flag=True,
    help="Show it on a page in the browser, too, which stays until you press Enter.",
)
@click.option("--no-open", is_flag=True, help="Only say where the page is.")
@output
def demo(**given: Any) -> None:
    """Watch it place and move pods for a minute, emulated.

    The paper's services under a generated load on the paper's cluster, over real HTTP; what
    kube-scheduler makes of the same load is replayed beside it.
    """
    from kubedsm_lab.commands import demo

    demo.demo(**given)

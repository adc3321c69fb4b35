"""What `kubedsm compare` is called with."""

from pathlib import Path
from typing import Any

import click

from kubedsm.commands.options import (
    processes,
)

EXPERIMENTS = ("burst", "hpa", "nodes", "paper", "load-aware", "packing")


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = () if value is None else tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter("a name is empty")
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name!r} is given twice")
    return names


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the page, its text, its pictures, and results.json. What an earlier run left"
    " there of experiments that are not run now stays on the page.",
)
@click.option(
    "--only",
    callback=_names,
    show_default="all",
    help=f"With commas between, of: {', '.join(EXPERIMENTS)}.",
)
@click.option(
    "--policies",
    callback=_names,
    show_default="each experiment's own",
    help="With commas between: KubeDSM beside these, where policies can be chosen.",
)
@click.option("--full", is_flag=True, help="As docs/comparison.md has it; else a look.")
@processes
def compare(**given: Any) -> None:
    """KubeDSM beside every scheduler of the papers, on one page.

    Who wins where and by how much; what is emulated, modelled, computed or published.
    What is done is written at once: it stays if the next experiment fails or is interrupted.
    """
    from kubedsm_lab.commands import comparing

    comparing.compare(**given)

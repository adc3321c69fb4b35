"""The command `kubedsm compare`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.markdown import Markdown

from kubedsm.commands.console import log_to, remark
from kubedsm.comparison.experiment import Asked
from kubedsm.comparison.experiments import EXPERIMENTS
from kubedsm.comparison.kept import Kept
from kubedsm.comparison.run import UnknownNameError, chosen
from kubedsm.comparison.run import compare as compare_all
from kubedsm.comparison.text import answer
from kubedsm.replay.runner import processors


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C: so that nothing that experiments have started goes on."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    help=f"With commas between, of: {', '.join(each.name for each in EXPERIMENTS)}.",
)
@click.option(
    "--policies",
    callback=_names,
    show_default="each experiment's own",
    help="With commas between: KubeDSM beside these, where policies can be chosen.",
)
@click.option("--full", is_flag=True, help="As docs/comparison.md has it; else a look.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), show_default="one a processor", help="Processes."
)
def compare(
    out: Path,
    only: tuple[str, ...],
    policies: tuple[str, ...],
    *,
    full: bool,
    jobs: int | None,
) -> None:
    """KubeDSM beside every scheduler of the papers, on one page.

    Who wins where and by how much; what is emulated, modelled, computed or published.
    What is done is written at once: it stays if the next experiment fails or is interrupted.
    """
    log_to(level="ERROR")
    try:
        planned = chosen(EXPERIMENTS, only, policies)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    kept = Kept.within(out, {each.name: each for each in EXPERIMENTS})
    try:
        with _stopped_by_sigterm():
            compare_all(planned, Asked(full, jobs or processors(), policies), kept, remark)
    finally:
        if kept.played:
            said = answer(kept.played)
            console = Console()
            if console.is_terminal:
                console.print(Markdown(said))
            else:
                click.echo(said)
            remark(f"the page: {out / 'index.html'}")

"""Definition of the command `kubedsm compare`."""

from pathlib import Path

import click

from kubedsm_lab.cli.options import (
    executor,
    interrupt_on_sigterm,
    parse_names,
    processes,
    require_libraries,
)

EXPERIMENTS = ("burst", "hpa", "nodes", "paper", "load-aware", "packing")


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the page, its text, its pictures, and results.json. Results of an earlier run"
    " stay on the page for experiments that do not run now.",
)
@click.option(
    "--only",
    callback=parse_names,
    show_default="all",
    help=f"Experiments, separated by commas: {', '.join(EXPERIMENTS)}.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Full size, as in docs/explanation/comparison.md; else a quick look.",
)
@processes
@executor
def compare(
    out: Path,
    only: tuple[str, ...],
    full: bool,
    jobs: int | None,
    executor: str | None,
) -> None:
    """Compare KubeDSM with every scheduler of the papers, on one page.

    The page ranks the schedulers, and distinguishes emulated, modelled, computed and published
    results. Each result is written immediately, and survives failures and interruptions of later
    experiments.
    """
    from rich.markdown import Markdown

    from kubedsm.cli.console import log_to, remark
    from kubedsm.terminal.console import Console
    from kubedsm.terminal.echo import echo
    from kubedsm_lab.comparison import run
    from kubedsm_lab.comparison.experiments import EXPERIMENTS as EVERY
    from kubedsm_lab.comparison.text import answer
    from kubedsm_lab.replay.runner import choose_workers

    log_to(level="ERROR")
    planned = run.choose_experiments(EVERY, only)
    require_libraries("matplotlib", "trustme")
    results = run.ResultDirectory.open(out, {each.name: each for each in EVERY})
    try:
        with interrupt_on_sigterm():
            run.compare(planned, full, choose_workers(jobs, executor), results, remark)
    finally:
        if results.played:
            summary = answer(results.played)
            console = Console()
            if console.is_terminal:
                console.print(Markdown(summary))
            else:
                echo(summary)
            remark(f"the page: {out / 'index.html'}")

"""The command `kubedsm compare`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.markdown import Markdown

from kubedsm.commands.console import log_to, remark
from kubedsm.commands.options import require_extra
from kubedsm.terminal.console import Console
from kubedsm.terminal.echo import echo
from kubedsm_lab.comparison.experiments import BURST, EXPERIMENTS, Asked
from kubedsm_lab.comparison.run import Kept, UnknownNameError, chosen
from kubedsm_lab.comparison.run import compare as compare_all
from kubedsm_lab.comparison.text import answer
from kubedsm_lab.replay.runner import processors


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """As by Ctrl-C: so that nothing that experiments have started goes on."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def compare(
    out: Path,
    only: tuple[str, ...],
    policies: tuple[str, ...],
    *,
    full: bool,
    jobs: int | None,
) -> None:
    log_to(level="ERROR")
    try:
        planned = chosen(EXPERIMENTS, only, policies)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    if BURST in planned:
        require_extra("the experiment burst", "trustme", "tls")
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
                echo(said)
            remark(f"the page: {out / 'index.html'}")

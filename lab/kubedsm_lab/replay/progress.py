"""How far the work is: a bar on stderr, if that is a terminal."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.progress import Progress

from kubedsm.terminal.console import Console

T = TypeVar("T")


def progress(doing: str, done: Iterable[T], total: int) -> Iterator[T]:
    """The same, counted as it comes."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        for each in done:
            yield each
            bar.advance(task)

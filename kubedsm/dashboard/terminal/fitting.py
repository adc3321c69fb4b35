"""Pictures that are no higher than the terminal: what is of least use is left out."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table

from kubedsm.terminal.console import Console

#: columns of a terminal below which words need more lines
NARROW = 60


class Part(NamedTuple):
    what: RenderableType
    #: the part of least use goes first, where there is not room for all; None: never
    use: int | None = None


def fitting(parts: Sequence[Part], width: int, height: int) -> Sequence[RenderableType]:
    """What there is room for; of parts of the same use the first goes first."""
    kept = [(part, lines(part.what, width)) for part in parts]
    while sum(number for _, number in kept) > height:
        spare = [each for each in kept if each[0].use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda each: each[0].use or 0))
    return [part.what for part, _ in kept]


def lines(what: RenderableType, width: int) -> int:
    console = Console(width=width, color_system=None)
    return len(console.render_lines(what, pad=False))


def hanging(lead: RenderableType, said: RenderableType) -> RenderableType:
    """The lead, and what is said beside it and under itself."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column()
    made.add_row(lead, said)
    return made

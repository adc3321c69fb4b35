"""Tables that fit: where there is not room for all columns, those of least use are left out."""

from collections.abc import Sequence

import attrs
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

GAP = 2


@attrs.frozen(slots=True)
class Column:
    #: wrapped between words
    heading: str
    cells: Sequence[RenderableType]
    #: that its cells will need at some time, so that columns stay where they are
    least: int = 0
    #: the column of least use goes first; None: never
    use: int | None = None
    number: bool = False

    def width(self, console: Console) -> int:
        words = [len(word) for word in self.heading.split()]
        options = console.options
        cells = [Measurement.get(console, options, cell).maximum for cell in self.cells]
        return max([self.least, *words, *cells])


def fitting(columns: Sequence[Column], width: int) -> Table:
    console = Console(width=1000)
    kept = list(columns)
    while sum(column.width(console) + GAP for column in kept) - GAP > width:
        spare = [column for column in kept if column.use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda column: column.use or 0))
    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column in kept:
        made.add_column(
            Text(column.heading, justify="right" if column.number else "left"),
            justify="right" if column.number else "left",
            vertical="top",
            width=column.width(console),
            no_wrap=False,
        )
    for row in zip(*(column.cells for column in kept), strict=True):
        made.add_row(*row)
    return made

"""Tables as wide as there is room for: no number and no name in them is ever broken.

Sentences are wrapped between words, and so are headings. Where that is not enough, the columns of
least use are left out, and a line says which. For all that show tables, of loadgen or not.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import attrs
from rich.box import HEAVY_HEAD, SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251  as a type
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

#: `compact` has no lines between columns; `plain` none at all, and no word on what is left out, as
#: a picture that changes in place wants it
Look = Literal["lined", "compact", "plain"]
_BOXES = {"lined": HEAVY_HEAD, "compact": SIMPLE_HEAD, "plain": None}
#: columns that each of a table's takes beside its cells, and how many fewer or more all of them do
_BESIDE = {"lined": (3, 1), "compact": (1, 1), "plain": (2, -2)}
_PADDING = {"lined": (0, 1, 0, 1), "compact": (0, 0, 0, 0), "plain": (0, 2, 0, 0)}

#: what is longer in a sentence is a piece of code, and no reason to leave other columns out
_LONGEST_WORD = 40


@attrs.frozen
class Column:
    heading: str
    #: what is a string is no markup
    cells: Sequence[RenderableType]
    #: that its cells will need at some time, so that columns stay where they are
    least: int = 0
    #: the column of least use is left out first; None: never
    use: int | None = None
    #: stands on the right
    number: bool = False
    #: cells are sentences, that may be wrapped between words
    wraps: bool = False


class _Room(NamedTuple):
    """Of a column: what it cannot do without, and what it can use."""

    narrowest: int
    widest: int


@attrs.frozen
class FittedTable:
    columns: Sequence[Column]
    title: str | None = None
    look: Look = "lined"
    #: how many rows stand above a line across the table; none if 0
    above_line: int = 0

    @property
    def rows(self) -> Sequence[tuple[RenderableType, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        rooms = [self._room(column, console) for column in self.columns]
        shown = self._shown([room.narrowest for room in rooms], options.max_width)
        widths = self._widths([rooms[at] for at in shown], options.max_width)
        yield self._made(shown, widths)
        hidden = [column.heading for at, column in enumerate(self.columns) if at not in shown]
        if hidden and self.look != "plain":
            yield Text(f"Too narrow for: {', '.join(hidden)}.", style="italic")

    def _made(self, shown: Sequence[int], widths: Sequence[int]) -> Table:
        made = Table(
            title=self.title,
            title_justify="left",
            box=_BOXES[self.look],
            padding=_PADDING[self.look],
            pad_edge=self.look != "plain",
            header_style="bold",
        )
        for at, width in zip(shown, widths, strict=True):
            column = self.columns[at]
            made.add_column(
                Text(column.heading),
                justify="right" if column.number else "left",
                width=width,
                overflow="fold",
            )
        for number, row in enumerate(self.rows, 1):
            cells = (row[at] for at in shown)
            made.add_row(
                *(Text(cell) if isinstance(cell, str) else cell for cell in cells),
                end_section=number == self.above_line,
            )
        return made

    def _shown(self, narrowest: Sequence[int], width: int) -> list[int]:
        """The columns for which there is room."""
        shown = list(range(len(self.columns)))
        spare = [(column.use, at) for at, column in enumerate(self.columns)]
        for _, at in sorted((use, at) for use, at in spare if use is not None):
            if self._beside(len(shown)) + sum(narrowest[at] for at in shown) <= width:
                break
            shown.remove(at)
        return shown

    def _widths(self, rooms: Sequence[_Room], width: int) -> list[int]:
        """Of each column: what it cannot do without, and of the rest as much as it can use."""
        widths = [room.narrowest for room in rooms]
        left = width - self._beside(len(rooms)) - sum(widths)
        # Nothing more can be left out: the widest are folded.
        for _ in range(-left):
            widths[widths.index(max(widths))] -= 1
        wanted = [room.widest - of for room, of in zip(rooms, widths, strict=True)]
        for number, at in enumerate(sorted(range(len(rooms)), key=wanted.__getitem__)):
            more = max(0, min(wanted[at], left // (len(rooms) - number)))
            widths[at] += more
            left -= more
        return [max(1, of) for of in widths]

    def _beside(self, columns: int) -> int:
        """What lines and blanks take."""
        each, all_of_them = _BESIDE[self.look]
        return columns * each + all_of_them

    def _room(self, column: Column, console: Console) -> _Room:
        words = [column.least, *map(cell_len, column.heading.split())]
        lines = [column.least, cell_len(column.heading)]
        for cell in column.cells:
            if isinstance(cell, str | Text):
                said = str(cell)
                lines += map(cell_len, said.splitlines())
                if column.wraps:
                    words += (min(cell_len(word), _LONGEST_WORD) for word in said.split())
                else:
                    words += map(cell_len, said.splitlines())
            else:
                measured = Measurement.get(console, console.options, cell).maximum
                words.append(measured)
                lines.append(measured)
        return _Room(max(words), max(lines))


def table(
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    title: str | None = None,
    numbers: Container[str] = (),
    least: Sequence[str] = (),
    look: Look = "lined",
    above_line: int = 0,
) -> FittedTable:
    """Under these headings, of `numbers` on the right.

    Where it is narrow, `least` go first, then what is rightmost: never the first column, nor
    sentences.
    """
    names, cells = list(headings), [list(row) for row in rows]
    columns = []
    for at, heading in enumerate(names):
        own = [row[at] for row in cells]
        is_number = heading in numbers
        wraps = not is_number and any(" " in cell for cell in own)
        use = None if wraps or not at else len(least) + len(names) - at
        if heading in least:
            use = least.index(heading)
        columns.append(Column(heading, own, use=use, number=is_number, wraps=wraps))
    return FittedTable(columns, title, look, above_line)

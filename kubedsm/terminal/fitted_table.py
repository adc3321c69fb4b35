"""Tables fitted to the terminal width without breaking numbers or names.

Sentences and headings wrap between words. If wrapping is insufficient, the least important columns
are omitted, and named in an additional line.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Literal

import attrs
from rich.box import HEAVY_HEAD, SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251  as a type
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

#: `compact` has no lines between columns. `plain` has no lines at all and does not name omitted
#: columns, for pictures redrawn in place.
Look = Literal["lined", "compact", "plain"]
_BOXES = {"lined": HEAVY_HEAD, "compact": SIMPLE_HEAD, "plain": None}
#: characters next to the cells: per column, and for the whole table
_FRAME = {"lined": (3, 1), "compact": (1, 1), "plain": (2, -2)}
_PADDING = {"lined": (0, 1, 0, 1), "compact": (0, 0, 0, 0), "plain": (0, 2, 0, 0)}

#: a longer word in a sentence is a piece of code, and may be folded
_LONGEST_WORD = 40


@attrs.frozen
class Column:
    heading: str
    #: strings are not parsed as markup
    cells: Sequence[RenderableType]
    #: minimum width, for growing cells: columns must not shift
    least: int = 0
    #: importance: the column with the lowest value is omitted first; None: never omitted
    use: int | None = None
    #: right-aligned
    number: bool = False
    #: cells are sentences, wrapping between words
    wraps: bool = False


@attrs.frozen
class FittedTable:
    """Terminal table whose column widths are computed for the terminal at printing."""

    columns: Sequence[Column]
    title: str | None = None
    look: Look = "lined"
    #: number of rows above a line across the table; no line if 0
    above_line: int = 0
    #: index of a row in inverse colours; negative for none
    cursor: int = -1

    @property
    def rows(self) -> Sequence[tuple[RenderableType, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        measured = [_measure(column, console) for column in self.columns]
        shown = self._choose_columns([each.minimum for each in measured], options.max_width)
        widths = self._distribute(shown, [measured[at] for at in shown], options.max_width)
        yield self._to_table(shown, widths)
        hidden = [column.heading for at, column in enumerate(self.columns) if at not in shown]
        if hidden and self.look != "plain":
            yield Text(
                f"{options.max_width} columns are too narrow for {', '.join(hidden)}:"
                " widen the terminal, or use -o json.",
                style="italic",
            )

    def _to_table(self, shown: Sequence[int], widths: Sequence[int]) -> Table:
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
                style="reverse" if number == self.cursor + 1 else None,
            )
        return made

    def _choose_columns(self, least: Sequence[int], width: int) -> list[int]:
        """Return indices of the columns that fit the width; least important ones are dropped."""
        shown = list(range(len(self.columns)))
        spare = [(column.use, at) for at, column in enumerate(self.columns)]
        for _, at in sorted((use, at) for use, at in spare if use is not None):
            if self._frame(len(shown)) + sum(least[at] for at in shown) <= width:
                break
            shown.remove(at)
        return shown

    def _distribute(
        self, shown: Sequence[int], measured: Sequence[Measurement], width: int
    ) -> list[int]:
        """Distribute the terminal width over the shown columns: minimum widths, then equal
        shares.
        """
        widths = [each.minimum for each in measured]
        wraps = [self.columns[at].wraps for at in shown]
        left = width - self._frame(len(widths)) - sum(widths)
        # No further column can be left out: the widest sentences are folded, then anything.
        for _ in range(-left):
            at = max(range(len(widths)), key=lambda i: (wraps[i] and widths[i] > 1, widths[i]))
            widths[at] -= 1
        wanted = [each.maximum - least for each, least in zip(measured, widths, strict=True)]
        for number, at in enumerate(sorted(range(len(widths)), key=wanted.__getitem__)):
            more = max(0, min(wanted[at], left // (len(widths) - number)))
            widths[at] += more
            left -= more
        return [max(1, each) for each in widths]

    def _frame(self, columns: int) -> int:
        """Return the width of a row's frame and padding characters, for a number of columns."""
        each, whole = _FRAME[self.look]
        return columns * each + whole


def _measure(column: Column, console: Console) -> Measurement:
    """Return a column's minimum width (unbroken numbers and names), and width without wrapping."""
    words = [column.least, *map(cell_len, column.heading.split())]
    lines = [column.least, cell_len(column.heading)]
    for cell in column.cells:
        text = Text(cell) if isinstance(cell, str) else cell
        word, line = Measurement.get(console, console.options, text)
        words.append(min(word, _LONGEST_WORD) if column.wraps else line)
        lines.append(line)
    return Measurement(max(words), max(lines))


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
    """Construct a fitted table; columns in `numbers` are right-aligned.

    Narrow terminals omit the columns `least` first, then columns from the right, but never the
    first column or sentences.
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

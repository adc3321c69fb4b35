"""A table as wide as there is room for: no number and no name in it is ever broken.

Sentences are wrapped between words. Where that is not enough, the columns of least use are left
out, and a line says which.
"""

from collections.abc import Container, Iterator, Sequence

import attrs
from rich.box import HEAVY_HEAD, SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text


@attrs.frozen
class FittedTable:
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str | None = None
    #: headings of what stands on the right
    numbers: Container[str] = ()
    header: bool = True
    #: headings, those of least use first; after them it is the rightmost. Never the first column,
    #: nor sentences
    least: Sequence[str] = ()
    #: without lines between columns
    compact: bool = False

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        shown = self._shown(options.max_width)
        yield self._made(shown, options.max_width)
        hidden = [name for at, name in enumerate(self.headings) if at not in shown]
        if hidden:
            yield Text(f"Too narrow for: {', '.join(hidden)}.", style="italic")

    def _made(self, shown: Sequence[int], width: int) -> Table:
        made = Table(
            title=self.title,
            title_justify="left",
            show_header=self.header,
            box=SIMPLE_HEAD if self.compact else HEAVY_HEAD,
            padding=0 if self.compact else (0, 1),
        )
        for at, wide in zip(shown, self._widths(shown, width), strict=True):
            right = self.headings[at] in self.numbers
            made.add_column(
                Text(self.headings[at]),
                justify="right" if right else "left",
                width=wide,
                overflow="fold",
            )
        for row in self.rows:
            made.add_row(*(Text(row[at]) for at in shown))
        return made

    def _shown(self, width: int) -> list[int]:
        """The columns for which there is room."""
        shown = list(range(len(self.headings)))
        first = [self.headings.index(name) for name in self.least]
        dispensable = [at for at in reversed(shown[1:]) if not self._is_sentence(at)]
        for at in (*first, *dispensable):
            if self._between(shown) + sum(map(self._narrowest, shown)) <= width:
                break
            if at in shown:
                shown.remove(at)
        return shown

    def _widths(self, shown: Sequence[int], width: int) -> list[int]:
        """Of each column: what it cannot do without, and of the rest as much as it can use."""
        widths = {at: self._narrowest(at) for at in shown}
        left = width - self._between(shown) - sum(widths.values())
        if left < 0:
            # Nothing more can be left out: the widest are folded.
            for _ in range(-left):
                widths[max(widths, key=widths.__getitem__)] -= 1
        wanted = {at: self._widest(at) - widths[at] for at in shown}
        for number, at in enumerate(sorted(shown, key=wanted.__getitem__)):
            more = max(0, min(wanted[at], left // (len(shown) - number)))
            widths[at] += more
            left -= more
        return [max(1, widths[at]) for at in shown]

    def _between(self, shown: Sequence[int]) -> int:
        """What lines and blanks take."""
        return len(shown) * (0 if self.compact else 2) + len(shown) + 1

    def _cells(self, at: int) -> Iterator[str]:
        for row in self.rows:
            yield from row[at].splitlines()

    def _is_sentence(self, at: int) -> bool:
        is_number = self.headings[at] in self.numbers
        return not is_number and any(" " in cell for cell in self._cells(at))

    def _narrowest(self, at: int) -> int:
        words = self._cells(at)
        if self._is_sentence(at):
            words = (word for cell in words for word in cell.split())
        heading = self.headings[at].split() if self.header else ()
        return max(map(cell_len, (*words, *heading)), default=0)

    def _widest(self, at: int) -> int:
        heading = (self.headings[at],) if self.header else ()
        return max(map(cell_len, (*self._cells(at), *heading)), default=0)

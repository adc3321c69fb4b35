"""Cells of terminal tables: names, bars, shares and amounts, with the values that order them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubedsm.terminal.console import Console

#: colours: target met, slightly missed, considerably missed
GOOD, WARNING, BAD = "green", "yellow", "red"
BAR = 8
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


class Cell(NamedTuple):
    """Table cell: the value by which rows are sorted, and the visible form."""

    order: Any
    shown: str | Text | ProgressBar


def word_cell(name: str, shown: str | None = None) -> Cell:
    return Cell(name, name if shown is None else shown)


def count_cell(number: int, style: str = "") -> Cell:
    """Return the cell of a count, empty for 0; greater counts come first."""
    text = str(number or "")
    return Cell(-number, Text(text, style) if style else text)


def percent_cell(part: float | None) -> Cell:
    """Return the cell of a part of 1; smaller parts come first, and unknown parts last."""
    return Cell(2.0 if part is None else part, "" if part is None else f"{part:.0%}")


def milliseconds_cell(milliseconds: float | None) -> Cell:
    """Return the cell of a response time; longer times come first."""
    if milliseconds is None:
        return Cell(0.0, "")
    return Cell(-milliseconds, f"{milliseconds:.3g}")


def used_cell(used: int, of: int) -> Cell:
    """Return the cell of a used part of a capacity, as percentage; fuller ones come first."""
    return Cell(-used / of, f"{used / of:.0%}") if of else Cell(0.0, "")


def bar_cell(used: int, of: int) -> Cell:
    return Cell(-used / max(1, of), bar(used, of))


def age_cell(since: float, now: float) -> Cell:
    """Return the cell of an age in the largest whole unit; younger ones come first."""
    seconds = max(0, int(now - since))
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"), (1, "s"))
    text = next((f"{seconds // size}{unit}" for size, unit in units if seconds >= size), "0s")
    return Cell(seconds, text)


def cores_of(millicores: int) -> str:
    return f"{millicores / 1000:.3g}"


def memory_of(used: int, of: int) -> str:
    """Format a node's requested and allocatable memory, in a suitable unit."""
    unit, name = (1 << 30, "Gi") if of >= 1 << 30 else (1 << 20, "Mi")
    return f"{used / unit:.1f} of {of / unit:.3g} {name}"


def count_lines(what: RenderableType, width: int) -> int:
    console = Console(width=width, color_system=None)
    return len(console.render_lines(what, pad=False))


def crop_lines(text: Text, width: int, lines: int) -> Text:
    """Wrap the text at the width, and return its first lines."""
    wrapped = text.wrap(Console(width=width, color_system=None), width)
    return Text("\n").join(wrapped[:lines])


def hang(lead: RenderableType, text: RenderableType) -> RenderableType:
    """Return a two-column layout: a lead, and next to it text with a hanging indentation."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column()
    made.add_row(lead, text)
    return made


def shorten_names(names: Sequence[str], width: int) -> tuple[Mapping[str, str], str]:
    """Shorten names to `width` characters; return short names by name, and a line explaining them.

    The common prefix and suffix are omitted, delimited by dashes and dots. Otherwise overlong
    names lose characters in the middle.
    """
    if max(map(len, names), default=0) <= width:
        return {name: name for name in names}, ""
    start = _shared_start(names)
    end = _shared_start([name.removeprefix(start)[::-1] for name in names])[::-1]
    short = {name: shorten(name.removeprefix(start).removesuffix(end), width) for name in names}
    whole = f"{start}*{end}"
    return short, f"nodes: {whole}" if whole != "*" else ""


def _shared_start(names: Sequence[str]) -> str:
    """Return the names' common prefix, up to the last dash or dot; empty for a single name."""
    shared = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071  no paths
    return shared[: max(shared.rfind("-"), shared.rfind(".")) + 1]


def shorten(name: str, width: int) -> str:
    """Shorten a name to `width` characters by omitting characters in the middle."""
    if len(name) <= width:
        return name
    head = width // 2
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[head + 1 - width :]}"


def bar(used: int, of: int) -> ProgressBar:
    """Return a progress bar for `used` of `of`, in neutral colours."""
    return ProgressBar(
        total=max(1, of),
        completed=used,
        width=BAR,
        style="grey35",
        complete_style="default",
        finished_style="default",
    )


def target_met(missing: int, pods: int) -> Text:
    """Describe a workload's QoS target as met, or by the number of pods missing at the edge."""
    if not pods:
        return Text("-")
    if not missing:
        return Text("met", style=GOOD)
    return Text(f"{missing} missing", style=WARNING if missing == 1 else BAD)

"""Forms of values in terminal tables: names, bars, ages, amounts, and QoS targets."""

import os
from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from kubedsm.planner.plurals import short_number
from kubedsm.terminal.console import Console

#: colours: target met, slightly missed, considerably missed
GOOD, WARNING, BAD = "green", "yellow", "red"
BAR = 8


def format_age(seconds: float) -> str:
    """Format an age in the largest whole unit."""
    units = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    return next((f"{seconds // size:.0f}{unit}" for size, unit in units if seconds >= size), "0s")


def format_cores(millicores: int) -> str:
    return short_number(millicores / 1000)


def format_memory(used: int, of: int) -> str:
    """Format a node's requested and allocatable memory, in a suitable unit."""
    unit, name = (1 << 30, "Gi") if of >= 1 << 30 else (1 << 20, "Mi")
    return f"{used / unit:.1f} of {short_number(of / unit)} {name}"


def count_lines(what: RenderableType, width: int) -> int:
    console = Console(width=width, color_system=None)
    return len(console.render_lines(what, pad=False))


def crop_lines(text: Text, width: int, lines: int) -> Text:
    """Wrap the text at the width, and return its first lines, with dots for further lines."""
    wrapped = text.wrap(Console(width=width, color_system=None), width)
    if len(wrapped) > lines:
        wrapped[lines - 1].truncate(width - 2)
        wrapped[lines - 1].append(" \N{HORIZONTAL ELLIPSIS}")
    return Text("\n").join(wrapped[:lines])


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

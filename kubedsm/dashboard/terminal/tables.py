"""Tables and pictures fitted to the terminal size: less important columns and parts are omitted."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubedsm.planner.plurals import counted
from kubedsm.terminal.console import Console
from kubedsm.terminal.fitted_table import Column, FittedTable

#: colours: target met, slightly missed, considerably missed
GOOD, WARNING, BAD = "green", "yellow", "red"
BAR = 8
#: columns of "999 pods of 99 services", of a table without its pods, and of a terminal in which
#: all pods are listed
COUNTED, BESIDE_PODS, WIDE = 23, 80, 1000
#: terminal width below which text requires additional lines
NARROW = 60


class Part(NamedTuple):
    """Optional part of a terminal picture, with its importance."""

    what: RenderableType
    #: the part of least use is left out first; None: never
    use: int | None = None


def fit_parts(parts: Sequence[Part], width: int, height: int) -> Sequence[RenderableType]:
    """Return the parts of a terminal picture that fit the terminal; among equally important parts,
    the first is omitted first.
    """
    kept = [(part, count_lines(part.what, width)) for part in parts]
    while sum(number for _, number in kept) > height:
        spare = [each for each in kept if each[0].use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda each: each[0].use or 0))
    return [part.what for part, _ in kept]


def count_lines(what: RenderableType, width: int) -> int:
    console = Console(width=width, color_system=None)
    return len(console.render_lines(what, pad=False))


def hang(lead: RenderableType, text: RenderableType) -> RenderableType:
    """Return a two-column layout: a lead, and next to it text with a hanging indentation."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column()
    made.add_row(lead, text)
    return made


@attrs.frozen
class NodeLine:
    """Line of the nodes table: usage and pods of one node; cpu in millicores, memory in bytes."""

    name: str
    tier: str
    #: unusual state, displayed instead of the tier
    state: str
    #: requested, and allocatable
    cpu: tuple[int, int]
    memory: tuple[int, int]
    #: pods by workload
    pods: Mapping[str, int]


def nodes_table(nodes: Sequence[NodeLine], width: int = WIDE) -> FittedTable:
    """Return a table with a line per node; in narrow terminals, pods are counted only."""
    room = max(COUNTED, width - BESIDE_PODS)
    return FittedTable(
        [
            Column("node", [node.name for node in nodes]),
            Column("tier", [_tier_cell(node) for node in nodes], least=7, use=4),
            Column("cpu", [_format_amounts(node.cpu, 1000) for node in nodes], 5, use=5),
            Column("", [bar(*node.cpu) for node in nodes], BAR, use=2),
            Column("memory", [_format_memory(*node.memory) for node in nodes], 12, use=3),
            Column("", [bar(*node.memory) for node in nodes], BAR, use=1),
            Column("pods", [_pods_cell(node.pods, room) for node in nodes], least=COUNTED),
        ],
        look="plain",
    )


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


def _tier_cell(node: NodeLine) -> Text:
    return Text(node.state, style=BAD) if node.state else Text(node.tier)


def _format_amounts(amounts: tuple[int, int], unit: float) -> str:
    used, of = (amount / unit for amount in amounts)
    return f"{used:.3g}/{of:.3g}"


def _format_memory(used: int, of: int) -> str:
    """Format a node's requested and allocatable memory, in a suitable unit."""
    unit, name = (1 << 30, "Gi") if of >= 1 << 30 else (1 << 20, "Mi")
    return f"{used / unit:.1f} of {of / unit:.3g} {name}"


def _pods_cell(pods: Mapping[str, int], room: int) -> str:
    """Format a node's pod counts per service, or only totals if longer than `room` characters."""
    listed = ", ".join(f"{count} {name}" for name, count in pods.items())
    if len(listed) <= room:
        return listed
    return f"{counted(sum(pods.values()), 'pod')} of {counted(len(pods), 'service')}"


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

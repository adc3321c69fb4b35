"""Parts of the demo's picture, fitted to the terminal: less important parts are omitted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import attrs
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kubedsm.dashboard.terminal.cells import BAD, BAR, bar, count_lines, format_memory
from kubedsm.planner.plurals import counted
from kubedsm.terminal.fitted_table import Column, FittedTable

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
    """Return the parts of a terminal picture that fit on the screen; among equally important parts,
    the first is omitted first.
    """
    kept = [(part, count_lines(part.what, width)) for part in parts]
    while sum(number for _, number in kept) > height:
        spare = [each for each in kept if each[0].use is not None]
        if not spare:
            break
        kept.remove(min(spare, key=lambda each: each[0].use or 0))
    return [part.what for part, _ in kept]


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
            Column("memory", [format_memory(*node.memory) for node in nodes], 12, use=3),
            Column("", [bar(*node.memory) for node in nodes], BAR, use=1),
            Column("pods", [_pods_cell(node.pods, room) for node in nodes], least=COUNTED),
        ],
        look="plain",
    )


def _tier_cell(node: NodeLine) -> Text:
    return Text(node.state, style=BAD) if node.state else Text(node.tier)


def _format_amounts(amounts: tuple[int, int], unit: float) -> str:
    used, of = (amount / unit for amount in amounts)
    return f"{used:.3g}/{of:.3g}"


def _pods_cell(pods: Mapping[str, int], room: int) -> str:
    """Format a node's pod counts per service, or only totals if longer than `room` characters."""
    listed = ", ".join(f"{count} {name}" for name, count in pods.items())
    if len(listed) <= room:
        return listed
    return f"{counted(sum(pods.values()), 'pod')} of {counted(len(pods), 'service')}"

"""The tables of nodes, and how it is said whether a promise is kept."""

from collections.abc import Mapping, Sequence

import attrs
from rich.progress_bar import ProgressBar
from rich.text import Text

from loadgen.fitted_table import Column, FittedTable

#: Colours mean one thing each: all is as it should be, something is missing, much of it is.
KEPT, LACKS, LACKS_MORE = "green", "yellow", "red"
BAR = 8


@attrs.frozen
class NodeLine:
    """A node as it is shown; cpu in millicores, memory in bytes."""

    name: str
    tier: str
    #: why it takes no pods, in its place
    state: str
    #: what is requested of it, of how much
    cpu: tuple[int, int]
    memory: tuple[int, int]
    #: pods by whose they are
    pods: Mapping[str, int]


def nodes_table(nodes: Sequence[NodeLine]) -> FittedTable:
    return FittedTable(
        [
            Column("node", [node.name for node in nodes]),
            Column("tier", [_tier(node) for node in nodes], least=7, use=3),
            Column("cpu", [_of(node.cpu, 1000) for node in nodes], 5),
            Column("", [bar(*node.cpu) for node in nodes], BAR, use=2),
            Column("memory", [f"{_of(node.memory, 1e9, 1)} GB" for node in nodes], 10),
            Column("", [bar(*node.memory) for node in nodes], BAR, use=1),
            Column("pods", [_pods(node.pods) for node in nodes], least=20),
        ],
        look="plain",
    )


def _tier(node: NodeLine) -> Text:
    return Text(node.state, style=LACKS_MORE) if node.state else Text(node.tier)


def _of(amounts: tuple[int, int], unit: float, digits: int | None = None) -> str:
    used, of = (amount / unit for amount in amounts)
    return f"{used:g}/{of:g}" if digits is None else f"{used:.{digits}f}/{of:g}"


def _pods(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in pods.items())


def bar(used: int, of: int) -> ProgressBar:
    """Of what is neither good nor bad."""
    return ProgressBar(
        total=max(1, of),
        completed=used,
        width=BAR,
        style="grey35",
        complete_style="default",
        finished_style="default",
    )


def kept(missing: int, pods: int) -> Text:
    """Whether a promise is kept, of a workload with so many pods."""
    if not pods:
        return Text("-")
    if not missing:
        return Text("kept", style=KEPT)
    return Text(f"lacks {missing}", style=LACKS if missing == 1 else LACKS_MORE)

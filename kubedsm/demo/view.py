"""The demo's live table and its summary."""

from collections.abc import Sequence
from typing import Any

import attrs
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubedsm.demo.observer import Migrations, NodeView, ServiceView
from kubedsm.replay.summaries import Latency
from kubedsm.why.table import table

COLOUR = {"edge": "green", "cloud": "blue"}
BAR = 12


@attrs.frozen(slots=True)
class Frame:
    """One picture of the run."""

    seconds: float
    duration: float
    nodes: Sequence[NodeView]
    services: Sequence[ServiceView]
    #: requests a second offered to each service now
    rates: Sequence[float]
    bound: int
    waiting: int
    latency: Latency | None
    edge_ratio: float | None
    #: services of which pods are being moved
    moving: Sequence[str]
    migrations: Migrations


def render(frame: Frame) -> RenderableType:
    return Group(
        Text(f"{frame.seconds:5.1f} s of {frame.duration:.0f} s", style="bold"),
        _nodes(frame),
        _services(frame),
        Text(_outcome(frame)),
    )


def _nodes(frame: Frame) -> Table:
    made = table(
        ("node", "tier", "cpu", "", "memory", "", "pods"),
        map(_node, frame.nodes),
        title="nodes (emulated)",
    )
    made.columns[-1].min_width = 24
    return made


def _node(node: NodeView) -> tuple[RenderableType, ...]:
    cpu, memory = node.used.cpu, node.used.memory
    return (
        node.name,
        Text(node.tier, style=COLOUR[node.tier]),
        _bar(cpu, node.allocatable.cpu),
        f"{cpu / 1000:g}/{node.allocatable.cpu / 1000:g}",
        _bar(memory, node.allocatable.memory),
        f"{memory / 1e9:.1f}/{node.allocatable.memory / 1e9:g} GB",
        "  ".join(f"{name}\N{MULTIPLICATION SIGN}{count}" for name, count in node.pods.items()),
    )


def _services(frame: Frame) -> Table:
    headings = ("service", "requests/s", "pods", "ready", "on edge", "edge share", "mean")
    rows = (
        (
            service.name,
            f"{rate:g}",
            str(service.pods),
            str(service.ready),
            str(service.share.edge),
            f"{service.share.ratio:.2f}" if service.share.total else "-",
            "-" if service.mean_share is None else f"{service.mean_share:.2f}",
        )
        for service, rate in zip(frame.services, frame.rates, strict=True)
    )
    return table(headings, rows, title="services", numbers=headings[1:])


def _outcome(frame: Frame) -> str:
    parts = [f"bound {frame.bound}", f"waiting {frame.waiting}"]
    if frame.latency is not None:
        shown = frame.latency.milliseconds()
        parts.append(f"created to bound: mean {shown['mean']:g} ms, p99 {shown['p99']:g} ms")
    if frame.edge_ratio is not None:
        parts.append(f"edge ratio {frame.edge_ratio:.3f}")
    moved = f"moves {frame.migrations.begun}"
    if frame.moving:
        moved += f" ({', '.join(frame.moving)} under way)"
    parts.append(f"{moved}, pod-seconds lost to them {frame.migrations.lost_pod_seconds:g}")
    return "   ".join(parts)


def _bar(used: int, of: int) -> ProgressBar:
    return ProgressBar(total=max(1, of), completed=used, width=BAR)


class LineByLine:
    """Frames where no table can change in place: a line every few seconds."""

    EVERY = 5.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due = 0.0

    def __call__(self, frame: Frame) -> None:
        if frame.seconds >= self._due:
            self._due = frame.seconds + self.EVERY
            self._console.print(f"{frame.seconds:5.1f} s   {_outcome(frame)}", soft_wrap=True)


def summary(frame: Frame) -> RenderableType:
    """How it ended."""
    return Group(
        _nodes(frame),
        _services(frame),
        Text(_outcome(frame), style="bold"),
    )


def as_json(frame: Frame) -> dict[str, Any]:
    """Shares are time means; latencies are from created to bound."""
    return {
        "emulated": True,
        "seconds": round(frame.seconds, 1),
        "edgeRatio": _rounded(frame.edge_ratio),
        "edgeShare": {s.name: _rounded(s.mean_share) for s in frame.services},
        "lastEdgeShare": {s.name: round(s.share.ratio, 4) for s in frame.services},
        "replicas": {s.name: s.pods for s in frame.services},
        "bound": frame.bound,
        "pending": frame.waiting,
        "migrations": frame.migrations.begun,
        "takenBack": frame.migrations.taken_back,
        "lostPodSeconds": round(frame.migrations.lost_pod_seconds, 3),
        "bindLatencyMs": None if frame.latency is None else frame.latency.milliseconds(),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

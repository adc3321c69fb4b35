"""The demo's live table and its summary."""

from collections.abc import Sequence
from typing import Any

import attrs
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubedsm.demo.disconnection import Disconnection
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
    #: None if no site is to be cut off
    cut: Disconnection | None = None

    def is_away(self, node: NodeView) -> bool:
        return self.cut is not None and self.cut.away and node.name in self.cut.nodes


def render(frame: Frame) -> RenderableType:
    return Group(
        Text(f"{frame.seconds:5.1f} s of {frame.duration:.0f} s", style="bold"),
        _nodes(frame),
        _services(frame),
        Text(_outcome(frame)),
        *([Text(_of_cut(frame.cut))] if frame.cut else []),
    )


def _nodes(frame: Frame) -> Table:
    made = table(
        ("node", "tier", "cpu", "", "memory", "", "pods"),
        (_node(node, away=frame.is_away(node)) for node in frame.nodes),
        title="nodes (emulated)",
    )
    made.columns[-1].min_width = 24
    return made


def _node(node: NodeView, *, away: bool) -> tuple[RenderableType, ...]:
    cpu, memory = node.used.cpu, node.used.memory
    return (
        node.name,
        Text("cut off", style="red") if away else Text(node.tier, style=COLOUR[node.tier]),
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


def _of_cut(cut: Disconnection) -> str:
    return (
        f"site {cut.site} ({', '.join(cut.nodes)}) cut off from {cut.begins:.0f} s to"
        f" {cut.ends:.0f} s; since then: serving capacity {cut.serving:.1%} of what is wanted, at"
        f" least {cut.lowest:.1%}; pods created for {cut.evicted} that Kubernetes evicted, and for"
        f" {cut.moves} moves"
    )


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
            away = f"site {frame.cut.site} is cut off   " if frame.cut and frame.cut.away else ""
            line = f"{frame.seconds:5.1f} s   {away}{_outcome(frame)}"
            self._console.print(line, soft_wrap=True)


def summary(frame: Frame) -> RenderableType:
    """How it ended."""
    return Group(
        _nodes(frame),
        _services(frame),
        Text(_outcome(frame), style="bold"),
        *([Text(_of_cut(frame.cut), style="bold")] if frame.cut else []),
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
        **({"disconnect": _cut_as_json(frame.cut)} if frame.cut else {}),
    }


def _cut_as_json(cut: Disconnection) -> dict[str, Any]:
    return {
        "site": cut.site,
        "from": cut.begins,
        "to": cut.ends,
        "servingShare": _rounded(cut.serving),
        "lowestServingShare": _rounded(cut.lowest),
        "evicted": cut.evicted,
        "moves": cut.moves,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

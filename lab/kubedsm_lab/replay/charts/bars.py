"""Bars, one below the other, each with its name and its figure."""

from collections.abc import Callable, Sequence

import attrs

from kubedsm_lab.replay.charts.looks import Look
from kubedsm_lab.replay.charts.panel import WIDTH, Panel, cut, shown, width
from kubedsm_lab.replay.charts.scales import ticks

#: pixels; longer names stand above their bars
_LONGEST = 130.0
_HIGH, _APART, _FIGURE = 13, 9, 46.0


@attrs.frozen
class Bar:
    name: str
    look: Look
    value: float
    #: from the least to the greatest; a thin line
    ends: tuple[float, float] | None = None
    #: a line across
    mark: float | None = None
    #: what of the value is drawn fully; all without
    part: float | None = None


def bars(
    title: str, drawn: Sequence[Bar], top: float, figure: Callable[[float], str], unit: str = ""
) -> Panel:
    """top: what the scale ends at. unit: below the scale."""
    panel = Panel(title)
    longest = max((width(each.name) for each in drawn), default=0)
    above = longest > _LONGEST
    left = 0.0 if above else longest + 8
    across = WIDTH - left - _FIGURE
    y = panel.height + 2
    start = y
    rows = []
    for each in drawn:
        y += 17 if above else 0
        rows.append((each, y))
        y += _HIGH + _APART
    steps = ticks(top, 4)
    scale = across / max(top, steps[-1])
    for step in steps:
        at = left + step * scale
        panel.path("rule", f"M{shown(at)} {shown(start - 2)}V{shown(y - 4)}")
        # At the panel's edge it would be cut in the middle.
        panel.text(at, y + 9, figure(step), "small faint middle" if at else "small faint")
    for each, at in rows:
        _bar(panel, each, at, left, scale)
        if above:
            panel.text(0, at - 4, cut(each.name, WIDTH))
        else:
            panel.text(left - 8, at + 11, each.name, "end")
        panel.text(WIDTH, at + 11, figure(each.value), "end")
    panel.height = y + 12
    if unit:
        panel.text(WIDTH, y + 9, unit, "small faint end")
    return panel


def _bar(panel: Panel, each: Bar, y: float, left: float, scale: float) -> None:
    long = each.value * scale
    panel.bar(left, y, long, _HIGH, each.look, 0 if each.part is None else long - each.part * scale)
    middle = shown(y + _HIGH / 2)
    if each.ends is not None:
        low, high = (shown(left + end * scale) for end in each.ends)
        cap = f"m0 -3v6M{low} {middle}m0 -3v6"
        panel.path("mark", f"M{low} {middle}H{high}{cap}")
    if each.mark is not None:
        panel.path("mark", f"M{shown(left + each.mark * scale)} {shown(y - 2)}v{_HIGH + 4}")

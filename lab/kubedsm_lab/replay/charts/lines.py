"""Lines over two axes."""

from collections.abc import Sequence

import attrs

from kubedsm_lab.replay.charts.looks import Look
from kubedsm_lab.replay.charts.panel import WIDTH, Panel, shown
from kubedsm_lab.replay.charts.scales import figure, ticks

Point = tuple[float, float]
_HIGH, _LEFT, _RIGHT = 190.0, 40.0, 8.0


@attrs.frozen
class Line:
    name: str
    look: Look
    points: Sequence[Point]
    #: from the least to the greatest, at the same places
    ends: Sequence[tuple[float, float]] = ()
    #: each value holds until the next
    steps: bool = False


@attrs.frozen
class _Frame:
    panel: Panel
    over: float
    top: float
    base: float = 0.0

    @property
    def floor(self) -> float:
        return 22 + 8 + _HIGH

    def x(self, value: float) -> float:
        return _LEFT + min(value, self.over) / self.over * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.floor - (value - self.base) / (self.top - self.base) * _HIGH

    def at(self, points: Sequence[Point], *, steps: bool) -> list[str]:
        """Where the pen goes."""
        found: list[str] = []
        for x, y in points:
            if x > self.over:
                break
            if steps and found:
                found.append(f"H{shown(self.x(x))}V{shown(self.y(y))}")
            else:
                found.append(f"{shown(self.x(x))} {shown(self.y(y))}")
        return found


def lines(
    title: str, drawn: Sequence[Line], across: str, up: str, *, over: float = 0.0, top: float = 0.0
) -> Panel:
    """across, up: what is along the axes. over, top: where these end, unless by the points."""
    frame = _framed(
        title,
        across,
        up,
        over or max((x for each in drawn for x, _ in each.points), default=1.0),
        top
        or max(
            (y for each in drawn for y in (*(p[1] for p in each.points), *_tops(each))), default=1.0
        ),
    )
    for each in drawn:
        if each.ends:
            frame.panel.path(f"f{each.look.colour}", _band(frame, each), ' opacity=".14"')
    for after, each in zip(reversed(range(len(drawn))), drawn, strict=True):
        pen = frame.at(each.points, steps=each.steps)
        # Steps have no marks: those that are level would hide each other.
        wide = 2 + 2.5 * after if each.steps and not each.ends else 2
        frame.panel.line("M" + ("" if each.steps else "L").join(pen), each.look, wide)
        if not each.steps:
            for x, y in each.points:
                frame.panel.mark(frame.x(x), frame.y(y), each.look)
    return frame.panel


def upright(panel: Panel, x: float, over: float, words: str) -> None:
    """A mark at a place of the lower axis of such a panel, with its name."""
    frame = _Frame(panel, over, 1.0)
    at = frame.x(x)
    panel.path("rule", f"M{shown(at)} 30V{shown(frame.floor)}", ' stroke-dasharray="2 2"')
    panel.text(at - 3, frame.floor - 4, words, "small faint", turned="-90")


def curve(title: str, drawn: Line, names: Sequence[str], across: str, up: str) -> Panel:
    """Through points that are close together, each with its name."""
    heights = [y for _, y in drawn.points]
    apart = max(heights) - min(heights)
    over = 1.2 * max(x for x, _ in drawn.points) or 1.0
    frame = _framed(title, across, up, over, max(heights), max(0.0, min(heights) - apart))
    frame.panel.line("M" + "L".join(frame.at(drawn.points, steps=False)), drawn.look)
    for (x, y), name in zip(drawn.points, names, strict=True):
        frame.panel.mark(frame.x(x), frame.y(y), drawn.look)
        frame.panel.text(frame.x(x) + 4, frame.y(y) + 17, name, "small")
    return frame.panel


def _framed(title: str, across: str, up: str, over: float, top: float, base: float = 0.0) -> _Frame:
    panel = Panel(title)
    levels, moments = ticks(top, 4, base), ticks(over, 5)
    frame = _Frame(panel, over, levels[-1], levels[0])
    for level in levels:
        y = frame.y(level)
        panel.path("rule", f"M{shown(_LEFT)} {shown(y)}H{shown(WIDTH - _RIGHT)}")
        panel.text(_LEFT - 6, y + 4, figure(level), "small faint end")
    for moment in moments:
        if moment <= over * 1.001:
            panel.text(frame.x(moment), frame.floor + 15, figure(moment), "small faint middle")
    panel.text(_LEFT, frame.floor + 31, across, "small faint")
    if up:
        panel.text(WIDTH - _RIGHT, 14, up, "small faint end")
    panel.height = frame.floor + 36
    return frame


def _tops(each: Line) -> list[float]:
    return [most for _, most in each.ends]


def _band(frame: _Frame, each: Line) -> str:
    least = [(x, low) for (x, _), (low, _) in zip(each.points, each.ends, strict=True)]
    most = [(x, high) for (x, _), (_, high) in zip(each.points, each.ends, strict=True)]
    if each.steps:
        least, most = _stepped(least), _stepped(most)
    there, back = (frame.at(each_way, steps=False) for each_way in (most, least))
    return "M" + "L".join([*there, *reversed(back)]) + "Z"


def _stepped(points: Sequence[Point]) -> list[Point]:
    found: list[Point] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def key(title: str, drawn: Sequence[tuple[str, Look]]) -> Panel:
    """Which line is whose."""
    panel = Panel(title)
    for index, (name, look) in enumerate(drawn):
        y = 38 + 19 * index
        panel.line(f"M0 {y}H30", look)
        panel.mark(15, y, look)
        panel.text(40, y + 4, name)
    panel.height = 38 + 19 * len(drawn)
    return panel

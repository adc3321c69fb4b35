"""Panels of what was over time: lines, areas and bars, with their legend."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from draw_dashboard.asking import Curve, Values
from draw_dashboard.panels import Answer, Panel, nothing
from draw_dashboard.sheet import FAINT, INK, Box, Sheet, width
from draw_dashboard.units import written

#: after Grafana's own, dark enough on white
_PALETTE = (
    "#56a64b", "#e0b400", "#3274d9", "#ff780a", "#e02f44", "#a352cc", "#37872d", "#6ed0e0",
    "#1f60c4", "#c4162a", "#8f3bb8", "#99440a", "#96d98d", "#8ab8ff", "#ffb357", "#ff7383",
)  # fmt: skip
#: pixels
_LINE, _DASH, _MARGIN = 16, 14, 52
_LINES = 3
#: pixels that a time needs on its axis
_TICK = 75
#: seconds between them
_APART = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)


def timeseries(sheet: Sheet, box: Box, panel: Panel, answer: Answer, times: Values) -> None:
    curves = [curve for given in answer for curve in given]
    given = panel["fieldConfig"]["defaults"]
    if not curves:
        nothing(sheet, box, given.get("noValue", "No data"))
        return
    styles = [_style(panel, curve.name, index) for index, curve in enumerate(curves)]
    lines = list(legend(curves, box.w))
    under = 26 + _LINE * min(len(lines), _LINES)
    axes = sheet.axes(box.inside(_MARGIN, 4, 12, under))
    _draw(axes, curves, styles, times)
    _scale(axes, given, times, box.w / _TICK)
    _write_legend(sheet, box, lines, [style["colour"] for style in styles])


def _style(panel: Panel, name: str, index: int) -> dict[str, Any]:
    """The panel's settings for one series, with what is overridden for it."""
    style = {**panel["fieldConfig"]["defaults"]["custom"]}
    style["colour"] = _PALETTE[index % len(_PALETTE)]
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] == {"id": "byName", "options": name}:
            given = {one["id"]: one["value"] for one in override["properties"]}
            style |= {key.removeprefix("custom."): value for key, value in given.items()}
            if "color" in given:
                style["colour"] = INK
    return style


def _draw(
    axes: Axes, curves: Sequence[Curve], styles: Sequence[Mapping[str, Any]], times: Values
) -> None:
    below = np.zeros(len(times))
    for curve, style in zip(curves, styles, strict=True):
        values, base = curve.values, np.zeros(len(times))
        if "stacking" in style:
            base, below = below, below + np.nan_to_num(values)
            values = np.where(np.isnan(values), np.nan, below)
        colour, filled = style["colour"], style["fillOpacity"] / 100
        if style.get("drawStyle") == "bars":
            wide = times[1] - times[0] if len(times) > 1 else 1
            axes.bar(times, values - base, wide, base, color=colour, alpha=filled)
            continue
        if filled:
            axes.fill_between(times, base, values, color=colour, alpha=filled, linewidth=0)
        axes.plot(times, values, color=colour, linewidth=style["lineWidth"])
        known = ~np.isnan(np.concatenate(([np.nan], values, [np.nan])))
        alone = known[1:-1] & ~known[:-2] & ~known[2:]
        axes.plot(times[alone], values[alone], ".", color=colour, markersize=4)


def _scale(axes: Axes, given: Mapping[str, Any], times: Values, ticks: float) -> None:
    axes.set_xlim(times[0], times[-1])
    lowest, top = given.get("min", axes.get_ylim()[0]), given.get("max", axes.dataLim.ymax * 1.05)
    axes.set_ylim(lowest, top if top > lowest else lowest + 1)
    if given["unit"] == "bytes":
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** math.ceil(math.log2(top / 4))))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, given["unit"])))
    apart = next((each for each in _APART if (times[-1] - times[0]) / each <= ticks), _APART[-1])
    form = "%H:%M" if apart % 60 == 0 else "%H:%M:%S"
    clock = FuncFormatter(lambda at, _: datetime.fromtimestamp(at, UTC).strftime(form))
    axes.xaxis.set_major_locator(MultipleLocator(apart))
    axes.xaxis.set_major_formatter(clock)


def legend(curves: Sequence[Curve], wide: float) -> Iterator[list[tuple[float, int, str]]]:
    """Its lines: where each name begins, whose it is, and the name."""
    line: list[tuple[float, int, str]] = []
    x = 0.0
    for index, curve in enumerate(curves):
        needs = width(curve.name, 11) + _DASH + 18
        if line and x + needs > wide:
            yield line
            line, x = [], 0.0
        line.append((x, index, curve.name))
        x += needs
    yield line


def _write_legend(
    sheet: Sheet,
    box: Box,
    lines: Sequence[Sequence[tuple[float, int, str]]],
    colours: Sequence[str],
) -> None:
    shown = lines[:_LINES]
    more = sum(map(len, lines[_LINES:]))
    for number, line in enumerate(shown):
        y = box.y + box.h - _LINE * (len(shown) - number) + _LINE / 2
        for x, index, name in line:
            sheet.dash(box.x + x, y, _DASH, colours[index])
            sheet.text(box.x + x + _DASH + 5, y, name, 11, within=box.w - x - _DASH)
    if more:
        sheet.text(box.x + box.w, box.y + box.h - _LINE / 2, f"and {more} more", 11,
                   colour=FAINT, align="right")  # fmt: skip

"""Panels of a dashboard: curves, single values, bars and tables, with Grafana's numbers."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from draw_dashboard.asking import Curve, Values
from draw_dashboard.sheet import FAINT, INK, POINT, RULE, Box, Sheet, width

Panel = Mapping[str, Any]
Answer = Sequence[Sequence[Curve]]

#: Grafana's names of colours, on its light ground
_COLOURS = {
    "green": "#1a7f4b", "yellow": "#cc9d00", "orange": "#e0752d", "red": "#d10e5c",
    "blue": "#1f60c4", "text": INK,
}  # fmt: skip
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_SECONDS = ((86400, "day"), (3600, "hour"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))

#: by Grafana's name of the unit: its scale, and what follows
UNITS: dict[str, tuple[Sequence[tuple[float, str]], str]] = {
    "short": (((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1, "")), ""),
    "percentunit": (((0.01, "%"),), ""),
    "s": (tuple((size, f" {name}") for size, name in _SECONDS), ""),
    "bytes": (tuple((size, f" {name}") for size, name in _BINARY), ""),
    "Bps": (tuple((size, f" {name}B/s") for size, name in _THOUSANDS), ""),
    "ops": (tuple((size, f" {name}") for size, name in _THOUSANDS), "ops/s"),
    "reqps": (tuple((size, f" {name}") for size, name in _THOUSANDS), "req/s"),
}
#: after Grafana's own, dark enough on white
_PALETTE = (
    "#56a64b", "#e0b400", "#3274d9", "#ff780a", "#e02f44", "#a352cc", "#37872d", "#6ed0e0",
    "#1f60c4", "#c4162a", "#8f3bb8", "#99440a", "#96d98d", "#8ab8ff", "#ffb357", "#ff7383",
)  # fmt: skip
#: pixels: line of the legend, dash with its gaps, left margin; lines of a legend at most
_LINE, _DASH, _MARGIN, _LINES = 16, 50, 52, 3
#: pixels of a time on its axis, and seconds between two of them
_TICK = 75
_APART = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)


def written(value: float, unit: str, decimals: int | None = None) -> str:
    """The number with three digits that tell, or as many decimals as are asked for.

    Raises KeyError for a unit that is not known.
    """
    scale, after = UNITS[unit]
    size, name = next((one for one in scale if abs(value) >= one[0]), scale[-1])
    if value == 0:
        size, name = next((one for one in scale if one[0] == 1), scale[0])
    scaled = value / size
    if decimals is None:
        digits = 2 - math.floor(math.log10(abs(scaled))) if scaled else 0
        text = f"{scaled:.{max(digits, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{scaled:.{decimals}f}"
    return f"{text}{name}{after}"


def timeseries(sheet: Sheet, box: Box, panel: Panel, answer: Answer, times: Values) -> None:
    curves = [curve for given in answer for curve in given]
    given = panel["fieldConfig"]["defaults"]
    if not curves:
        nothing(sheet, box, given.get("noValue", "No data"))
        return
    styles = [_style(panel, curve.name, index) for index, curve in enumerate(curves)]
    columns, shown = layout_legend([curve.name for curve in curves], box.w)
    under = 26 + _LINE * math.ceil(shown / columns)
    inner = box.inside(_MARGIN, 4, 12, under)
    axes = sheet.axes(inner)
    _draw(axes, curves, styles, times)
    _scale(axes, given, times, box.w / _TICK)
    axes.legend(
        [Line2D([], [], color=style["colour"], linewidth=2) for style in styles[:shown]],
        [curve.name for curve in curves[:shown]],
        loc="lower left",
        bbox_to_anchor=(-_MARGIN / inner.w, -under / inner.h),
        ncols=columns,
        frameon=False,
        fontsize=11 * POINT,
        handlelength=1.2,
        borderaxespad=0.0,
        borderpad=0.0,
        columnspacing=1.5,
    )
    if len(curves) > shown:
        more = f"and {len(curves) - shown} more"
        at = box.x + box.w, box.y + box.h - _LINE / 2
        sheet.text(*at, more, 11, colour=FAINT, align="right")


def layout_legend(names: Sequence[str], wide: float) -> tuple[int, int]:
    """Return the columns of a legend of that width in pixels, and how many names it shows."""
    widest = max(width(name, 11) for name in names) + _DASH
    columns = max(1, min(len(names), int(wide / widest)))
    return columns, min(len(names), columns * _LINES)


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


def _thresholded(value: float, thresholds: Mapping[str, Any]) -> str:
    passed = [s["color"] for s in thresholds["steps"] if s["value"] is None or value >= s["value"]]
    return _COLOURS[passed[-1]]


def stat(sheet: Sheet, box: Box, panel: Panel, answer: Answer, _times: Values) -> None:
    given = panel["fieldConfig"]["defaults"]
    words, colour = "No data", FAINT
    for curve in answer[0][:1]:
        words = written(curve.last, given["unit"], given.get("decimals"))
        for mapping in given.get("mappings", ()):
            words = mapping["options"].get(f"{curve.last:g}", {"text": words})["text"]
        colour = _thresholded(curve.last, given["thresholds"])
    sheet.rectangle(box, colour)
    sheet.text(box.x + 10, box.y + 16, panel["title"], colour="white", weight="bold")
    middle = box.y + 20 + (box.h - 20) / 2
    sheet.text(box.x + box.w / 2, middle, words, 30, colour="white", align="center", weight="bold")


def bargauge(sheet: Sheet, box: Box, panel: Panel, answer: Answer, _times: Values) -> None:
    given = panel["fieldConfig"]["defaults"]
    curves = answer[0]
    if not curves:
        nothing(sheet, box, given.get("noValue", "No data"))
        return
    greatest, each = max(curve.last for curve in curves) or 1, min(34.0, box.h / len(curves))
    for index, curve in enumerate(curves):
        y = box.y + index * each
        sheet.text(box.x, y + each / 2, curve.name, within=box.w * 0.45)
        left, room = box.x + box.w * 0.47, box.w * 0.4
        sheet.rectangle(Box(left, y + 3, room, each - 6), RULE)
        colour = _thresholded(curve.last, given["thresholds"])
        sheet.rectangle(Box(left, y + 3, room * curve.last / greatest, each - 6), colour)
        words = written(curve.last, given["unit"])
        sheet.text(left + room + 8, y + each / 2, words, colour=colour, weight="bold")


def table(sheet: Sheet, box: Box, panel: Panel, answer: Answer, _times: Values) -> None:
    columns, rows = joined(panel, answer)
    if not rows:
        nothing(sheet, box, "No data")
        return
    overrides = {
        o["matcher"]["options"]: o["properties"] for o in panel["fieldConfig"]["overrides"]
    }
    line, wide = 26.0, box.w / len(columns)
    for number, column in enumerate(columns):
        x = box.x + number * wide
        sheet.text(x + 4, box.y + line / 2, column, colour=_COLOURS["blue"], weight="bold")
        for index, row in enumerate(rows[: int(box.h / line) - 1], start=1):
            cell = Box(x, box.y + index * line, wide, line)
            given = {one["id"]: one["value"] for one in overrides.get(column, ())}
            _cell(sheet, cell, row.get(column, ""), given)
    for index in range(1, min(len(rows), int(box.h / line) - 1) + 1):
        sheet.rectangle(Box(box.x, box.y + index * line, box.w, 1), RULE)


def joined(panel: Panel, answer: Answer) -> tuple[list[str], list[dict[str, str | float]]]:
    """Columns and rows: answers with equal labels are one row, renamed and put in order."""
    rows: dict[tuple[tuple[str, str], ...], dict[str, str | float]] = {}
    for target, curves in zip(panel["targets"], answer, strict=True):
        for curve in curves:
            row = rows.setdefault(tuple(sorted(curve.labels.items())), {**curve.labels})
            row[f"Value #{target['refId']}"] = curve.last
    [order] = [t["options"] for t in panel["transformations"] if t["id"] == "organize"]
    names, places = order["renameByName"], order["indexByName"]
    columns = [names.get(name, name) for name in sorted(places, key=places.__getitem__)]
    found = [{names.get(name, name): value for name, value in row.items()} for row in rows.values()]
    for by in panel["options"]["sortBy"]:
        found.sort(key=lambda row: row.get(by["displayName"], 0), reverse=by["desc"])
    return columns, found


def _cell(sheet: Sheet, cell: Box, value: str | float, given: Mapping[str, Any]) -> None:
    if isinstance(value, str):
        sheet.text(cell.x + 4, cell.y + cell.h / 2, value, within=cell.w - 8)
        return
    words, colour = written(value, given.get("unit", "short")), INK
    kind = given.get("custom.cellOptions", {}).get("type")
    if kind == "gauge":
        room, part = cell.w - 60, (value - given["min"]) / (given["max"] - given["min"])
        sheet.rectangle(Box(cell.x + 4, cell.y + 6, room, cell.h - 11), RULE)
        sheet.rectangle(Box(cell.x + 4, cell.y + 6, room * part, cell.h - 11), _COLOURS["blue"])
        sheet.text(cell.x + room + 10, cell.y + cell.h / 2, words)
        return
    if kind == "color-text":
        colour = _thresholded(value, given["thresholds"])
    sheet.text(cell.x + 4, cell.y + cell.h / 2, words, colour=colour)


def nothing(sheet: Sheet, box: Box, words: str) -> None:
    sheet.text(box.x + box.w / 2, box.y + box.h / 2, words, 14, colour=FAINT, align="center")

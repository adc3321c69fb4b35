"""Panels of a dashboard: curves, single values, bars and tables, with Grafana's numbers.

Each panel is drawn into a card: axes of the panel's size without ticks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from draw_dashboard.prometheus import Curve, Values

Panel = Mapping[str, Any]
Answer = Sequence[Sequence[Curve]]

INK, FAINT, RULE = "#24292e", "#6e7780", "#e3e5e8"
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
    **{
        unit: (tuple((size, f" {name}") for size, name in _THOUSANDS), after)
        for unit, after in (("Bps", "B/s"), ("ops", "ops/s"), ("reqps", "req/s"))
    },
}
#: of a legend: pixels of a letter and of a dash with its gaps, and lines at most
_LETTER, _DASH, _LINES = 6, 50, 3
#: points of text
SMALL, NORMAL, LARGE = 7.5, 8.5, 20


def format_value(value: float, unit: str, decimals: int | None = None) -> str:
    """Return the number with three significant digits, or with that number of decimals.

    Raises KeyError for an unknown unit.
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


def draw_timeseries(card: Axes, panel: Panel, answer: Answer, times: Values) -> None:
    curves = [curve for given in answer for curve in given]
    given = panel["fieldConfig"]["defaults"]
    styles = [_series_style(panel, curve.name, index) for index, curve in enumerate(curves)]
    columns, shown = layout_legend([curve.name for curve in curves], card.bbox.width)
    left, under = 52 / card.bbox.width, (26 + 16 * math.ceil(shown / columns)) / card.bbox.height
    axes = card.inset_axes((left, under, 0.98 - left, 0.84 - under))
    axes.tick_params(labelsize=SMALL, colors=FAINT, length=0)
    axes.grid(color=RULE, linewidth=0.6)
    axes.spines[:].set_visible(False)
    _draw_curves(axes, curves, styles, times)
    axes.margins(x=0)
    lowest, top = given.get("min", axes.get_ylim()[0]), given.get("max", axes.dataLim.ymax * 1.05)
    axes.set_ylim(lowest, top if top > lowest else lowest + 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: format_value(y, given["unit"])))
    most = max(4, int(card.bbox.width / 75))
    dates = AutoDateLocator(minticks=2, maxticks=most)  # type: ignore[no-untyped-call]
    form = ConciseDateFormatter(dates, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(dates)
    axes.xaxis.set_major_formatter(form)
    axes.legend(
        [Line2D([], [], color=style["colour"], linewidth=2) for style in styles[:shown]],
        [curve.name for curve in curves[:shown]],
        loc="lower left",
        bbox_to_anchor=(0, 0),
        bbox_transform=card.transAxes,
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=1.2,
        columnspacing=1.5,
    )
    if len(curves) > shown:
        more = f"and {len(curves) - shown} more"
        card.text(0.98, 0.02, more, fontsize=SMALL, color=FAINT, ha="right")


def layout_legend(names: Sequence[str], wide: float) -> tuple[int, int]:
    """Return the columns of a legend of that width in pixels, and the number of shown names."""
    widest = max(map(len, names)) * _LETTER + _DASH
    columns = max(1, min(len(names), int(wide / widest)))
    return columns, min(len(names), columns * _LINES)


def _series_style(panel: Panel, name: str, index: int) -> dict[str, Any]:
    """Return the panel's settings for one series, with its overrides."""
    style = {**panel["fieldConfig"]["defaults"]["custom"]}
    style["colour"] = f"C{index % 10}"
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] == {"id": "byName", "options": name}:
            given = {one["id"]: one["value"] for one in override["properties"]}
            style |= {key.removeprefix("custom."): value for key, value in given.items()}
            if "color" in given:
                style["colour"] = INK
    return style


def _draw_curves(
    axes: Axes, curves: Sequence[Curve], styles: Sequence[Mapping[str, Any]], times: Values
) -> None:
    below, dates = np.zeros(len(times)), times.astype("datetime64[s]")
    for curve, style in zip(curves, styles, strict=True):
        values, base = curve.values, np.zeros(len(times))
        if "stacking" in style:
            base, below = below, below + np.nan_to_num(values)
            values = np.where(np.isnan(values), np.nan, below)
        colour, filled = style["colour"], style["fillOpacity"] / 100
        if style.get("drawStyle") == "bars":
            wide = dates[1] - dates[0] if len(dates) > 1 else np.timedelta64(1, "s")
            axes.bar(dates, values - base, wide, base, color=colour, alpha=filled)
            continue
        if filled:
            axes.fill_between(dates, base, values, color=colour, alpha=filled, linewidth=0)
        axes.plot(dates, values, color=colour, linewidth=style["lineWidth"])
        known = ~np.isnan(np.concatenate(([np.nan], values, [np.nan])))
        alone = known[1:-1] & ~known[:-2] & ~known[2:]
        axes.plot(dates[alone], values[alone], ".", color=colour, markersize=4)


def _threshold_colour(value: float, thresholds: Mapping[str, Any]) -> str:
    passed = [s["color"] for s in thresholds["steps"] if s["value"] is None or value >= s["value"]]
    return _COLOURS[passed[-1]]


def draw_stat(card: Axes, panel: Panel, answer: Answer, _times: Values) -> None:
    given = panel["fieldConfig"]["defaults"]
    curve = answer[0][0]
    words = format_value(curve.last, given["unit"], given.get("decimals"))
    for mapping in given.get("mappings", ()):
        words = mapping["options"].get(f"{curve.last:g}", {"text": words})["text"]
    card.set_facecolor(_threshold_colour(curve.last, given["thresholds"]))
    write(card, 0.5, 0.4, words, size=LARGE, ha="center", weight="bold")
    for text in card.texts:
        text.set_color("white")


def draw_bargauge(card: Axes, panel: Panel, answer: Answer, _times: Values) -> None:
    given, curves = panel["fieldConfig"]["defaults"], answer[0]
    axes = card.inset_axes((0.45, 0.04, 0.38, 0.8))
    axes.set_axis_off()
    greatest = max(curve.last for curve in curves) or 1
    for place, curve in enumerate(curves):
        colour = _threshold_colour(curve.last, given["thresholds"])
        axes.barh(place, greatest, color=RULE)
        axes.barh(place, curve.last, color=colour)
        axes.text(-0.03 * greatest, place, curve.name, fontsize=NORMAL, va="center", ha="right")
        words = format_value(curve.last, given["unit"])
        axes.text(1.03 * greatest, place, words, fontsize=NORMAL, va="center", color=colour)
    axes.set_xlim(0, greatest)
    axes.set_ylim(max(len(curves), 4) - 0.5, -0.5)


def draw_table(card: Axes, panel: Panel, answer: Answer, _times: Values) -> None:
    columns, rows = join_rows(panel, answer)
    overrides = {
        o["matcher"]["options"]: {one["id"]: one["value"] for one in o["properties"]}
        for o in panel["fieldConfig"]["overrides"]
    }
    line, wide = 26 / card.bbox.height, 0.98 / len(columns)
    for number, column in enumerate(columns):
        x, given = 0.01 + number * wide, overrides.get(column, {})
        write(card, x, 0.8, column, color=_COLOURS["blue"], weight="bold")
        for index, row in enumerate(rows[: int(0.78 / line)], start=1):
            value, colour = row.get(column, ""), INK
            if isinstance(value, float):
                if given.get("custom.cellOptions", {}).get("type") == "color-text":
                    colour = _threshold_colour(value, given["thresholds"])
                value = format_value(value, given.get("unit", "short"))
            write(card, x, 0.8 - index * line, str(value), color=colour)


def join_rows(panel: Panel, answer: Answer) -> tuple[list[str], list[dict[str, str | float]]]:
    """Return columns and rows: series with equal labels are one row, renamed and ordered."""
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


def write(card: Axes, x: float, y: float, words: str, *, size: float = NORMAL, **look: Any) -> None:
    """Write text at fractions of the card."""
    card.text(x, y, words, fontsize=size, va="center", parse_math=False, **look)


KINDS: Mapping[str, Callable[[Axes, Panel, Answer, Values], None]] = {
    "stat": draw_stat,
    "timeseries": draw_timeseries,
    "bargauge": draw_bargauge,
    "table": draw_table,
}

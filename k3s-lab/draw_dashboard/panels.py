"""Panels of what is now: single values, bars and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from draw_dashboard.asking import Curve, Values
from draw_dashboard.sheet import FAINT, INK, RULE, Box, Sheet
from draw_dashboard.units import written

Panel = Mapping[str, Any]
Answer = Sequence[Sequence[Curve]]

#: Grafana's names of colours, on its light ground
_COLOURS = {
    "green": "#1a7f4b", "yellow": "#cc9d00", "orange": "#e0752d", "red": "#d10e5c",
    "blue": "#1f60c4", "text": INK,
}  # fmt: skip


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

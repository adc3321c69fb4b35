"""Replay reports: results of runs as JSON, as Markdown, and as terminal tables."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.config.documents import DocumentError, content, reading
from kubedsm.model.model import Tier
from kubedsm.terminal.echo import escape_json
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.documents import json_as
from kubedsm_lab.replay.measures import Measures
from kubedsm_lab.replay.page import RESULTS
from kubedsm_lab.replay.runner import Outcome
from kubedsm_lab.replay.tables import UNKNOWN, WORDS, Row, cell, legend, markdown, number

Report = dict[str, Any]
EMULATED = "found on an emulated cluster in virtual time"
_DIGITS = 6
#: keys that identify a run
_NAMES = frozenset({"scenario", "policy", "seed"})


#: by heading
_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "edge ratio": cell(3, "edgeRatio"),
    "of optimum": cell(3, "optimumShare"),
    "std": cell(3, "std"),
    "mean ms": cell(1, "overallLatencyMs", "mean"),
    "p95 ms": cell(1, "overallLatencyMs", "p95"),
    "network ms": cell(1, "overallLatencyMs", "network"),
    "migrations": cell(1, "migrations"),
    "lost pod-s": cell(2, "lostPodSeconds"),
    "wait s": cell(3, "pendingSeconds", "mean"),
    "on one node": cell(2, "onOneNode", "services"),
    "avoidable": cell(3, "onOneNode", "avoidable"),
}
#: columns for which a terminal of 80 characters has no space
_WIDE = ("network ms", "on one node", "avoidable")
HEADINGS = ("scenario", "policy", *_COLUMNS)
SERVICE_HEADINGS = (
    *("scenario", "policy", "service", "edge share"),
    *("mean ms", "p95 ms", "network ms", *(f"{tier} ms" for tier in Tier)),
)
EFFECT_HEADINGS = (
    *("scenario", "policy", "completed migrations", "effect measured"),
    *("expected ms longer", "measured ms longer", "not measured"),
)
#: by heading of a report's tables
MEANINGS = WORDS["meanings"]


def how_measured(found: Report) -> str:
    """Return a phrase for the origin of a report's results, such as emulated or recorded."""
    return str(found.get("measured", EMULATED))


def in_a_sentence(found: Report) -> str:
    how = how_measured(found)
    return f"{how[:1].upper()}{how[1:]}."


def encode_report(found: Report) -> bytes:
    return escape_json(orjson.dumps(found)) + b"\n"


def report(outcomes: Sequence[Outcome]) -> Report:
    """Build a replay's report: `runs` in order, `means` over the seeds, and `timelines` of each
    first seed.

    A timeline has per service the second, the Ready edge pods, and all Ready pods.
    """
    runs = [outcome.as_json() for outcome in outcomes]
    return {"emulated": True} | assemble_report(
        runs, [outcome.timeline_json() for outcome in outcomes]
    )


def assemble_report(runs: Sequence[Row], timelines: Sequence[Row]) -> Report:
    """Build the report of runs and timelines, without the origin of the results."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        groups.setdefault((run["scenario"], run["policy"]), []).append(run)
    firsts: dict[tuple[str, str], Row] = {}
    for timeline in timelines:
        firsts.setdefault((timeline["scenario"], timeline["policy"]), timeline)
    return {
        "runs": list(runs),
        "means": [
            {"scenario": scenario, "policy": policy, "seeds": len(group)} | _average_rows(group)
            for (scenario, policy), group in groups.items()
        ],
        "timelines": list(firsts.values()),
    }


def _average_rows(measured: Sequence[Row]) -> dict[str, Any]:
    """Return the mean over rows of each number in nested dictionaries; None for a number that a row
    lacks.
    """
    means: dict[str, Any] = {}
    for key in dict.fromkeys(key for one in measured for key in one if key not in _NAMES):
        values = [one.get(key) for one in measured]
        if any(isinstance(value, dict) for value in values):
            means[key] = _average_rows([value or {} for value in values])
        else:
            known = [value for value in values if value is not None]
            missing = len(known) < len(values)
            means[key] = None if missing else round(statistics.fmean(known), _DIGITS)
    return means


class _Run(Measures, frozen=True, kw_only=True, rename="camel"):
    scenario: str
    policy: str


class _Timeline(msgspec.Struct, frozen=True):
    scenario: str
    policy: str
    end: float
    services: dict[str, list[tuple[float, int, int]]]


class _Results(msgspec.Struct, frozen=True):
    emulated: bool
    runs: list[_Run]
    timelines: list[_Timeline]
    measured: str | None = None


def join_reports(folders: Sequence[Path]) -> Report:
    """Merge the reports of several directories; runs of equal scenario and policy are numbered as
    different seeds.

    Raises DocumentError for a directory without results, and for a mixture of recordings,
    recordings of emulated clusters, and replays.
    """
    found = [_read_results(folder / RESULTS) for folder in folders]
    first = found[0]
    for folder, other in zip(folders, found, strict=True):
        if _classify_origin(other) != _classify_origin(first):
            both = f"{how_measured(other)}, and the first ones were {how_measured(first)}"
            raise DocumentError(both, source=str(folder))
    numbers = Counter[tuple[str, str]]()
    runs = []
    for run in (run for results in found for run in results["runs"]):
        name = run["scenario"], run["policy"]
        numbers[name] += 1
        runs.append(run | {"seed": numbers[name]})
    timelines = [timeline for results in found for timeline in results["timelines"]]
    how: Report = {"emulated": first["emulated"]}
    if "measured" in first:
        how["measured"] = " and ".join(dict.fromkeys(map(how_measured, found)))
    return how | assemble_report(runs, timelines)


def _classify_origin(found: Report) -> tuple[bool, bool]:
    return found["emulated"], "measured" in found


def _read_results(path: Path) -> Report:
    with reading(path):
        text = content(path)
        checked = json_as(text, _Results)
        if not (checked.runs and checked.timelines):
            raise DocumentError("no run in it")
        return json_as(text, dict[str, Any])


def policies_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["policy"] for row in rows))


def scenarios_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["scenario"] for row in rows))


def _list_rows(found: Report) -> list[tuple[str, ...]]:
    """Return table rows of a report's mean results, with columns HEADINGS."""
    return [
        (row["scenario"], row["policy"], *(column(row) for column in _COLUMNS.values()))
        for row in found["means"]
    ]


def _service_rows(found: Report) -> list[tuple[str, ...]]:
    """Return table rows of the means by service, with columns SERVICE_HEADINGS."""
    return [
        (
            *(row["scenario"], row["policy"], service, number(share, 3)),
            *(
                number(row["latencyMs"].get(service, {}).get(key), 1)
                for key in ("mean", "p95", "network")
            ),
            *(number(row.get("tierLatencyMs", {}).get(service, {}).get(t), 1) for t in Tier),
        )
        for row in found["means"]
        for service, share in row["shares"].items()
    ]


def _effect_rows(found: Report) -> list[tuple[str, ...]]:
    """Return table rows of the expected and measured effect of migrations on latencies, with
    columns EFFECT_HEADINGS.
    """
    rows = []
    for row in found["means"]:
        if effects := row.get("moveEffects"):
            longer = (effects[key] for key in ("expectedChange", "measuredChange"))
            untold = (f"{why}: {count:g}" for why, count in effects["untold"].items())
            counts = (f"{effects[key]:g}" for key in ("moves", "measured"))
            changes = (UNKNOWN if n is None else f"{1000 * n:+.1f}" for n in longer)
            rows.append((row["scenario"], row["policy"], *counts, *changes, "; ".join(untold)))
    return rows


def _of_runs(found: Report) -> str:
    seeds = max(row["seeds"] for row in found["means"])
    return "" if seeds == 1 else f", means of {seeds} runs"


def plain_tables(found: Report) -> str:
    """Return the report as Markdown: one chapter per scenario, legends below the tables.

    Columns without a known value are left out.
    """
    parts = []
    explained: set[tuple[str, ...]] = set()
    kinds = (
        (HEADINGS, _list_rows(found)),
        (SERVICE_HEADINGS, _service_rows(found)),
        (EFFECT_HEADINGS, _effect_rows(found)),
    )
    for scenario in scenarios_of(found["means"]):
        parts.append(f"## Scenario {scenario}{_of_runs(found)}")
        for headings, rows in kinds:
            lines = [row for row in rows if row[0] == scenario]
            known = [
                index
                for index in range(1, len(headings))
                if any(row[index] != UNKNOWN for row in lines)
            ]
            if known:
                named = tuple(headings[index] for index in known)
                parts.append(markdown(named, [[row[index] for index in known] for row in lines]))
                parts += [] if named in explained else [legend(named, MEANINGS)]
                explained.add(named)
    return "\n\n".join(parts) + "\n"


def tables(found: Report) -> Group:
    """Return terminal tables, one per scenario, with the columns that fit 80 characters."""
    parts: list[RenderableType] = [Text(how_measured(found) + _of_runs(found), style="bold")]
    headings = [heading for heading in _COLUMNS if heading not in _WIDE]
    for scenario in scenarios_of(found["means"]):
        rows = [
            (row["policy"], *(_COLUMNS[heading](row) for heading in headings))
            for row in found["means"]
            if row["scenario"] == scenario
        ]
        title = f"\n{scenario}"
        parts.append(
            table(("policy", *headings), rows, title=title, numbers=headings, look="compact")
        )
    parts += map(Text, map(_describe_effects, _effect_rows(found)))
    return Group(*parts)


def _describe_effects(row: Sequence[str]) -> str:
    scenario, policy, moves, measured, expected, found, untold = row
    effect = f": each was to make responses {expected} ms longer, and did {found}"
    why = f"; not measured: {untold}" if untold else ""
    known = f"{scenario}, {policy}: the effect of {measured} of {moves} moves was measured"
    return known + (effect if measured != "0" else "") + why

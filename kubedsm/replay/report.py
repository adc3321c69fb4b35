"""Results as JSON, and as a table for people."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.replay.runner import Outcome
from kubedsm.why.table import table

Report = dict[str, Any]

EMULATED = "measured on an emulated cluster in virtual time"
_DIGITS = 6


def report(outcomes: Sequence[Outcome]) -> Report:
    """`runs` in their order, their means over seeds, and how pods were placed for one seed each.

    A timeline has, per service, from which second on it had how many Ready pods on the edge, and
    in all.
    """
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.scenario, outcome.policy), []).append(outcome)
    return {
        "emulated": True,
        "runs": [outcome.as_json() for outcome in outcomes],
        "means": [
            {"scenario": scenario, "policy": policy, "seeds": len(group)}
            | _means([outcome.measures.as_json() for outcome in group])
            for (scenario, policy), group in groups.items()
        ],
        "timelines": [
            {
                "scenario": scenario,
                "policy": policy,
                "seed": group[0].seed,
                "end": group[0].end,
                "services": group[0].placements,
            }
            for (scenario, policy), group in groups.items()
        ],
    }


def _means(measured: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of numbers, number by number, through all nesting; None where one of them is missing."""
    means: dict[str, Any] = {}
    for key in measured[0]:
        values = [one[key] for one in measured]
        if isinstance(values[0], dict):
            means[key] = _means(values)
        else:
            missing = any(value is None for value in values)
            means[key] = None if missing else round(statistics.fmean(values), _DIGITS)
    return means


def policies_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["policy"] for row in rows))


def scenarios_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["scenario"] for row in rows))


NETWORK = "network ms"
ON_ONE_NODE, AVOIDABLE = "on one node", "avoidable"
#: heading, and what stands below it
_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "edge ratio": lambda row: number(row["edgeRatio"], 3),
    "of optimum": lambda row: number(row["optimumShare"], 3),
    "std": lambda row: number(row["std"], 3),
    "mean ms": lambda row: number(row["overallLatencyMs"]["mean"], 1),
    "p95 ms": lambda row: number(row["overallLatencyMs"]["p95"], 1),
    NETWORK: lambda row: number(row["overallLatencyMs"]["network"], 1),
    "moves": lambda row: number(row["migrations"], 1),
    "lost pod-s": lambda row: number(row["lostPodSeconds"], 2),
    "wait s": lambda row: number(row["pendingSeconds"]["mean"], 3),
    ON_ONE_NODE: lambda row: number(row["onOneNode"]["services"], 2),
    AVOIDABLE: lambda row: number(row["onOneNode"]["avoidable"], 3),
}
HEADINGS = ("scenario", "policy", *_COLUMNS)
#: what a terminal of 80 columns has no room for
_ONLY_ON_PAPER = frozenset(map(HEADINGS.index, (NETWORK, ON_ONE_NODE, AVOIDABLE)))
#: letters of the longest policy's name; only settings are longer
_NAME = 19


def rows_of(found: Report) -> list[tuple[str, ...]]:
    """The means, a row of texts each, under HEADINGS."""
    return [
        (row["scenario"], row["policy"], *(shown(row) for shown in _COLUMNS.values()))
        for row in found["means"]
    ]


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose columns but the first are numbers; nothing if there are no lines."""
    if not lines:
        return ""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines))


def tables(found: Report) -> Group:
    """A table a scenario."""
    seeds = max(row["seeds"] for row in found["means"])
    parts: list[RenderableType] = [
        Text(EMULATED + ("" if seeds == 1 else f", means of {seeds} seeds"), style="bold")
    ]
    rows = rows_of(found)
    for scenario in scenarios_of(found["means"]):
        of_scenario = (_narrow(row) for row in rows if row[0] == scenario)
        made = table(_narrow(HEADINGS), of_scenario, title=f"\n{scenario}", numbers=_COLUMNS)
        made.box, made.padding, made.columns[0].width = SIMPLE_HEAD, 0, _NAME
        parts.append(made)
    return Group(*parts)


def _narrow(row: Sequence[str]) -> list[str]:
    """Without the scenario, and without what is for wider media."""
    return [cell for index, cell in enumerate(row) if index and index not in _ONLY_ON_PAPER]

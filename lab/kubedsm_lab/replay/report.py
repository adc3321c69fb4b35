"""Results as JSON, and as a table for people."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from kubedsm.model.model import Tier
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.replay.glossary import legend
from kubedsm_lab.replay.runner import Outcome

Report = dict[str, Any]
Row = Mapping[str, Any]

EMULATED = "found on an emulated cluster in virtual time"
_DIGITS = 6
_UNKNOWN = "-"
_TIMES = ("mean", "p95", "network")
#: of a run: which one it is
_NAMES = frozenset({"scenario", "policy", "seed"})


def how_measured(found: Report) -> str:
    """Words for readers; a replay, whose results are the same for ever, has none of its own."""
    return str(found.get("measured", EMULATED))


def in_a_sentence(found: Report) -> str:
    how = how_measured(found)
    return f"{how[:1].upper()}{how[1:]}."


def report(outcomes: Sequence[Outcome]) -> Report:
    """`runs` in their order, their means over seeds, and how pods were placed for one seed each.

    A timeline has, per service, from which second on it had how many Ready pods on the edge, and
    in all.
    """
    runs = [outcome.as_json() for outcome in outcomes]
    return {"emulated": True} | assembled(runs, [outcome.timeline_json() for outcome in outcomes])


def assembled(runs: Sequence[Row], timelines: Sequence[Row]) -> Report:
    """The report of these runs, without how they were measured."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        groups.setdefault((run["scenario"], run["policy"]), []).append(run)
    firsts: dict[tuple[str, str], Row] = {}
    for timeline in timelines:
        firsts.setdefault((timeline["scenario"], timeline["policy"]), timeline)
    return {
        "runs": list(runs),
        "means": [
            {"scenario": scenario, "policy": policy, "seeds": len(group)} | _means(group)
            for (scenario, policy), group in groups.items()
        ],
        "timelines": list(firsts.values()),
    }


def _means(measured: Sequence[Row]) -> dict[str, Any]:
    """Of numbers, number by number, through all nesting; None where one of them is missing."""
    means: dict[str, Any] = {}
    for key in dict.fromkeys(key for one in measured for key in one if key not in _NAMES):
        values = [one.get(key) for one in measured]
        if any(isinstance(value, dict) for value in values):
            means[key] = _means([value or {} for value in values])
        else:
            known = [value for value in values if value is not None]
            missing = len(known) < len(values)
            means[key] = None if missing else round(statistics.fmean(known), _DIGITS)
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


def rows_of(found: Report) -> list[tuple[str, ...]]:
    """The means, a row of texts each, under HEADINGS."""
    return [
        (row["scenario"], row["policy"], *(shown(row) for shown in _COLUMNS.values()))
        for row in found["means"]
    ]


SERVICE_HEADINGS = (
    *("scenario", "policy", "service", "edge share"),
    *("mean ms", "p95 ms", NETWORK, *(f"{tier} ms" for tier in Tier)),
)


def service_rows(found: Report) -> list[tuple[str, ...]]:
    """The means of each service, a row of texts each, under SERVICE_HEADINGS."""
    return [
        (
            *(row["scenario"], row["policy"], service, number(share, 3)),
            *(number(row["latencyMs"].get(service, {}).get(k), 1) for k in _TIMES),
            *(number(row.get("tierLatencyMs", {}).get(service, {}).get(t), 1) for t in Tier),
        )
        for row in found["means"]
        for service, share in row["shares"].items()
    ]


EFFECT_HEADINGS = (
    *("scenario", "policy", "completed moves", "effect measured"),
    *("expected ms longer", "measured ms longer", "not measured"),
)


def effect_rows(found: Report) -> list[tuple[str, ...]]:
    """What moves brought, a row of texts each, under EFFECT_HEADINGS, where a scheduler said so.

    Of the mean response time of the service that was moved.
    """
    rows = []
    for row in found["means"]:
        if brought := row.get("moveEffects"):
            longer = (brought[key] for key in ("expectedChange", "measuredChange"))
            untold = (f"{why}: {count:g}" for why, count in brought["untold"].items())
            counts = (f"{brought[key]:g}" for key in ("moves", "measured"))
            changes = ("-" if n is None else f"{1000 * n:+.1f}" for n in longer)
            rows.append((row["scenario"], row["policy"], *counts, *changes, "; ".join(untold)))
    return rows


def number(value: float | None, digits: int) -> str:
    return _UNKNOWN if value is None else f"{value:.{digits}f}"


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table, its first column and those of words to the left; nothing if there are no lines."""
    if not lines:
        return ""
    columns = list(zip(*lines, strict=True))
    rule = ["---", *("---:" if _are_numbers(column) else "---" for column in columns[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines))


def _are_numbers(cells: Iterable[str]) -> bool:
    """In bold some of them, or nothing is known of them."""
    return all(cell.lstrip("*")[:1] in "+-.0123456789" for cell in cells)


def plain_tables(found: Report) -> str:
    """Markdown: a chapter a scenario, what its columns say below the first table of each kind.

    Columns of which nothing is known are left out.
    """
    parts = []
    seeds = max(row["seeds"] for row in found["means"])
    told: set[tuple[str, ...]] = set()
    kinds = (
        (HEADINGS, rows_of(found)),
        (SERVICE_HEADINGS, service_rows(found)),
        (EFFECT_HEADINGS, effect_rows(found)),
    )
    for scenario in scenarios_of(found["means"]):
        parts.append(f"## Scenario {scenario}" + ("" if seeds == 1 else f", means of {seeds} runs"))
        for headings, rows in kinds:
            lines = [row for row in rows if row[0] == scenario]
            known = [
                index
                for index in range(1, len(headings))
                if any(row[index] != _UNKNOWN for row in lines)
            ]
            if known:
                named = tuple(headings[index] for index in known)
                parts.append(markdown(named, [[row[index] for index in known] for row in lines]))
                parts += [] if named in told else [legend(named)]
                told.add(named)
    return "\n\n".join(parts) + "\n"


def tables(found: Report) -> Group:
    """A table a scenario."""
    seeds = max(row["seeds"] for row in found["means"])
    parts: list[RenderableType] = [
        Text(how_measured(found) + ("" if seeds == 1 else f", means of {seeds} runs"), style="bold")
    ]
    rows = rows_of(found)
    for scenario in scenarios_of(found["means"]):
        of_scenario = (_narrow(row) for row in rows if row[0] == scenario)
        parts.append(
            table(
                _narrow(HEADINGS),
                of_scenario,
                title=f"\n{scenario}",
                numbers=_COLUMNS,
                look="compact",
            )
        )
    parts += map(Text, map(_effects_in_a_line, effect_rows(found)))
    return Group(*parts)


def _effects_in_a_line(row: Sequence[str]) -> str:
    scenario, policy, moves, measured, expected, found, untold = row
    told = f": each was to make responses {expected} ms longer, and did {found}"
    why = f"; not measured: {untold}" if untold else ""
    known = f"{scenario}, {policy}: the effect of {measured} of {moves} moves was measured"
    return known + (told if measured != "0" else "") + why


def _narrow(row: Sequence[str]) -> list[str]:
    """Without the scenario, and without what is for wider media."""
    return [cell for index, cell in enumerate(row) if index and index not in _ONLY_ON_PAPER]

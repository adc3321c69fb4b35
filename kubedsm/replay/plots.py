"""Pictures of a report. Needs matplotlib (`pip install 'kubedsm[plots]'`)."""

import io
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kubedsm.core.policies.registry import KUBEDSM
from kubedsm.replay.measured import mean
from kubedsm.replay.presets import PRICES, REFERENCE, VARIANT_SCENARIO, priced
from kubedsm.replay.report import Report, how_measured, policies_of, scenarios_of
from kubedsm.replay.variants import BASELINES, CONTENDERS, MIGRATION_VARIANTS

Row = Mapping[str, Any]

#: distinct to colour-blind eyes too (Okabe and Ito)
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
_EDGE, _CLOUD = "#009e73", "#56b4e9"
#: policies side by side where there is no room for all
_FEW = 4
_DPI = 110
#: beside the curve of prices
_BESIDE_PRICES = ("no-migration", "paper-suggester")
#: inches
_FOOTER = 0.18


def pictures(found: Report) -> dict[str, bytes]:
    """PNG files by name, as far as there is something to show."""
    drawn: dict[str, Callable[[Report], Figure | None]] = {
        "edge-ratio-by-scenario": edge_ratio_by_scenario,
        "edge-ratio-by-variant": edge_ratio_by_variant,
        "edge-ratio-by-moves": edge_ratio_by_moves,
        "edge-share-by-service": radar,
        "placements": timeline,
        "response-times": response_times,
    }
    figures = {name: draw(found) for name, draw in drawn.items()}
    how = how_measured(found)
    return {f"{name}.png": png(figure, how) for name, figure in figures.items() if figure}


def png(figure: Figure, how: str) -> bytes:
    """A file of the picture, with how it was found below it."""
    height = _FOOTER / figure.get_figheight()
    figure.set_layout_engine("constrained", rect=(0, height, 1, 1 - height))
    figure.text(0.995, height / 4, how, ha="right", va="bottom", fontsize=7, color="#666666")
    buffer = io.BytesIO()
    # Without the version of matplotlib in it, so that equal pictures are equal files.
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()


def _colours(policies: Sequence[str]) -> dict[str, str]:
    return {name: PALETTE[index % len(PALETTE)] for index, name in enumerate(policies)}


def _compared(rows: Sequence[Row]) -> list[str]:
    """What the pictures of all policies show: the paper's variants have one of their own."""
    shown = (KUBEDSM, "paper-suggester", *BASELINES)
    present = policies_of(rows)
    settings = [name for name in present if name not in {*CONTENDERS, *map(priced, PRICES)}]
    compared = [*(name for name in shown if name in present), *settings] or present
    return compared[: len(PALETTE)]


def _by_key(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    return {(row["scenario"], row["policy"]): row for row in rows}


def edge_ratio_by_scenario(found: Report) -> Figure | None:
    """Bars by scenario and policy; a mark for the best there could be with the same pods."""
    rows = _by_key(found["means"])
    policies, scenarios = _compared(found["means"]), scenarios_of(found["means"])
    figure = Figure(figsize=(max(6.0, 1.1 * len(scenarios) + 2), 4.2))
    axes = figure.add_subplot()
    _bars(
        axes,
        scenarios,
        policies,
        lambda scenario, policy: (rows.get((scenario, policy)) or {}).get("edgeRatio"),
    )
    for index, scenario in enumerate(scenarios):
        best = [_optimum(rows.get((scenario, policy))) for policy in policies]
        levels = [level for level in best if level is not None]
        if levels:
            level = statistics.fmean(levels)
            axes.hlines(level, index - 0.45, index + 0.45, colors="black", linewidth=1.2)
    axes.set_ylabel("edge ratio (line: optimum)")
    axes.set_ylim(0, 1)
    return figure


def _optimum(row: Row | None) -> float | None:
    if row is None or not row["optimumShare"] or row["edgeRatio"] is None:
        return None
    return float(row["edgeRatio"] / row["optimumShare"])


def edge_ratio_by_variant(found: Report) -> Figure | None:
    """KubeDSM with less or other migration; whiskers from the least to the greatest seed."""
    present = policies_of(found["runs"])
    variants = [name for name in (REFERENCE, KUBEDSM, *MIGRATION_VARIANTS) if name in present]
    if not set(variants) & set(MIGRATION_VARIANTS):
        return None
    scenarios = scenarios_of(found["runs"])
    scenario = VARIANT_SCENARIO if VARIANT_SCENARIO in scenarios else scenarios[0]
    values = {
        name: [
            run["edgeRatio"]
            for run in found["runs"]
            if run["scenario"] == scenario and run["policy"] == name and run["edgeRatio"]
        ]
        for name in variants
    }
    shown = [name for name in variants if values[name]]
    means = [statistics.fmean(values[name]) for name in shown]
    whiskers = [
        [level - min(values[name]) for level, name in zip(means, shown, strict=True)],
        [max(values[name]) - level for level, name in zip(means, shown, strict=True)],
    ]
    figure = Figure(figsize=(7, 3.6))
    axes = figure.add_subplot()
    colours = [PALETTE[0] if name == KUBEDSM else PALETTE[4] for name in shown]
    axes.barh(shown, means, xerr=whiskers, color=colours, ecolor="#444444", capsize=3)
    axes.invert_yaxis()
    axes.set_xlabel(f"edge ratio, scenario {scenario}")
    axes.set_xlim(0, 1)
    return figure


def edge_ratio_by_moves(found: Report) -> Figure | None:
    """A point for each price of a move, in means over the scenarios of all, and for none at all."""
    named = {priced(price): price for price in PRICES}
    rows = [row for row in found["means"] if row["policy"] in {*named, *_BESIDE_PRICES}]
    names = policies_of(rows)
    played = Counter(row["scenario"] for row in rows)

    def of(name: str, key: str) -> float:
        of_all = (row for row in rows if played[row["scenario"]] == len(names))
        return statistics.fmean(row[key] or 0.0 for row in of_all if row["policy"] == name)

    points = {name: (of(name, "migrations"), of(name, "edgeRatio")) for name in names}
    curve = sorted(points[name] for name in points if name in named)
    if len(curve) <= 1:
        return None
    figure = Figure(figsize=(6, 4))
    axes = figure.add_subplot()
    axes.plot(*zip(*curve, strict=True), color=PALETTE[0], marker="o", label="by price of a move")
    for name, point in points.items():
        axes.plot(*point, marker="o", color=PALETTE[0] if name in named else PALETTE[1])
        axes.annotate(
            named.get(name, name), point, textcoords="offset points", xytext=(6, -10), fontsize=8
        )
    axes.set_xlabel("moves a run")
    axes.set_ylabel("edge ratio")
    axes.legend(loc="lower right", fontsize=8)
    return figure


def radar(found: Report) -> Figure | None:
    """The mean edge share of each service: a polygon a policy."""
    policies = _compared(found["means"])
    services = list(found["means"][0]["shares"])
    if len(services) < 3:  # noqa: PLR2004 - a polygon has three corners
        return None
    angles = [2 * math.pi * index / len(services) for index in range(len(services))]
    figure = Figure(figsize=(6, 5.2))
    axes = figure.add_subplot(projection="polar")
    colours = _colours(policies)
    for policy in policies:
        rows = [row for row in found["means"] if row["policy"] == policy]
        values = [
            statistics.fmean(row["shares"].get(name) or 0.0 for row in rows) for name in services
        ]
        axes.plot(
            [*angles, angles[0]],
            [*values, values[0]],
            color=colours[policy],
            linewidth=2 if policy == KUBEDSM else 1,
            label=policy,
        )
    axes.set_xticks(angles, [f"{name}" for name in services])
    axes.set_ylim(0, 1)
    axes.set_title("mean edge share by service")
    figure.legend(loc="outside right upper", fontsize=8)
    return figure


def timeline(found: Report) -> Figure | None:
    """Ready pods on the edge and in the cloud over time: of one seed of one scenario."""
    scenarios = scenarios_of(found["timelines"])
    scenario = VARIANT_SCENARIO if VARIANT_SCENARIO in scenarios else scenarios[0]
    lines = {line["policy"]: line for line in found["timelines"] if line["scenario"] == scenario}
    policies = [name for name in _compared(found["means"]) if name in lines][:_FEW]
    services = list(lines[policies[0]]["services"])
    figure = Figure(
        figsize=(3.1 * len(policies) + 1, 1.4 * len(services) + 1), layout="constrained"
    )
    grid = figure.subplots(len(services), len(policies), sharex=True, sharey=True, squeeze=False)
    for row, service in enumerate(services):
        for column, policy in enumerate(policies):
            axes = grid[row][column]
            _placements(axes, lines[policy]["services"][service], lines[policy]["end"])
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
            if not row:
                axes.set_title(policy, fontsize=9)
            if not column:
                axes.set_ylabel(f"{service}: pods")
            if row == len(services) - 1:
                axes.set_xlabel("s")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, fontsize=8)
    figure.suptitle(f"Ready pods, scenario {scenario}", fontsize=10, x=0.01, ha="left")
    return figure


def _placements(axes: Axes, changes: Sequence[Sequence[float]], end: float) -> None:
    moments = [*(moment for moment, _, _ in changes), end]
    edge = [*(number for _, number, _ in changes), changes[-1][1]]
    total = [*(number for _, _, number in changes), changes[-1][2]]
    axes.fill_between(moments, edge, step="post", color=_EDGE, label="edge", linewidth=0)
    axes.fill_between(moments, edge, total, step="post", color=_CLOUD, label="cloud", linewidth=0)


def response_times(found: Report) -> Figure | None:
    """Mean response times, over all scenarios, with the 95th percentile as a thin line."""
    policies = _compared(found["means"])
    services = list(dict.fromkeys(name for row in found["means"] for name in row["latencyMs"]))
    if not services:
        return None

    def value(kind: str) -> Callable[[str, str], float | None]:
        def of(service: str, policy: str) -> float | None:
            values = [
                row["latencyMs"][service][kind]
                for row in found["means"]
                if row["policy"] == policy and service in row["latencyMs"]
            ]
            return mean(values)

        return of

    figure = Figure(figsize=(8, 4))
    axes = figure.add_subplot()
    _bars(axes, services, policies, value("mean"), value("p95"))
    axes.set_ylabel("response time, ms (thin: p95)")
    return figure


def _bars(
    axes: Axes,
    groups: Sequence[str],
    policies: Sequence[str],
    value: Callable[[str, str], float | None],
    whisker: Callable[[str, str], float | None] | None = None,
) -> None:
    width = 0.85 / len(policies)
    colours = _colours(policies)
    for index, policy in enumerate(policies):
        places = [g - 0.425 + width * (index + 0.5) for g in range(len(groups))]
        heights = [value(group, policy) or 0.0 for group in groups]
        axes.bar(places, heights, width, color=colours[policy], label=policy)
        if whisker is not None:
            tops = [whisker(group, policy) or 0.0 for group in groups]
            axes.vlines(places, heights, tops, colors=colours[policy], linewidth=1)
    labels = [group.replace(" ", "\n", 1) for group in groups]
    axes.set_xticks(range(len(groups)), labels, fontsize=8)
    axes.set_xlim(-0.55, len(groups) - 0.45)
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.14), frameon=False)

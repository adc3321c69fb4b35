"""Plots of a replay's report: edge ratios and shares, placements, latencies."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kubedsm_lab.replay.page import write_report
from kubedsm_lab.replay.plots import (
    Bar,
    Look,
    Panel,
    assign_looks,
    plot_areas,
    plot_bars,
    render_picture,
)
from kubedsm_lab.replay.presets import VARIANT_SCENARIO
from kubedsm_lab.replay.report import (
    Report,
    encode_report,
    in_a_sentence,
    policies_of,
    scenarios_of,
)
from kubedsm_lab.replay.tables import Row, mean

_ALL = "mean of all scenarios"
#: title, description, panels; no panels if there is nothing to draw
Drawn = tuple[str, str, Sequence[Panel]]


def write_with_pictures(found: Report, out: Path, title: str, text: str) -> None:
    """Write report, plots and page into a directory; `text` is Markdown. Raises OSError."""
    write_report(out, title, text, encode_report(found), draw_report(found))


def draw_report(found: Report) -> dict[str, bytes]:
    """Return the report's plots as SVG files by name, each with all policies."""
    looks = assign_looks(policies_of(found["means"]))
    drawn: Mapping[str, Callable[[Report, Mapping[str, Look]], Drawn]] = {
        "edge-ratio-by-scenario": _draw_edge_ratios,
        "edge-share-by-service": _draw_edge_shares,
        "placements": _draw_placements,
        "response-times": _draw_response_times,
    }
    pictures = {}
    for name, draw in drawn.items():
        title, about, panels = draw(found, looks)
        if panels:
            described = f"{about} {in_a_sentence(found)}"
            pictures[f"{name}.svg"] = render_picture(title, described, panels)
    return pictures


def _draw_edge_ratios(found: Report, looks: Mapping[str, Look]) -> Drawn:
    """Plot edge ratios, one panel per scenario; for several scenarios also their mean."""
    scenarios = scenarios_of(found["means"])
    seeds: dict[tuple[str, str], list[float]] = {}
    for run in found["runs"]:
        if run["edgeRatio"] is not None:
            seeds.setdefault((run["scenario"], run["policy"]), []).append(run["edgeRatio"])

    def bar(row: Row) -> Bar:
        name, ratio = row["policy"], row["edgeRatio"] or 0.0
        ratios = seeds.get((row["scenario"], name), [])
        ends = (min(ratios), max(ratios)) if len(ratios) > 1 else None
        optimum = ratio / row["optimumShare"] if row["optimumShare"] else None
        return Bar(name, looks[name], ratio, ends, optimum)

    panels = []
    if len(scenarios) > 1:
        overall = []
        for name, look in looks.items():
            ratios = [row["edgeRatio"] for row in found["means"] if row["policy"] == name]
            if len(ratios) == len(scenarios):
                overall.append(Bar(name, look, mean(ratios) or 0.0))
        panels.append(plot_bars(_ALL, overall, 1, _format_percent))
    for scenario in scenarios:
        bars = [bar(row) for row in found["means"] if row["scenario"] == scenario]
        panels.append(plot_bars(f"scenario {scenario}", bars, 1, _format_percent))
    about = (
        "Edge ratio: the mean over services of the part of their pods that is on the edge."
        " The upright line is the most that any placement of the same pods could have;"
        " the thin one goes from the least to the greatest seed."
    )
    return "Edge ratio by policy", about, panels


def _select_shared(found: Report) -> tuple[list[Row], str]:
    """Return the mean results of the scenarios on which every policy was run, and a phrase that
    names these scenarios.
    """
    policies, scenarios = policies_of(found["means"]), scenarios_of(found["means"])
    played = Counter(row["scenario"] for row in found["means"])
    shared = [name for name in scenarios if played[name] == len(policies)] or scenarios
    rows = [row for row in found["means"] if row["scenario"] in shared]
    if len(shared) == 1:
        return rows, f"scenario {shared[0]}"
    which = "" if len(shared) == len(scenarios) else " that all policies played"
    return rows, f"means over the {len(shared)} scenarios{which}"


def _draw_edge_shares(found: Report, looks: Mapping[str, Look]) -> Drawn:
    """Plot edge shares, one panel per service, with a bar per policy."""
    rows, which = _select_shared(found)

    def bar(service: str, name: str) -> Bar:
        shares = [row["shares"].get(service) for row in rows if row["policy"] == name]
        return Bar(name, looks[name], mean(shares) or 0.0)

    panels = [
        plot_bars(f"service {service}", [bar(service, name) for name in looks], 1, _format_percent)
        for service in dict.fromkeys(name for row in rows for name in row["shares"])
    ]
    about = f"The part of a service's pods that is on the edge; {which}."
    return "Edge share by service", about, panels


def _draw_placements(found: Report, looks: Mapping[str, Look]) -> Drawn:
    """Plot pods by tier over time, one panel per policy, for one seed of one scenario."""
    scenarios = scenarios_of(found["timelines"])
    scenario = VARIANT_SCENARIO if VARIANT_SCENARIO in scenarios else scenarios[0]
    lines = [line for line in found["timelines"] if line["scenario"] == scenario]
    pods = (step[2] for line in lines for steps in line["services"].values() for step in steps)
    most = max(1, *pods)
    panels = [
        plot_areas(line["policy"], line["services"], line["end"], most, looks[line["policy"]])
        for line in lines
    ]
    about = (
        f"Ready pods in scenario {scenario}, its first seed: those on the edge in full colour,"
        " those in the cloud pale above them."
    )
    return "Pods on the edge and in the cloud over time", about, panels


def _draw_response_times(found: Report, looks: Mapping[str, Look]) -> Drawn:
    """Plot response latencies, one panel per service, with a bar per policy."""
    rows, which = _select_shared(found)

    def value(service: str, policy: str, key: str) -> float | None:
        latencies = (row["latencyMs"] for row in rows if row["policy"] == policy)
        times = [each[service][key] for each in latencies if service in each]
        return None if None in times else mean(times)

    panels = []
    for service in dict.fromkeys(name for row in rows for name in row["latencyMs"]):
        bars = []
        for name, look in looks.items():
            took = value(service, name, "mean")
            if took is not None:
                p95 = value(service, name, "p95")
                ends = None if p95 is None else (took, p95)
                bars.append(Bar(name, look, took, ends, part=value(service, name, "network")))
        if bars:
            top = 1.05 * max(max(bar.value, *(bar.ends or ())) for bar in bars)
            panels.append(plot_bars(f"service {service}", bars, top, "{:,.0f}".format, "ms"))
    about = (
        f"Mean response time in milliseconds; {which}. In full colour: the part"
        " that the network takes, where it is known; the thin line ends at the 95th percentile."
    )
    return "Response time by service", about, panels


def _format_percent(value: float) -> str:
    return f"{100 * value:.0f} %"

"""Pictures of a report, each with all policies."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.charts.areas import areas
from kubedsm_lab.replay.charts.bars import Bar, bars
from kubedsm_lab.replay.charts.lines import Line, curve
from kubedsm_lab.replay.charts.looks import looks_of
from kubedsm_lab.replay.charts.panel import Panel, picture
from kubedsm_lab.replay.measured import mean
from kubedsm_lab.replay.presets import PRICES, VARIANT_SCENARIO, priced
from kubedsm_lab.replay.report import Report, in_a_sentence, policies_of, scenarios_of

Row = Mapping[str, Any]
_TEN = 10
_ALL = "mean of all scenarios"
#: what of a move is shown
_MOVES = {"moves a run": "migrations", "pod-seconds lost to moves, a run": "lostPodSeconds"}


def pictures(found: Report) -> dict[str, bytes]:
    """SVG files by name, as far as there is something to show."""
    drawn = (edge_ratios, edge_shares, placements, response_times, moves)
    how = in_a_sentence(found)
    made = [
        (name, title, f"{about} {how}", panels)
        for name, title, about, panels in (draw(found) for draw in drawn)
        if panels
    ]
    return {f"{name}.svg": picture(title, about, panels) for name, title, about, panels in made}


#: name, title, what is to be seen, and the panels: none if there is nothing to show
Drawn = tuple[str, str, str, Sequence[Panel]]


def edge_ratios(found: Report) -> Drawn:
    """A panel a scenario; beside several, one of their means."""
    looks = looks_of(policies_of(found["means"]))
    scenarios = scenarios_of(found["means"])
    of_seeds: dict[tuple[str, str], list[float]] = {}
    for run in found["runs"]:
        if run["edgeRatio"] is not None:
            of_seeds.setdefault((run["scenario"], run["policy"]), []).append(run["edgeRatio"])

    def bar(row: Row) -> Bar:
        name, ratio = row["policy"], row["edgeRatio"] or 0.0
        seeds = of_seeds.get((row["scenario"], name), [])
        ends = (min(seeds), max(seeds)) if len(seeds) > 1 else None
        best = ratio / row["optimumShare"] if row["optimumShare"] else None
        return Bar(name, looks[name], ratio, ends, best)

    panels = []
    if len(scenarios) > 1:
        rows: dict[str, list[Row]] = {}
        for row in found["means"]:
            rows.setdefault(row["policy"], []).append(row)
        overall = [
            Bar(name, looks[name], mean([row["edgeRatio"] for row in played]) or 0.0)
            for name, played in rows.items()
            if len(played) == len(scenarios)
        ]
        panels.append(bars(_ALL, overall, 1, _percent))
    for scenario in scenarios:
        played = [bar(row) for row in found["means"] if row["scenario"] == scenario]
        panels.append(bars(f"scenario {scenario}", played, 1, _percent))
    about = (
        "Edge ratio: the mean over services of the part of their pods that is on the edge."
        " The upright line is the most that any placement of the same pods could have;"
        " the thin one goes from the least to the greatest seed."
    )
    return "edge-ratio-by-scenario", "Who keeps how much at the edge", about, panels


def _shared(found: Report) -> tuple[list[Row], str]:
    """The means of the scenarios that all policies played, and which these are, in words."""
    policies, scenarios = policies_of(found["means"]), scenarios_of(found["means"])
    played = Counter(row["scenario"] for row in found["means"])
    shared = [name for name in scenarios if played[name] == len(policies)] or scenarios
    rows = [row for row in found["means"] if row["scenario"] in shared]
    if len(shared) == 1:
        return rows, f"scenario {shared[0]}"
    beside = "" if len(shared) == len(scenarios) else " that all policies played"
    return rows, f"means over the {len(shared)} scenarios{beside}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def edge_shares(found: Report) -> Drawn:
    """A panel a service."""
    rows, which = _shared(found)
    looks = looks_of(policies_of(rows))
    services = list(dict.fromkeys(name for row in rows for name in row["shares"]))

    def share(service: str, policy: str) -> float | None:
        return mean([row["shares"].get(service) for row in rows if row["policy"] == policy])

    panels = [
        bars(
            f"service {service}",
            [Bar(name, looks[name], share(service, name) or 0.0) for name in looks],
            1,
            _percent,
        )
        for service in services
    ]
    about = f"The part of a service's pods that is on the edge; {which}."
    return "edge-share-by-service", "Which service gets the edge", about, panels


def placements(found: Report) -> Drawn:
    """A panel a policy: of one seed of one scenario."""
    scenarios = scenarios_of(found["timelines"])
    scenario = VARIANT_SCENARIO if VARIANT_SCENARIO in scenarios else scenarios[0]
    lines = [line for line in found["timelines"] if line["scenario"] == scenario]
    looks = looks_of(policies_of(found["means"]))
    most = max(
        (change[2] for line in lines for of in line["services"].values() for change in of),
        default=1,
    )
    panels = [
        areas(line["policy"], line["services"], line["end"], max(most, 1), looks[line["policy"]])
        for line in lines
    ]
    about = (
        f"Ready pods in scenario {scenario}, its first seed: those on the edge in full colour,"
        " those in the cloud pale above them."
    )
    return "placements", "Where pods were, moment by moment", about, panels


def response_times(found: Report) -> Drawn:
    """A panel a service."""
    rows, which = _shared(found)
    looks = looks_of(policies_of(rows))
    services = list(dict.fromkeys(name for row in rows for name in row["latencyMs"]))

    def value(service: str, policy: str, kind: str) -> float | None:
        of_policy = (row["latencyMs"] for row in rows if row["policy"] == policy)
        times = [times[service][kind] for times in of_policy if service in times]
        return None if None in times else mean(times)

    panels = []
    for service in services:
        drawn = []
        for name, look in looks.items():
            took = value(service, name, "mean")
            if took is not None:
                p95 = value(service, name, "p95")
                ends = None if p95 is None else (took, p95)
                drawn.append(Bar(name, look, took, ends, part=value(service, name, "network")))
        top = max((max(each.value, (each.ends or (0, 0))[1]) for each in drawn), default=0.0)
        if drawn:
            panels.append(bars(f"service {service}", drawn, top, lambda v: f"{v:,.0f}", "ms"))
    about = (
        f"Mean response time in milliseconds; {which}. In full colour: the part"
        " that the network takes, where it is known; the thin line ends at the 95th percentile."
    )
    return "response-times", "How long requests take", about, panels


def moves(found: Report) -> Drawn:
    """Nothing if there were none. Also what they buy, where several prices of one were played."""
    rows, which = _shared(found)
    looks = looks_of(policies_of(rows))

    def of(name: str, key: str) -> float:
        return mean([row[key] for row in rows if row["policy"] == name]) or 0.0

    panels = []
    for title, key in _MOVES.items():
        drawn = [Bar(name, look, of(name, key)) for name, look in looks.items()]
        most = max(each.value for each in drawn)
        if most:
            panels.append(bars(title, drawn, most, _tenths))
    by_price = {priced(price): price for price in PRICES}
    points = sorted(
        ((of(name, "migrations"), of(name, "edgeRatio")), by_price[name])
        for name in looks
        if name in by_price
    )
    if panels and len(points) > 1:
        line = Line("", looks_of([KUBEDSM])[KUBEDSM], [point for point, _ in points])
        names = [price for _, price in points]
        panels.append(
            curve("edge ratio by price of a move", line, names, "moves a run", "edge ratio")
        )
    lost = any(row["lostPodSeconds"] for row in rows)
    cost = "and what that cost" if lost else "of which none took a Ready pod away"
    return "moves", "What was moved", f"Moves of pods, {cost}; {which}.", panels


def _tenths(value: float) -> str:
    return f"{value:.3g}" if value < _TEN else f"{value:,.0f}"

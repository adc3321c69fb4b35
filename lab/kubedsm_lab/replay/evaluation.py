"""Tables of docs/explanation/evaluation.md."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs

from kubedsm.config.settings import Configuration
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import SERVICES, paper_cluster
from kubedsm_lab.replay import report
from kubedsm_lab.replay.figures import FIGURES
from kubedsm_lab.replay.measured import Measured
from kubedsm_lab.replay.presets import (
    MAIN_POLICIES,
    MIDDLE_SCENARIO,
    OTHER_STABILIZATIONS,
    REFERENCE,
    list_tried,
    name_stabilized,
)
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.report import Report, plain_tables
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.tables import (
    WORDS,
    Row,
    Section,
    Table,
    fill_sections,
    grid,
    lookup,
    mean,
    number,
    percent,
    render_sections,
)
from kubedsm_lab.replay.variants import MIGRATION_VARIANTS, OBJECTIVE_VARIANTS
from kubedsm_lab.replay.world import Setup

_STILL, _PAPERS = "no-migration", "paper-suggester"
_MEANINGS = report.MEANINGS | WORDS["evaluation-meanings"]
_NAMES = [name.upper() for name in SERVICES]


def render_text(found: Report, other: str, *, whole: bool) -> str:
    """Return a replay's report as Markdown: a chapter per scenario, or all tables of the evaluation
    if `whole`.

    `other` describes differences from the paper's set-up, if any: then published figures are left
    out.
    """
    if not whole:
        return plain_tables(found)
    note = (
        "What the KubeDSM paper published is not shown with these figures, as it is about other"
        f" {other}.\n"
    )
    return "\n".join([note] * bool(other) + [render_sections(sections(found, published=not other))])


def other_than_the_papers(setup: Setup) -> str:
    """Return the parts of the set-up (nodes, services, settings) that differ from the paper's, as
    text; empty if none differ.
    """
    differs = {
        "nodes": setup.cluster != paper_cluster(),
        "services": setup.services != PAPER_SERVICES,
        "settings": setup.configuration != Configuration(),
    }
    return " and ".join(name for name, yes in differs.items() if yes)


def _tabulate_overview(measured: Measured) -> Table:
    scenarios = [name for name in measured.scenarios if measured.row(name, KUBEDSM)]
    if not scenarios:
        return [], []
    lost = sum(row["lostPodSeconds"] * row["seeds"] for row in measured.rows.values())
    lines = [
        ["runs", str(sum(row["seeds"] for row in measured.rows.values()))],
        ["pod-seconds lost to migrations, all runs", number(lost, 2)],
    ]
    if measured.list_played(name for name in MAIN_POLICIES if name != KUBEDSM):
        ahead = [_list_leads(measured, policy) for policy in MAIN_POLICIES]
        firsts = sum(all(each.get(name, 0.0) >= 0 for each in ahead) for name in scenarios)
        lines.append(["scenarios with the highest edge ratio", f"{firsts} of {len(scenarios)}"])
    for policy in measured.list_played((KUBEDSM, _PAPERS, REFERENCE)):
        optimum = mean(measured.value(name, policy, "optimumShare") for name in scenarios)
        moves = mean(measured.value(name, policy, "migrations") for name in scenarios)
        lines.append([f"share of the optimum, {policy}", number(optimum, 3)])
        lines.append([f"migrations per run, {policy}", number(moves, 1)])
    for policy in measured.list_played((_PAPERS, _STILL)):
        lead = _list_leads(measured, policy)
        least = min(lead, key=lambda name: lead[name], default=None)
        if least is not None:
            above = f"edge ratio above {policy}"
            lines.append([above, number(mean(lead.values()), 3)])
            lines.append([f"{above}, least ({least})", number(lead[least], 3)])
    for part, shown in (("mean", "response time"), ("network", "the network's part")):
        longer = measured.mean_longer(KUBEDSM, part=part)
        lines.append([f"{shown} of all requests, to {REFERENCE}", percent(longer)])
    return ["measure", "figure"], lines


def _list_leads(measured: Measured, policy: str) -> dict[str, float]:
    """Return by how much KubeDSM's edge ratio (mean edge share) exceeds the other policy's, by
    scenario.
    """
    found = {}
    for scenario in measured.scenarios:
        ours, theirs = (measured.value(scenario, p, "edgeRatio") for p in (KUBEDSM, policy))
        if ours is not None and theirs is not None:
            found[scenario] = ours - theirs
    return found


def _tabulate_scenarios(measured: Measured, *, key: str) -> Table:
    lines = []
    for policy in measured.list_played(MAIN_POLICIES):
        ours = measured.values(policy, key)
        lines.append([policy, *(number(one, 3) for one in (*ours, mean(ours)))])
    return ["policy", *measured.scenarios, "mean"], lines


def _overall_cell(measured: Measured, key: str, digits: int) -> Callable[[str], str]:
    """Return a function that formats a table cell: a policy's mean of one measure over all
    scenarios.
    """
    return lambda policy: number(measured.overall(policy, key), digits)


def _tabulate_variants(measured: Measured) -> Table:
    policies = measured.list_played((REFERENCE, KUBEDSM, *MIGRATION_VARIANTS))
    if len(policies) <= len(MAIN_POLICIES):
        return [], []
    columns = {
        "mean of all": _overall_cell(measured, "edgeRatio", 3),
        "of optimum": _overall_cell(measured, "optimumShare", 3),
        "migrations": _overall_cell(measured, "migrations", 1),
    }
    return grid("variant", {policy: policy for policy in policies}, columns)


def _tabulate_tried(measured: Measured, *, key: str, heading: str) -> Table:
    """Return the table of edge ratio, deviation and migrations by the tried values of a setting;
    empty if only the default was run.
    """
    policies = {
        f"**{value}**" if policy == KUBEDSM else value: policy
        for value, policy in list_tried(key).items()
    }
    played = {name: policy for name, policy in policies.items() if measured.list_played([policy])}
    if len(played) <= 1:
        return [], []
    rows = played | {name: name for name in measured.list_played((_STILL, _PAPERS))}
    columns = {
        "edge ratio": _overall_cell(measured, "edgeRatio", 4),
        "of optimum": _overall_cell(measured, "optimumShare", 4),
        "std": _overall_cell(measured, "std", 3),
        "migrations per run": _overall_cell(measured, "migrations", 1),
    }
    return grid(heading, rows, columns)


def _tabulate_objectives(measured: Measured) -> Table:
    def longer(policy: str, service: str) -> str:
        return percent(measured.mean_longer(policy, service))

    policies = measured.list_played((KUBEDSM, *OBJECTIVE_VARIANTS))
    columns: dict[str, Callable[[str], str]] = {
        "edge ratio": _overall_cell(measured, "edgeRatio", 3),
        "of optimum": _overall_cell(measured, "optimumShare", 3),
        "std": _overall_cell(measured, "std", 3),
        "migrations": _overall_cell(measured, "migrations", 1),
        **{service.upper(): partial(longer, service=service) for service in SERVICES},
    }
    return grid("objective", {each: each for each in policies if len(policies) > 1}, columns)


def _tabulate_costs(measured: Measured) -> Table:
    policies = dict.fromkeys((*MAIN_POLICIES, *MIGRATION_VARIANTS, *OBJECTIVE_VARIANTS))
    rows = {
        policy: [row for name in measured.scenarios if (row := measured.row(name, policy))]
        for policy in measured.list_played(policies)
    }

    def average(digits: int, *keys: str) -> Callable[[list[Row]], str]:
        return lambda played: number(mean(lookup(row, keys) for row in played), digits)

    return grid(
        "policy",
        rows,
        {
            "migrations per run": average(1, "migrations"),
            "of young pods": average(1, "youngMigrations"),
            "rolled back": average(1, "takenBack"),
            "lost pod-seconds": average(2, "lostPodSeconds"),
            "pending s": average(3, "pendingSeconds", "mean"),
            "p95": average(3, "pendingSeconds", "p95"),
            "on one node": average(3, "onOneNode", "services"),
            "avoidable": average(3, "onOneNode", "avoidable"),
        },
    )


def _tabulate_stabilizations(measured: Measured) -> Table:
    named = {"5 s": MIDDLE_SCENARIO} | {
        f"{seconds} s": name_stabilized(seconds) for seconds in OTHER_STABILIZATIONS
    }
    shown = {head: name for head, name in named.items() if measured.has(name)}
    if len(shown) <= 1:
        return [], []
    lines = [
        [
            policy,
            *(
                number(measured.value(name, policy, key), 3)
                for key in ("edgeRatio", "optimumShare")
                for name in shown.values()
            ),
        ]
        for policy in measured.list_played(MAIN_POLICIES)
    ]
    return ["policy", *shown, *(f"of optimum, {head}" for head in shown)], lines


def _tabulate_scenario_times(measured: Measured) -> Table:
    """Return the table of KubeDSM's response latencies by scenario and service, in percent above
    kube-scheduler's.
    """
    lines = []
    for scenario in measured.scenarios:
        ours = [measured.longer(scenario, KUBEDSM, service) for service in SERVICES]
        if any(value is not None for value in ours):
            lines.append([scenario, *map(percent, ours)])
    if lines:
        lines.append(["mean", *(percent(measured.mean_longer(KUBEDSM, s)) for s in SERVICES)])
    return ["scenario", *_NAMES], lines


_TABLES: Mapping[str, Callable[[Measured], Table]] = {
    "At a glance": _tabulate_overview,
    "Edge ratio": partial(_tabulate_scenarios, key="edgeRatio"),
    "Share of the optimum": partial(_tabulate_scenarios, key="optimumShare"),
    "Standard deviation of the edge share over services": partial(_tabulate_scenarios, key="std"),
    "Variants": _tabulate_variants,
    "Migration price": partial(_tabulate_tried, key="migration.price", heading="migration price"),
    "Evenness of edge shares": partial(
        _tabulate_tried, key="objective.evenness", heading="evenness"
    ),
    "Objectives": _tabulate_objectives,
    "Response times by scenario": _tabulate_scenario_times,
    "Cost": _tabulate_costs,
    "Slower autoscalers": _tabulate_stabilizations,
}


def sections(found: Report, *, published: bool = True) -> list[Section]:
    """Return all tables of the evaluation; `published` adds the figures of the paper, next to the
    runs recorded as its authors did.
    """
    measured = Measured.of(found)
    filled = fill_sections("evaluation", _TABLES, measured)
    if published:
        filled += fill_sections("figures", FIGURES, measured)
    return [attrs.evolve(each, columns=_MEANINGS) for each in filled]


#: noise of edge shares, and of latencies, which vary more; decimal places that are significant
_NOISE, _NOISE_OF_TIMES, _DIGITS = 0.005, 0.02, 3
#: name, unit, keys, and whether less is better
_FIGURES: Sequence[tuple[str, str, Sequence[str], bool]] = (
    ("edge ratio", "", ("edgeRatio",), False),
    ("share of the optimal edge ratio", "", ("optimumShare",), False),
    ("deviation of edge shares", "", ("std",), True),
    ("mean response time", "ms", ("overallLatencyMs", "mean"), True),
    ("p95 of response times", "ms", ("overallLatencyMs", "p95"), True),
    ("network part of response times", "ms", ("overallLatencyMs", "network"), True),
    ("mean wait for a node", "s", ("pendingSeconds", "mean"), True),
    ("pod-seconds lost to migrations", "", ("lostPodSeconds",), True),
    ("services that one node failure stops", "", ("onOneNode", "avoidable"), True),
)


def rankings(means: Iterable[Row]) -> list[Ranking]:
    """Rank the policies by each measure, such as edge ratio, averaged over the scenarios."""
    rows: dict[str, list[Row]] = {}
    for row in means:
        rows.setdefault(row["policy"], []).append(row)
    found = []
    for what, unit, keys, less in _FIGURES:
        values = {}
        for policy, played in rows.items():
            known = [value for row in played if (value := lookup(row, keys)) is not None]
            if len(known) == len(played):
                values[policy] = round(statistics.fmean(known), _DIGITS)
        found.append(Ranking(what, unit, less, values, _NOISE_OF_TIMES if unit else _NOISE))
    return found

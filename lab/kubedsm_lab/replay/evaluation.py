"""Tables of docs/explanation/evaluation.md: a report next to the published measurements."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs

from kubedsm.config.settings import Configuration
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import SERVICES, paper_cluster
from kubedsm_lab.replay import report
from kubedsm_lab.replay.presets import (
    EQUAL_COEFFICIENTS,
    EQUAL_RATE_POLICIES,
    EQUAL_RATE_SCENARIOS,
    MAIN_POLICIES,
    OTHER_STABILIZATIONS,
    PAPER_SCENARIOS,
    REFERENCE,
    VARIANT_SCENARIO,
    equal_rates,
    list_tried,
    name_stabilized,
)
from kubedsm_lab.replay.published import PUBLISHED, KubeDsm
from kubedsm_lab.replay.rankings import Ranking
from kubedsm_lab.replay.report import Report, plain_tables, scenarios_of
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.sources import Source
from kubedsm_lab.replay.tables import (
    WORDS,
    Row,
    Section,
    Table,
    beside,
    fill_sections,
    grid,
    lookup,
    mean,
    number,
    percent,
    render_sections,
    select_sections,
)
from kubedsm_lab.replay.variants import MIGRATION_VARIANTS, OBJECTIVE_VARIANTS, QOS_VARIANTS
from kubedsm_lab.replay.world import Setup
from loadgen.generators import PAPER_COEFFICIENTS, PAPER_REQUESTS

_STILL, _PAPERS = "no-migration", "paper-suggester"
_MEANINGS = report.MEANINGS | WORDS["evaluation-meanings"]
_NAMES = [name.upper() for name in SERVICES]


def render_text(found: Report, other: str, *, whole: bool) -> str:
    """Return a replay's report as Markdown, with the evaluation's tables next to the paper's
    measurements.

    `other` describes differences from the paper's set-up, if any. `whole` requests all tables of
    the evaluation, without a chapter per scenario.
    """
    note = _explain_unpublished(found, other) if other else ""
    if whole:
        parts = [note, tables(found, published=not other)]
    else:
        bracketed = select_sections(
            sections(found["means"]), () if other else list(WORDS["brackets"])
        )
        parts = [plain_tables(found), note, render_sections(bracketed)]
    return "\n".join(filter(None, parts))


def _explain_unpublished(found: Report, other: str) -> str:
    if not set(scenarios_of(found["means"])) & set(PAPER_SCENARIOS):
        return ""
    return (
        "What the KubeDSM paper published is not shown with these figures, as it is about other"
        f" {other}.\n"
    )


def other_than_the_papers(setup: Setup, chosen: Sequence[Source] = ()) -> str:
    """Return the parts of the set-up (nodes, services, settings, scenarios) that differ from the
    paper's, as text; empty if none differ.
    """
    differs = {
        "nodes": setup.cluster != paper_cluster(),
        "services": setup.services != PAPER_SERVICES,
        "settings": setup.configuration != Configuration(),
        "scenarios": any(not one.drawn and one.name in PAPER_SCENARIOS for one in chosen),
    }
    return " and ".join(name for name, yes in differs.items() if yes)


def tables(found: Report, *, published: bool = True) -> str:
    """Return all tables of the evaluation as Markdown, limited to policies and scenarios with
    results.
    """
    return render_sections(sections(found["means"], published=published))


@attrs.frozen
class Measured:
    """Mean results of a report by scenario and policy, next to the KubeDSM paper's published
    measurements.
    """

    rows: Mapping[tuple[str, str], Row]
    published: KubeDsm = PUBLISHED.kubedsm

    @classmethod
    def of(cls, means: Iterable[Row], published: KubeDsm) -> "Measured":
        return cls({(row["scenario"], row["policy"]): row for row in means}, published)

    @property
    def published_times(self) -> dict[tuple[str, str], Mapping[str, float]]:
        """Return the paper's percentages by service, for each scenario and compared policy."""
        return {(name, other): times for name, other, times in self.published.response_times}

    @property
    def scenarios(self) -> list[str]:
        """Return the scenarios of the KubeDSM paper for which this report has results."""
        return [name for name in PAPER_SCENARIOS if self.has(name)]

    def has(self, scenario: str) -> bool:
        return any(name == scenario for name, _ in self.rows)

    def list_played(self, policies: Iterable[str]) -> list[str]:
        """Return those of the given policies that have results for the paper's scenarios."""
        played = {policy for scenario, policy in self.rows if scenario in PAPER_SCENARIOS}
        return [name for name in policies if name in played]

    def row(self, scenario: str, policy: str) -> Row | None:
        return self.rows.get((scenario, policy))

    def value(self, scenario: str, policy: str, key: str) -> float | None:
        row = self.row(scenario, policy)
        return None if row is None else row[key]

    def values(self, policy: str, key: str) -> list[float | None]:
        """Return the policy's results for one measure, such as edgeRatio, one per scenario."""
        return [self.value(scenario, policy, key) for scenario in self.scenarios]

    def overall(self, policy: str, key: str) -> float | None:
        """Return the policy's mean of one measure over all scenarios; None if a scenario has no
        value.
        """
        values = self.values(policy, key)
        return None if None in values else mean(values)

    def longer(
        self,
        scenario: str,
        policy: str,
        reference: str,
        service: str | None = None,
        part: str = "mean",
    ) -> float | None:
        """Return by how many percent the policy's response latency exceeds the reference policy's.

        `service=None` covers all requests; `part` is `mean`, or `network` for the network's share.
        """
        ours, theirs = (
            self._response_time(scenario, name, service, part) for name in (policy, reference)
        )
        return None if ours is None or theirs is None else 100 * (ours / theirs - 1)

    def mean_longer(
        self, policy: str, service: str | None = None, part: str = "mean"
    ) -> float | None:
        """Return by how many percent the policy's response latency exceeds kube-scheduler's, as the
        mean over all scenarios.
        """
        return mean(self.longer(name, policy, REFERENCE, service, part) for name in self.scenarios)

    def _response_time(
        self, scenario: str, policy: str, service: str | None, part: str
    ) -> float | None:
        row = self.row(scenario, policy)
        if row is None:
            return None
        times = row["overallLatencyMs"] if service is None else row["latencyMs"].get(service)
        return None if times is None else times[part]


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
    of_paper = measured.published
    figures = {"edgeRatio": of_paper.edge_ratios, "std": of_paper.deviations}.get(key, {})
    lines = []
    for policy in measured.list_played(MAIN_POLICIES):
        ours = measured.values(policy, key)
        published = dict(zip(PAPER_SCENARIOS, figures.get(policy, ()), strict=False))
        theirs = [published.get(scenario) for scenario in measured.scenarios]
        overall = mean(theirs)
        if key == "std" and overall is None and len(theirs) == len(PAPER_SCENARIOS):
            overall = measured.published.mean_deviations.get(policy)
        pairs = zip([*ours, mean(ours)], [*theirs, overall], strict=True)
        form = ".3f" if key == "std" else ".2f"
        lines.append([policy, *(beside(number(one, 3), other, form) for one, other in pairs)])
    return ["policy", *measured.scenarios, "mean"], lines


def _overall_cell(measured: Measured, key: str, digits: int) -> Callable[[str], str]:
    """Return a function that formats a table cell: a policy's mean of one measure over all
    scenarios.
    """
    return lambda policy: number(measured.overall(policy, key), digits)


def _tabulate_variants(measured: Measured) -> Table:
    def at_variant_scenario(policy: str) -> str:
        ratio = measured.value(VARIANT_SCENARIO, policy, "edgeRatio")
        return beside(number(ratio, 3), measured.published.variants.get(policy))

    policies = measured.list_played((REFERENCE, KUBEDSM, *MIGRATION_VARIANTS))
    columns = {
        VARIANT_SCENARIO: at_variant_scenario,
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


def _tabulate_qos(measured: Measured) -> Table:
    rows = {
        policy: row
        for policy in measured.list_played((REFERENCE, KUBEDSM, *QOS_VARIANTS))
        if (row := measured.row(VARIANT_SCENARIO, policy)) is not None
    }
    lines = [[policy, *_share_cells(row)] for policy, row in rows.items()]
    return ["QoS factors", *_NAMES, "edge ratio"], lines


def _share_cells(row: Row | None) -> list[str]:
    """Return the cells of a table row: the edge share of each service, then their mean (edge
    ratio).
    """
    if row is None:
        return [number(None, 3)] * (len(SERVICES) + 1)
    shares = [number(row["shares"].get(service), 3) for service in SERVICES]
    return [*shares, number(row["edgeRatio"], 3)]


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
    named = {"5 s": VARIANT_SCENARIO} | {
        f"{seconds} s": name_stabilized(VARIANT_SCENARIO, seconds)
        for seconds in OTHER_STABILIZATIONS
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


def _tabulate_pod_worth(measured: Measured) -> Table:
    """Return the table of each service's pods, and of the edge share that one core or one GB at the
    edge provides to the service.

    Empty unless scenarios with equal rates were played.
    """
    times, _ = PAPER_SCENARIOS[VARIANT_SCENARIO]
    lines = []
    for service in SERVICES:
        cores, gigabytes = PAPER_REQUESTS[service]["cpu"], PAPER_REQUESTS[service]["memory"] / 1e9
        cells = [number(cores, 0), number(gigabytes, 2)]
        for coefficients in (PAPER_COEFFICIENTS, EQUAL_COEFFICIENTS):
            pods = times * coefficients[service]
            cells += [number(pods, 1), *(number(1 / pods / r, 2) for r in (cores, gigabytes))]
        lines.append([service.upper(), *cells])
    columns = ["pods", "share a core", "share a GB"]
    equal = [f"{column}, equal rates" for column in columns]
    played = _tabulate_equal_rates(measured)[1]
    return ["service", "cores", "GB", *columns, *equal], lines if played else []


def _tabulate_equal_rates(measured: Measured) -> Table:
    """Return the table of edge shares with the scenario generator's request rates, and with equal
    rates for all services.
    """
    names = [*_NAMES, "edge ratio"]
    lines = [
        [
            f"{scenario}, {policy}",
            *_share_cells(measured.row(scenario, policy)),
            *_share_cells(measured.row(equal_rates(scenario), policy)),
        ]
        for scenario in EQUAL_RATE_SCENARIOS
        for policy in measured.list_played(EQUAL_RATE_POLICIES)
        if measured.row(equal_rates(scenario), policy)
    ]
    return ["scenario, policy", *names, *(f"{n}, equal rates" for n in names)], lines


def _tabulate_scenario_times(measured: Measured) -> Table:
    """Return the table of KubeDSM's response latencies by scenario and service, in percent above
    kube-scheduler's.
    """
    published = measured.published_times
    against = [(name, REFERENCE) for name in PAPER_SCENARIOS]
    lines = _compare_times(measured, against)
    if lines and published:
        lines.append(
            ["mean of those published", *(_average_published(measured, s) for s in SERVICES)]
        )
    equal = [(equal_rates(name), REFERENCE) for name in EQUAL_RATE_SCENARIOS]
    others = [key for key in published if key not in against]
    return ["scenario", *_NAMES], lines + _compare_times(measured, [*equal, *others])


def _compare_times(measured: Measured, pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    lines = []
    for scenario, reference in pairs:
        published = measured.published_times.get((scenario, reference), {})
        ours = {s: measured.longer(scenario, KUBEDSM, reference, s) for s in SERVICES}
        if any(value is not None for value in ours.values()):
            shown = scenario if reference == REFERENCE else f"{scenario}, against {reference}"
            cells = (beside(percent(ours[s]), published.get(s), "+.4g") for s in SERVICES)
            lines.append([shown, *cells])
    return lines


def _average_published(measured: Measured, service: str) -> str:
    """Return a table cell with KubeDSM's mean latency increase for a service, measured and
    published, over scenarios with both.
    """
    ours, theirs = [], []
    for (scenario, reference), published in measured.published_times.items():
        value = measured.longer(scenario, KUBEDSM, REFERENCE, service)
        if reference == REFERENCE and service in published and value is not None:
            ours.append(value)
            theirs.append(published[service])
    return beside(percent(mean(ours)), mean(theirs), "+.4g")


def _tabulate_variant_times(measured: Measured) -> Table:
    """Return the table of response latencies of KubeDSM's variants, in percent above KubeDSM's and
    kube-scheduler's.
    """
    lines = []
    for policy in (*MIGRATION_VARIANTS, *QOS_VARIANTS, *OBJECTIVE_VARIANTS):
        published = measured.published.variant_response_times.get(policy, {})
        original, reference = (
            {s: measured.longer(VARIANT_SCENARIO, policy, other, s) for s in SERVICES}
            for other in (KUBEDSM, REFERENCE)
        )
        if any(value is not None for value in (*original.values(), *reference.values())):
            cells = (
                percent(value) + (f" ({published[s]})" if s in published else "")
                for s, value in original.items()
            )
            lines.append([policy, *cells, *map(percent, reference.values())])
    return ["variant", *_NAMES, *(f"{name}, to {REFERENCE}" for name in _NAMES)], lines


def _tabulate_policy_times(measured: Measured) -> Table:
    """Return the table of response latencies by policy and service, in ms and in percent above
    kube-scheduler's.
    """
    lines = []
    for policy in measured.list_played(MAIN_POLICIES):
        rows = [row for name in measured.scenarios if (row := measured.row(name, policy))]
        for service in SERVICES:
            times = [row["latencyMs"][service] for row in rows if service in row["latencyMs"]]
            if times:
                parts = ("mean", "p95", "network")
                cells = (number(mean(each[part] for each in times), 1) for part in parts)
                longer = (measured.mean_longer(policy, service, p) for p in ("mean", "network"))
                lines.append([f"{policy}, {service.upper()}", *cells, *map(percent, longer)])
    headings = ["policy, service", "mean ms", "p95 ms", "network ms"]
    return [*headings, f"mean to {REFERENCE}", f"network to {REFERENCE}"], lines


_TABLES: Mapping[str, Callable[[Measured], Table]] = {
    "At a glance": _tabulate_overview,
    "Edge ratio": partial(_tabulate_scenarios, key="edgeRatio"),
    "Share of the optimum": partial(_tabulate_scenarios, key="optimumShare"),
    "Standard deviation of the edge share over services": partial(_tabulate_scenarios, key="std"),
    "Share of edge capacity per pod": _tabulate_pod_worth,
    "Equal rates": _tabulate_equal_rates,
    "Variants": _tabulate_variants,
    "Migration price": partial(_tabulate_tried, key="migration.price", heading="migration price"),
    "Evenness of edge shares": partial(
        _tabulate_tried, key="objective.evenness", heading="evenness"
    ),
    "Objectives": _tabulate_objectives,
    "QoS factors": _tabulate_qos,
    "Response times by scenario": _tabulate_scenario_times,
    "Response times of variants": _tabulate_variant_times,
    "Response times by policy": _tabulate_policy_times,
    "Cost": _tabulate_costs,
    "Slower autoscalers": _tabulate_stabilizations,
}


def sections(means: Iterable[Row], *, published: bool = True) -> list[Section]:
    """Return all tables of the evaluation; `published` adds the paper's measurements
    in brackets.
    """
    measured = Measured.of(means, PUBLISHED.kubedsm if published else KubeDsm())
    brackets = WORDS["brackets"] if published else {}
    return [
        attrs.evolve(
            each,
            about=f"{each.about} {brackets.get(each.title, '')}".strip(),
            columns=_MEANINGS,
        )
        for each in fill_sections("evaluation", _TABLES, measured)
    ]


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

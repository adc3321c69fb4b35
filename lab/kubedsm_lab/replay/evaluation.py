"""Tables of docs/evaluation.md: a report next to the figures that the KubeDSM paper published."""

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
    PRICES,
    REFERENCE,
    VARIANT_SCENARIO,
    equal_rates,
    priced,
    stabilized,
)
from kubedsm_lab.replay.published import NOTHING, THE_PAPERS, Published
from kubedsm_lab.replay.report import Report, plain_tables, scenarios_of
from kubedsm_lab.replay.services import PAPER_SERVICES
from kubedsm_lab.replay.sources import Source
from kubedsm_lab.replay.standings import Standing
from kubedsm_lab.replay.tables import (
    Row,
    Section,
    Table,
    beside,
    grid,
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
#: titles of the tables that have published figures
_BRACKETED = (
    "Edge ratio",
    "Variants",
    "Response times by scenario",
    "Response times of variants",
)
_MEANINGS: Mapping[str, str] = {
    **report.MEANINGS,
    "mean of all": "the edge ratio over all scenarios that were played",
    "migrations": report.MEANINGS["moves"],
    "moves a run": report.MEANINGS["moves"],
    "migrations a run": report.MEANINGS["moves"],
    "taken back": "of these, moves that were given up",
    "lost pod-seconds": report.MEANINGS["lost pod-s"],
    "pending s": report.MEANINGS["wait s"],
    "p95": "of that wait: 95 in 100 are as short or shorter",
    "price of a move": "what a move must gain to be made, as seconds of a pod at the edge",
    "cores": "that a pod asks for",
    "GB": "of memory that a pod asks for",
    "pods": "as many as are asked for, on average",
    "share a core": "what part of the service's edge share a core of the edge holds",
    "share a GB": "what part of it a GB of memory holds",
    "mean to kube-scheduler": "how much longer the mean is than there; below 0 is faster",
    "network to kube-scheduler": "how much longer the network's part is",
    "QoS factors": "the variant, by what edge shares it promises",
    "5 s": "the edge ratio with autoscalers that wait so long before they scale down",
}
_NAMES = [name.upper() for name in SERVICES]


def render_text(found: Report, other: str, *, whole: bool) -> str:
    """Return the Markdown of a replay. other: differences from the paper's set-up, if any.

    whole: all tables of the evaluation, without a chapter per scenario.
    """
    note = _unpublished(found, other) if other else ""
    if whole:
        parts = [note, tables(found, published=not other)]
    else:
        bracketed = select_sections(sections(found["means"]), () if other else _BRACKETED)
        parts = [plain_tables(found), note, render_sections(bracketed)]
    return "\n".join(filter(None, parts))


def _unpublished(found: Report, other: str) -> str:
    if not set(scenarios_of(found["means"])) & set(PAPER_SCENARIOS):
        return ""
    return (
        "What the KubeDSM paper published does not stand beside these figures, as it is about other"
        f" {other}.\n"
    )


def other_than_the_papers(setup: Setup, chosen: Sequence[Source] = ()) -> str:
    """Return the differences from the paper's set-up in words; nothing if there is none."""
    differs = {
        "nodes": setup.cluster != paper_cluster(),
        "services": setup.services != PAPER_SERVICES,
        "settings": setup.configuration != Configuration(),
        "scenarios": any(not one.drawn and one.name in PAPER_SCENARIOS for one in chosen),
    }
    return " and ".join(name for name, yes in differs.items() if yes)


def tables(found: Report, *, published: bool = True) -> str:
    """Return Markdown without the tables of policies and scenarios that were not played."""
    return render_sections(sections(found["means"], published=published))


@attrs.frozen
class Measured:
    """Means of a report by scenario and policy, and the published figures next to them."""

    rows: Mapping[tuple[str, str], Row]
    published: Published = THE_PAPERS

    @classmethod
    def of(cls, means: Iterable[Row], published: Published) -> "Measured":
        return cls({(row["scenario"], row["policy"]): row for row in means}, published)

    @property
    def scenarios(self) -> list[str]:
        """Return the paper's scenarios that were played."""
        return [name for name in PAPER_SCENARIOS if self.has(name)]

    def has(self, scenario: str) -> bool:
        return any(name == scenario for name, _ in self.rows)

    def played(self, policies: Iterable[str]) -> list[str]:
        """Return those of the policies that were played in the paper's scenarios."""
        played = {policy for scenario, policy in self.rows if scenario in PAPER_SCENARIOS}
        return [name for name in policies if name in played]

    def row(self, scenario: str, policy: str) -> Row | None:
        return self.rows.get((scenario, policy))

    def value(self, scenario: str, policy: str, key: str) -> float | None:
        row = self.row(scenario, policy)
        return None if row is None else row[key]

    def values(self, policy: str, key: str) -> list[float | None]:
        """Return the policy's values in all scenarios."""
        return [self.value(scenario, policy, key) for scenario in self.scenarios]

    def overall(self, policy: str, key: str) -> float | None:
        """Return the mean over the scenarios; None unless the policy was played in all of them."""
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
        """Return by how many percent the policy's response time exceeds the reference's.

        service: None for all requests. part: `mean`, or `network` for the network's part.
        """
        ours, theirs = (self._time(scenario, name, service, part) for name in (policy, reference))
        return None if ours is None or theirs is None else 100 * (ours / theirs - 1)

    def mean_longer(
        self, policy: str, service: str | None = None, part: str = "mean"
    ) -> float | None:
        """Return the mean of `longer` than kube-scheduler's over the scenarios."""
        return mean(self.longer(name, policy, REFERENCE, service, part) for name in self.scenarios)

    def _time(self, scenario: str, policy: str, service: str | None, part: str) -> float | None:
        row = self.row(scenario, policy)
        if row is None:
            return None
        times = row["overallLatencyMs"] if service is None else row["latencyMs"].get(service)
        return None if times is None else times[part]


def _at_a_glance(measured: Measured) -> Table:
    scenarios = [name for name in measured.scenarios if measured.row(name, KUBEDSM)]
    if not scenarios:
        return [], []
    lost = sum(row["lostPodSeconds"] * row["seeds"] for row in measured.rows.values())
    lines = [
        ["runs in all", str(sum(row["seeds"] for row in measured.rows.values()))],
        ["pod-seconds lost to moves, in all runs", number(lost, 2)],
    ]
    if measured.played(name for name in MAIN_POLICIES if name != KUBEDSM):
        ahead = [_lead(measured, policy) for policy in MAIN_POLICIES]
        firsts = sum(all(each.get(name, 0.0) >= 0 for each in ahead) for name in scenarios)
        lines.append(["scenarios with the highest edge ratio", f"{firsts} of {len(scenarios)}"])
    for policy in measured.played((KUBEDSM, _PAPERS, REFERENCE)):
        optimum = mean(measured.value(name, policy, "optimumShare") for name in scenarios)
        moves = mean(measured.value(name, policy, "migrations") for name in scenarios)
        lines.append([f"of the optimum, {policy}", number(optimum, 3)])
        lines.append([f"moves a run, {policy}", number(moves, 1)])
    for policy in measured.played((_PAPERS, _STILL)):
        lead = _lead(measured, policy)
        least = min(lead, key=lambda name: lead[name], default=None)
        if least is not None:
            above = f"edge ratio above {policy}"
            lines.append([above, number(mean(lead.values()), 3)])
            lines.append([f"{above}, least ({least})", number(lead[least], 3)])
    for part, shown in (("mean", "response time"), ("network", "the network's part")):
        longer = measured.mean_longer(KUBEDSM, part=part)
        lines.append([f"{shown} of all requests, to {REFERENCE}", percent(longer)])
    return ["what", "figure"], lines


def _lead(measured: Measured, policy: str) -> dict[str, float]:
    """Return by scenario how much KubeDSM's edge ratio is above the policy's."""
    found = {}
    for scenario in measured.scenarios:
        ours, theirs = (measured.value(scenario, p, "edgeRatio") for p in (KUBEDSM, policy))
        if ours is not None and theirs is not None:
            found[scenario] = ours - theirs
    return found


def _by_scenario(measured: Measured, key: str) -> Table:
    lines = []
    for policy in measured.played(MAIN_POLICIES):
        ours = measured.values(policy, key)
        ratios = measured.published.edge_ratios.get(policy, ()) if key == "edgeRatio" else ()
        published = dict(zip(PAPER_SCENARIOS, ratios, strict=False))
        theirs = [published.get(scenario) for scenario in measured.scenarios]
        pairs = zip([*ours, mean(ours)], [*theirs, mean(theirs)], strict=True)
        lines.append([policy, *(beside(number(one, 3), other) for one, other in pairs)])
    return ["policy", *measured.scenarios, "mean"], lines


def _overall(measured: Measured, key: str, digits: int) -> Callable[[str], str]:
    """Return the cell of a policy: its mean over all scenarios."""
    return lambda policy: number(measured.overall(policy, key), digits)


def _variants(measured: Measured) -> Table:
    def at_variant_scenario(policy: str) -> str:
        ratio = measured.value(VARIANT_SCENARIO, policy, "edgeRatio")
        return beside(number(ratio, 3), measured.published.variants.get(policy))

    policies = measured.played((REFERENCE, KUBEDSM, *MIGRATION_VARIANTS))
    columns = {
        VARIANT_SCENARIO: at_variant_scenario,
        "mean of all": _overall(measured, "edgeRatio", 3),
        "of optimum": _overall(measured, "optimumShare", 3),
        "migrations": _overall(measured, "migrations", 1),
    }
    return grid("variant", {policy: policy for policy in policies}, columns)


def _prices(measured: Measured) -> Table:
    """Return no lines unless other prices than the default were played."""
    policies = {f"**{p}**" if priced(p) == KUBEDSM else p: priced(p) for p in PRICES}
    played = {name: policy for name, policy in policies.items() if measured.played([policy])}
    if len(played) <= 1:
        return [], []
    rows = played | {name: name for name in measured.played((_STILL, _PAPERS))}
    columns = {
        "edge ratio": _overall(measured, "edgeRatio", 4),
        "of optimum": _overall(measured, "optimumShare", 4),
        "moves a run": _overall(measured, "migrations", 1),
    }
    return grid("price of a move", rows, columns)


def _objectives(measured: Measured) -> Table:
    def longer(policy: str, service: str) -> str:
        return percent(measured.mean_longer(policy, service))

    policies = measured.played((KUBEDSM, *OBJECTIVE_VARIANTS))
    columns: dict[str, Callable[[str], str]] = {
        "edge ratio": _overall(measured, "edgeRatio", 3),
        "of optimum": _overall(measured, "optimumShare", 3),
        "std": _overall(measured, "std", 3),
        "migrations": _overall(measured, "migrations", 1),
        **{service.upper(): partial(longer, service=service) for service in SERVICES},
    }
    return grid("objective", {each: each for each in policies if len(policies) > 1}, columns)


def _qos(measured: Measured) -> Table:
    rows = {
        policy: row
        for policy in measured.played((REFERENCE, KUBEDSM, *QOS_VARIANTS))
        if (row := measured.row(VARIANT_SCENARIO, policy)) is not None
    }
    lines = [[policy, *_shares(row)] for policy, row in rows.items()]
    return ["QoS factors", *_NAMES, "edge ratio"], lines


def _shares(row: Row | None) -> list[str]:
    """Return the edge share of each service, and the edge ratio."""
    if row is None:
        return [number(None, 3)] * (len(SERVICES) + 1)
    shares = [number(row["shares"].get(service), 3) for service in SERVICES]
    return [*shares, number(row["edgeRatio"], 3)]


def _costs(measured: Measured) -> Table:
    policies = dict.fromkeys((*MAIN_POLICIES, *MIGRATION_VARIANTS, *OBJECTIVE_VARIANTS))
    rows = {
        policy: [row for name in measured.scenarios if (row := measured.row(name, policy))]
        for policy in measured.played(policies)
    }

    def average(digits: int, *keys: str) -> Callable[[list[Row]], str]:
        return lambda played: number(mean(_lookup(row, keys) for row in played), digits)

    return grid(
        "policy",
        rows,
        {
            "migrations a run": average(1, "migrations"),
            "taken back": average(1, "takenBack"),
            "lost pod-seconds": average(2, "lostPodSeconds"),
            "pending s": average(3, "pendingSeconds", "mean"),
            "p95": average(3, "pendingSeconds", "p95"),
            "on one node": average(3, "onOneNode", "services"),
            "avoidable": average(3, "onOneNode", "avoidable"),
        },
    )


def _lookup(row: Row, keys: Sequence[str]) -> float | None:
    value = row
    for key in keys:
        value = value[key]
    return None if value is None else float(value)  # type: ignore[arg-type]


def _stabilizations(measured: Measured) -> Table:
    named = {"5 s": VARIANT_SCENARIO} | {
        f"{seconds} s": stabilized(VARIANT_SCENARIO, seconds) for seconds in OTHER_STABILIZATIONS
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
        for policy in measured.played(MAIN_POLICIES)
    ]
    return ["policy", *shown, *(f"of optimum, {head}" for head in shown)], lines


def _worth_of_a_pod(measured: Measured) -> Table:
    """Return pods per service, and the edge share that a core and a GB hold.

    No lines unless equal rates were played.
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
    played = _equal_rates(measured)[1]
    return ["service", "cores", "GB", *columns, *equal], lines if played else []


def _equal_rates(measured: Measured) -> Table:
    """Return edge shares under the generator's rates and under equal ones."""
    names = [*_NAMES, "edge ratio"]
    lines = [
        [
            f"{scenario}, {policy}",
            *_shares(measured.row(scenario, policy)),
            *_shares(measured.row(equal_rates(scenario), policy)),
        ]
        for scenario in EQUAL_RATE_SCENARIOS
        for policy in measured.played(EQUAL_RATE_POLICIES)
        if measured.row(equal_rates(scenario), policy)
    ]
    return ["scenario, policy", *names, *(f"{n}, equal rates" for n in names)], lines


def _times_by_scenario(measured: Measured) -> Table:
    """Return KubeDSM's response times by service, in percent of the reference's."""
    published = measured.published.response_times
    against = [(name, REFERENCE) for name in PAPER_SCENARIOS]
    lines = _compare_times(measured, against)
    if lines and published:
        lines.append(["mean of those published", *(_published_mean(measured, s) for s in SERVICES)])
    equal = [(equal_rates(name), REFERENCE) for name in EQUAL_RATE_SCENARIOS]
    others = [key for key in published if key not in against]
    return ["scenario", *_NAMES], lines + _compare_times(measured, [*equal, *others])


def _compare_times(measured: Measured, pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    lines = []
    for scenario, reference in pairs:
        published = measured.published.response_times.get((scenario, reference), {})
        ours = {s: measured.longer(scenario, KUBEDSM, reference, s) for s in SERVICES}
        if any(value is not None for value in ours.values()):
            shown = scenario if reference == REFERENCE else f"{scenario}, against {reference}"
            cells = (beside(percent(ours[s]), published.get(s), "+.4g") for s in SERVICES)
            lines.append([shown, *cells])
    return lines


def _published_mean(measured: Measured, service: str) -> str:
    """Average over the scenarios with both a measured and a published figure."""
    ours, theirs = [], []
    for (scenario, reference), published in measured.published.response_times.items():
        value = measured.longer(scenario, KUBEDSM, REFERENCE, service)
        if reference == REFERENCE and service in published and value is not None:
            ours.append(value)
            theirs.append(published[service])
    return beside(percent(mean(ours)), mean(theirs), "+.4g")


def _times_of_variants(measured: Measured) -> Table:
    """Compare with KubeDSM's defaults and with kube-scheduler, at VARIANT_SCENARIO."""
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


def _times_by_policy(measured: Measured) -> Table:
    """Return means over the scenarios, and percentages of kube-scheduler's."""
    lines = []
    for policy in measured.played(MAIN_POLICIES):
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


def sections(means: Iterable[Row], *, published: bool = True) -> list[Section]:
    """Return all tables. published: whether the paper's figures stand in brackets."""
    measured = Measured.of(means, THE_PAPERS if published else NOTHING)

    def section(title: str, about: str, table: Table, brackets: str = "") -> Section:
        return Section(title, f"{about} {brackets if published else ''}".strip(), table, _MEANINGS)

    return [
        section(
            "At a glance",
            "Over the ten scenarios, where nothing else is said.",
            _at_a_glance(measured),
        ),
        section(
            "Edge ratio",
            "By scenario, and the mean over them.",
            _by_scenario(measured, "edgeRatio"),
            "In brackets: as published, read off the figures of the second version.",
        ),
        section(
            "Share of the optimum",
            "The share of the greatest mean share that any packing of the same pods would have.",
            _by_scenario(measured, "optimumShare"),
        ),
        section(
            "Standard deviation of the edge share over services",
            "The less, the more alike are services served.",
            _by_scenario(measured, "std"),
        ),
        section(
            "What a pod is worth",
            "At mean 1.5, as the paper's generator draws rates and with the same mean for every"
            " service (as many pods in all).",
            _worth_of_a_pod(measured),
        ),
        section("Equal rates", "What shares the services then have.", _equal_rates(measured)),
        section(
            "Variants",
            "Edge ratios. MidMigration in"
            " two readings: `mid-migration` is the second version's, two moves from the cloud and"
            " one inside the edge a suggestion; `half-frequency` the first's, twice the period.",
            _variants(measured),
            f"In brackets: as published, at {VARIANT_SCENARIO}.",
        ),
        section(
            "What moves are worth",
            "`migration.price`, in seconds of a pod at the edge; means over the ten scenarios, of a"
            " run of 18 minutes. In bold: the default. Picture: `moves.svg`.",
            _prices(measured),
        ),
        section(
            "Objectives",
            "Means over the scenarios; by service, the response time against kube-scheduler's.",
            _objectives(measured),
        ),
        section("QoS factors", f"Edge shares by service at {VARIANT_SCENARIO}.", _qos(measured)),
        section(
            "Response times by scenario",
            "KubeDSM's mean response time by service, in percent longer than kube-scheduler's"
            " unless another policy is named.",
            _times_by_scenario(measured),
            "In brackets: as published in the first version.",
        ),
        section(
            "Response times of variants",
            f"At {VARIANT_SCENARIO}, in percent longer than KubeDSM's as it comes, and than"
            f" {REFERENCE}'s.",
            _times_of_variants(measured),
            "In brackets: what the first version says of its variants against its original; half"
            " the frequency is what it calls MidMigration.",
        ),
        section(
            "Response times by policy",
            "Means over the ten scenarios; the percentages are of the whole time, and of what of it"
            " the network takes.",
            _times_by_policy(measured),
        ),
        section(
            "What it cost",
            "Means over the ten scenarios, of a run of 18 minutes. On one node: the time mean of"
            " the number of services of two or more Ready pods that the death of one node would"
            " take whole; avoidable: of these, while another node of the tier had room for one of"
            " their pods.",
            _costs(measured),
        ),
        section(
            "Slower autoscalers",
            f"{VARIANT_SCENARIO}, with autoscalers that wait longer before they scale down.",
            _stabilizations(measured),
        ),
    ]


#: of edge shares, and of times, which depend more on chance; decimal places that differ
_NOISE, _NOISE_OF_TIMES, _DIGITS = 0.005, 0.02, 3
#: name, unit, keys, and whether less is better
_FIGURES: Sequence[tuple[str, str, Sequence[str], bool]] = (
    ("edge ratio", "", ("edgeRatio",), False),
    ("share of the best edge ratio there is", "", ("optimumShare",), False),
    ("deviation of edge shares", "", ("std",), True),
    ("mean response time", "ms", ("overallLatencyMs", "mean"), True),
    ("p95 of response times", "ms", ("overallLatencyMs", "p95"), True),
    ("of response times, the network", "ms", ("overallLatencyMs", "network"), True),
    ("mean wait for a node", "s", ("pendingSeconds", "mean"), True),
    ("pod-seconds lost to moves", "", ("lostPodSeconds",), True),
    ("services that one node's death takes whole", "", ("onOneNode", "avoidable"), True),
)


def standings(means: Iterable[Row]) -> list[Standing]:
    """Rank the policies by means over the scenarios."""
    rows: dict[str, list[Row]] = {}
    for row in means:
        rows.setdefault(row["policy"], []).append(row)
    found = []
    for what, unit, keys, less in _FIGURES:
        values = {}
        for policy, played in rows.items():
            known = [value for row in played if (value := _lookup(row, keys)) is not None]
            if len(known) == len(played):
                values[policy] = round(statistics.fmean(known), _DIGITS)
        found.append(Standing(what, unit, less, values, _NOISE_OF_TIMES if unit else _NOISE))
    return found

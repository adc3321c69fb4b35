"""The tables of docs/evaluation.md: a report beside what the KubeDSM paper published."""

from collections.abc import Callable, Sequence

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import SERVICES
from kubedsm_lab.replay import demand_tables, response_tables
from kubedsm_lab.replay.glance import at_a_glance
from kubedsm_lab.replay.glossary import OF_THE_PAPER
from kubedsm_lab.replay.measured import Measured, Row, mean, percent
from kubedsm_lab.replay.presets import (
    MAIN_POLICIES,
    OTHER_STABILIZATIONS,
    PAPER_SCENARIOS,
    PRICES,
    REFERENCE,
    VARIANT_SCENARIO,
    priced,
    stabilized,
)
from kubedsm_lab.replay.published import NOTHING, THE_PAPERS, Published
from kubedsm_lab.replay.report import AVOIDABLE, ON_ONE_NODE, Report, number
from kubedsm_lab.replay.sections import Section, Table, made, shown
from kubedsm_lab.replay.variants import MIGRATION_VARIANTS, OBJECTIVE_VARIANTS, QOS_VARIANTS

_STILL, _PAPERS = "no-migration", "paper-suggester"


def tables(found: Report, *, published: bool = True) -> str:
    """Markdown. Tables of which nothing was run are left out.

    published: whether all is as the paper had it, so that its figures may stand beside ours.
    """
    return shown(made(SECTIONS if published else _ALONE, found["means"]))


def beside_published(found: Report) -> str:
    """The tables that have figures of the paper in them."""
    return shown(made([each.beside for each in _ALL if each.brackets], found["means"]))


def _edge_ratios(measured: Measured) -> Table:
    scenarios = measured.scenarios
    lines = []
    for policy in measured.played(MAIN_POLICIES):
        ours = [measured.value(scenario, policy, "edgeRatio") for scenario in scenarios]
        published = dict(
            zip(PAPER_SCENARIOS, measured.published.edge_ratios.get(policy, ()), strict=False)
        )
        theirs = [published.get(scenario) for scenario in scenarios]
        pairs = zip([*ours, mean(ours)], [*theirs, mean(theirs)], strict=True)
        lines.append([policy, *(_beside(one, other) for one, other in pairs)])
    return ["policy", *scenarios, "mean"], lines


def _beside(ours: float | None, theirs: float | None) -> str:
    return number(ours, 3) + ("" if theirs is None else f" ({theirs:.2f})")


def _by_scenario(key: str) -> Callable[[Measured], Table]:
    def made(measured: Measured) -> Table:
        scenarios = measured.scenarios
        lines = []
        for policy in measured.played(MAIN_POLICIES):
            values = [measured.value(scenario, policy, key) for scenario in scenarios]
            lines.append([policy, *(number(value, 3) for value in [*values, mean(values)])])
        return ["policy", *scenarios, "mean"], lines

    return made


def _everywhere(measured: Measured, policy: str, key: str) -> float | None:
    """The mean over the scenarios; none if the policy was not in all of them."""
    values = [measured.value(scenario, policy, key) for scenario in measured.scenarios]
    return None if None in values else mean(values)


def _variants(measured: Measured) -> Table:
    lines = [
        [
            policy,
            _beside(
                measured.value(VARIANT_SCENARIO, policy, "edgeRatio"),
                measured.published.variants.get(policy),
            ),
            *(number(_everywhere(measured, policy, k), 3) for k in ("edgeRatio", "optimumShare")),
            number(_everywhere(measured, policy, "migrations"), 1),
        ]
        for policy in measured.played((REFERENCE, KUBEDSM, *MIGRATION_VARIANTS))
    ]
    headings = ["variant", VARIANT_SCENARIO, "mean of all", "of optimum", "migrations"]
    return headings, lines


def _prices(measured: Measured) -> Table:
    """Nothing unless other prices than the default were tried."""
    named = {priced(price): price for price in PRICES}
    tried = measured.played(named)
    if len(tried) <= 1:
        return [], []
    shown = {**{name: named[name] for name in tried}, _STILL: _STILL, _PAPERS: _PAPERS}
    lines = [
        [
            f"**{price}**" if name == KUBEDSM else price,
            *(number(_everywhere(measured, name, k), 4) for k in ("edgeRatio", "optimumShare")),
            number(_everywhere(measured, name, "migrations"), 1),
        ]
        for name, price in shown.items()
        if measured.played([name])
    ]
    return ["price of a move", "edge ratio", "of optimum", "moves a run"], lines


def _objectives(measured: Measured) -> Table:
    policies = measured.played((KUBEDSM, *OBJECTIVE_VARIANTS))
    lines = []
    for policy in policies if len(policies) > 1 else []:
        ratios = ("edgeRatio", "optimumShare", "std")
        longer = (
            mean([measured.longer(name, policy, REFERENCE, s) for name in measured.scenarios])
            for s in SERVICES
        )
        lines.append(
            [
                policy,
                *(number(_everywhere(measured, policy, key), 3) for key in ratios),
                number(_everywhere(measured, policy, "migrations"), 1),
                *map(percent, longer),
            ]
        )
    names = [name.upper() for name in SERVICES]
    return ["objective", "edge ratio", "of optimum", "std", "migrations", *names], lines


def _qos(measured: Measured) -> Table:
    lines = []
    for policy in measured.played((REFERENCE, KUBEDSM, *QOS_VARIANTS)):
        row = measured.row(VARIANT_SCENARIO, policy)
        if row is not None:
            shares = (number(row["shares"].get(service), 3) for service in SERVICES)
            lines.append([policy, *shares, number(row["edgeRatio"], 3)])
    names = [name.upper() for name in SERVICES]
    return ["QoS factors", *names, "edge ratio"], lines


def _costs(measured: Measured) -> Table:
    lines = []
    policies = (*MAIN_POLICIES, *MIGRATION_VARIANTS, *OBJECTIVE_VARIANTS)
    for policy in measured.played(dict.fromkeys(policies)):
        rows = [row for s in measured.scenarios if (row := measured.row(s, policy)) is not None]
        if rows:
            lines.append(
                [
                    policy,
                    number(mean([row["migrations"] for row in rows]), 1),
                    number(mean([row["takenBack"] for row in rows]), 1),
                    number(mean([row["lostPodSeconds"] for row in rows]), 2),
                    number(mean([row["pendingSeconds"]["mean"] for row in rows]), 3),
                    number(mean([row["pendingSeconds"]["p95"] for row in rows]), 3),
                    number(mean([row["onOneNode"]["services"] for row in rows]), 3),
                    number(mean([row["onOneNode"]["avoidable"] for row in rows]), 3),
                ]
            )
    headings = ["policy", "migrations a run", "taken back", "lost pod-seconds"]
    return [*headings, "pending s", "p95", ON_ONE_NODE, AVOIDABLE], lines


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
            *(number(measured.value(name, policy, "edgeRatio"), 3) for name in shown.values()),
            *(number(measured.value(name, policy, "optimumShare"), 3) for name in shown.values()),
        ]
        for policy in measured.played(MAIN_POLICIES)
    ]
    optimum = [f"of optimum, {head}" for head in shown]
    return ["policy", *shown, *optimum], lines


@attrs.frozen
class _Section:
    title: str
    about: str
    table: Callable[[Measured], Table]
    #: what of it is published
    brackets: str = ""

    @property
    def beside(self) -> Section[Row]:
        about = f"{self.about} {self.brackets}".strip()
        return self._with(about, THE_PAPERS)

    @property
    def alone(self) -> Section[Row]:
        return self._with(self.about, NOTHING)

    def _with(self, about: str, published: Published) -> Section[Row]:
        def table(means: Sequence[Row]) -> Table:
            return self.table(Measured.of(means, published))

        return Section(self.title, about, table, OF_THE_PAPER)


_ALL: Sequence[_Section] = (
    _Section("At a glance", "Over the ten scenarios, where nothing else is said.", at_a_glance),
    _Section(
        "Edge ratio",
        "By scenario, and the mean over them.",
        _edge_ratios,
        "In brackets: as published, read off the figures of the second version.",
    ),
    _Section(
        "Share of the optimum",
        "The share of the greatest mean share that any packing of the same pods would have.",
        _by_scenario("optimumShare"),
    ),
    _Section(
        "Standard deviation of the edge share over services",
        "The less, the more alike are services served.",
        _by_scenario("std"),
    ),
    _Section(
        "What a pod is worth",
        "At mean 1.5, as the paper's generator draws rates and with the same mean for every service"
        " (as many pods in all).",
        demand_tables.worth_of_a_pod,
    ),
    _Section("Equal rates", "What shares the services then have.", demand_tables.shares),
    _Section(
        "Variants",
        "Edge ratios. MidMigration in"
        " two readings: `mid-migration` is the second version's, two moves from the cloud and one"
        " inside the edge a suggestion; `half-frequency` the first's, twice the period.",
        _variants,
        f"In brackets: as published, at {VARIANT_SCENARIO}.",
    ),
    _Section(
        "What moves are worth",
        "`migration.price`, in seconds of a pod at the edge; means over the ten scenarios, of a run"
        " of 18 minutes. In bold: the default. Picture: `moves.svg`.",
        _prices,
    ),
    _Section(
        "Objectives",
        "Means over the scenarios; by service, the response time against kube-scheduler's.",
        _objectives,
    ),
    _Section("QoS factors", f"Edge shares by service at {VARIANT_SCENARIO}.", _qos),
    _Section(
        "Response times by scenario",
        "KubeDSM's mean response time by service, in percent longer than kube-scheduler's unless"
        " another policy is named.",
        response_tables.by_scenario,
        "In brackets: as published in the first version.",
    ),
    _Section(
        "Response times of variants",
        f"At {VARIANT_SCENARIO}, in percent longer than KubeDSM's as it comes, and than"
        f" {REFERENCE}'s.",
        response_tables.of_variants,
        "In brackets: what the first version says of its variants against its original; half the"
        " frequency is what it calls MidMigration.",
    ),
    _Section(
        "Response times by policy",
        "Means over the ten scenarios; the percentages are of the whole time, and of what of it the"
        " network takes.",
        response_tables.by_policy,
    ),
    _Section(
        "What it cost",
        "Means over the ten scenarios, of a run of 18 minutes. On one node: the time mean of the"
        " number of services of two or more Ready pods that the death of one node would take whole;"
        " avoidable: of these, while another node of the tier had room for one of their pods.",
        _costs,
    ),
    _Section(
        "Slower autoscalers",
        f"{VARIANT_SCENARIO}, with autoscalers that wait longer before they scale down.",
        _stabilizations,
    ),
)
SECTIONS: Sequence[Section[Row]] = [each.beside for each in _ALL]
_ALONE: Sequence[Section[Row]] = [each.alone for each in _ALL]

"""Figures of both versions of the KubeDSM paper, next to runs recorded as by its authors.

Recorded means: on the authors' nodes, from one pod of each service on, until five minutes after the
load. The second version's edge ratio is the edge pods' part of all pods, and its deviation that of
the services' shares, each a mean over all runs. The first version's response times are no
measurements: each pod counts with 50 ms at the edge and 300 ms in the cloud.
Source: reports and extractors of AUT-Cloud-Lab/MineDraft.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import SERVICES
from kubedsm_lab.replay.measured import Measured
from kubedsm_lab.replay.presets import (
    MAIN_POLICIES,
    ONLY_D_SCENARIO,
    PAPER_SCENARIOS,
    REFERENCE,
    VARIANT_SCENARIO,
    as_recorded,
    closed_loop,
)
from kubedsm_lab.replay.published import PUBLISHED
from kubedsm_lab.replay.tables import (
    UNKNOWN,
    Row,
    Table,
    beside,
    bootstrap_interval,
    grid,
    lookup,
    mean,
    number,
    percent,
)
from kubedsm_lab.replay.variants import MIGRATION_VARIANTS, QOS_VARIANTS

_PUBLISHED = PUBLISHED.kubedsm
#: milliseconds of a pod at the edge and in the cloud in the first version's response times
_EDGE_MS, _CLOUD_MS = 50.0, 300.0
_NAMES = [name.upper() for name in SERVICES]
_ALL = "all scenarios"
#: edge shares in the order of SERVICES
Shares = Sequence[float]


def _list_policies(measured: Measured) -> list[str]:
    return [
        policy for policy in MAIN_POLICIES if measured.row(as_recorded(VARIANT_SCENARIO), policy)
    ]


def _published_shares(scenario: str, policy: str) -> Shares | None:
    shares = _PUBLISHED.shares.get(policy)
    return None if shares is None else shares[list(PAPER_SCENARIOS).index(scenario)]


def _mean_shares(measured: Measured, scenario: str, policy: str) -> Shares | None:
    """Return the edge share of each service, as the mean over the runs of a scenario."""
    row = measured.row(scenario, policy)
    return None if row is None else _list_shares(row)


def _list_shares(row: Row) -> Shares:
    return [row["shares"][service] for service in SERVICES]


def _tabulate_scenarios(
    measured: Measured,
    *,
    ours: Callable[[Measured, str, str], float | None],
    published: Mapping[str, Sequence[float]],
    form: str,
) -> Table:
    """Return a table with one line per policy and one column per scenario, and the means."""
    lines = []
    for policy in _list_policies(measured):
        theirs: Sequence[float | None] = published.get(policy) or [None] * len(PAPER_SCENARIOS)
        pairs = [
            (ours(measured, name, policy), other)
            for name, other in zip(PAPER_SCENARIOS, theirs, strict=True)
        ]
        means = tuple(mean(column) for column in zip(*pairs, strict=True))
        lines.append(
            [policy, *(beside(number(one, 3), other, form) for one, other in (*pairs, means))]
        )
    return ["policy", *PAPER_SCENARIOS, "mean"], lines


def _our_ratio(measured: Measured, scenario: str, policy: str) -> float | None:
    row = measured.row(as_recorded(scenario), policy)
    return None if row is None else row.get("podRatio")


def _our_deviation(measured: Measured, scenario: str, policy: str) -> float | None:
    shares = _mean_shares(measured, as_recorded(scenario), policy)
    return None if shares is None else statistics.pstdev(shares)


def _shares_cells(ours: Shares, published: Shares | None) -> list[str]:
    theirs: Sequence[float | None] = published or [None] * len(ours)
    return [beside(number(one, 2), other) for one, other in zip(ours, theirs, strict=True)]


def _tabulate_shares(measured: Measured) -> Table:
    lines = [
        [f"{policy}, {name}", *_shares_cells(ours, _published_shares(name, policy))]
        for policy in _list_policies(measured)
        for name in PAPER_SCENARIOS
        if (ours := _mean_shares(measured, as_recorded(name), policy)) is not None
    ]
    return ["policy, scenario", *_NAMES], lines


def _tabulate_migrations(measured: Measured) -> Table:
    scenario = as_recorded(VARIANT_SCENARIO)
    variants = [
        name for name in (REFERENCE, KUBEDSM, *MIGRATION_VARIANTS) if measured.row(scenario, name)
    ]

    def ratio(policy: str) -> str:
        published = _PUBLISHED.variants.get(policy)
        return beside(number(_our_ratio(measured, VARIANT_SCENARIO, policy), 3), published)

    return grid(
        "variant",
        {name: name for name in variants if len(variants) > 1},
        {
            "edge ratio": ratio,
            "migrations": lambda name: number(measured.value(scenario, name, "migrations"), 1),
        },
    )


def _tabulate_qos(measured: Measured) -> Table:
    """Return the table of edge shares by service with other QoS factors."""
    lines = [
        [
            f"{policy}, {scenario}",
            *_shares_cells(
                ours,
                _PUBLISHED.qos_shares.get(policy) if scenario == VARIANT_SCENARIO else None,
            ),
        ]
        for scenario in (VARIANT_SCENARIO, ONLY_D_SCENARIO)
        for policy in (REFERENCE, KUBEDSM, *QOS_VARIANTS)
        if (ours := _mean_shares(measured, as_recorded(scenario), policy)) is not None
    ]
    return ["QoS factors, scenario", *_NAMES], lines


def weigh(share: float) -> float:
    """Return a service's response time in milliseconds, as the first version computes it."""
    return _EDGE_MS * share + _CLOUD_MS * (1 - share)


def _weigh_against(ours: Shares | None, others: Shares | None) -> list[float | None]:
    """Return by how many percent each service's weighted response time exceeds the others'."""
    if ours is None or others is None:
        return [None] * len(SERVICES)
    return [100 * (weigh(one) / weigh(other) - 1) for one, other in zip(ours, others, strict=True)]


def _tabulate_times(measured: Measured) -> Table:
    """Return the table of the first version's response times: ours and those of the published
    shares, next to those published.
    """
    lines = []
    for scenario, other, published in _PUBLISHED.response_times:
        ours, theirs = (
            _weigh_against(shares(KUBEDSM), shares(other))
            for shares in (
                partial(_mean_shares, measured, as_recorded(scenario)),
                partial(_published_shares, scenario),
            )
        )
        if any(value is not None for value in ours):
            cells = [
                f"{percent(one)} ({_format_published(published.get(service))}; {percent(implied)})"
                for one, implied, service in zip(ours, theirs, SERVICES, strict=True)
            ]
            lines.append([f"{scenario}, against {other}", *cells])
    return ["scenario", *_NAMES], lines


def _format_published(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.4g}"


def _tabulate_variant_times(measured: Measured) -> Table:
    """Return the table of the first version's response times of KubeDSM's variants, in percent
    above KubeDSM's own.
    """
    lines = []
    for scenario in (VARIANT_SCENARIO, ONLY_D_SCENARIO):
        for policy in (*MIGRATION_VARIANTS, *QOS_VARIANTS):
            published = _PUBLISHED.variant_response_times.get(f"{policy}, {scenario}", {})
            changes = _weigh_against(
                _mean_shares(measured, as_recorded(scenario), policy),
                _mean_shares(measured, as_recorded(scenario), KUBEDSM),
            )
            if changes[0] is not None and policy not in MAIN_POLICIES:
                cells = (
                    percent(change) + (f" ({published[s]})" if s in published else "")
                    for s, change in zip(SERVICES, changes, strict=True)
                )
                lines.append([f"{policy}, {scenario}", *cells])
    return ["variant, scenario", *_NAMES], lines


def _tabulate_loops(measured: Measured) -> Table:
    """Return the table of KubeDSM's response times against kube-scheduler's in both loops, with
    intervals over the seeds.
    """
    runs = {(run["scenario"], run["policy"], run["seed"]): run for run in measured.runs}
    seeds = sorted({seed for name, _, seed in runs if name == closed_loop(VARIANT_SCENARIO)})
    if not seeds:
        return [], []

    def change(naming: Callable[[str], str], name: str, service: str, *keys: str) -> list[float]:
        """Return the percentage of each seed."""
        pairs = [
            [lookup(runs[naming(name), policy, seed], ("latencyMs", service, *keys)) or 0.0
             for policy in (KUBEDSM, REFERENCE)]
            for seed in seeds
        ]  # fmt: skip
        return [100 * (ours / other - 1) for ours, other in pairs]

    def weighted(name: str, at: int) -> list[float]:
        pairs = [
            [
                _list_shares(runs[as_recorded(name), policy, seed])[at]
                for policy in (KUBEDSM, REFERENCE)
            ]
            for seed in seeds
        ]
        return [100 * (weigh(ours) / weigh(other) - 1) for ours, other in pairs]

    columns: dict[str, Callable[[str, int, str], list[float]]] = {
        "open loop": lambda name, _, service: change(as_recorded, name, service, "mean"),
        "its network part": lambda name, _, service: change(as_recorded, name, service, "network"),
        "closed loop": lambda name, _, service: change(closed_loop, name, service, "mean"),
        "by pods": lambda name, at, _: weighted(name, at),
    }
    published = {
        name: times for name, other, times in _PUBLISHED.response_times if other == REFERENCE
    }

    def implied(name: str, at: int) -> float | None:
        shares = (_published_shares(name, policy) for policy in (KUBEDSM, REFERENCE))
        return _weigh_against(*shares)[at]

    lines = []
    for names in [list(PAPER_SCENARIOS), *([name] for name in PAPER_SCENARIOS)]:
        for at, service in enumerate(SERVICES):
            cells = [
                _format_interval(_average([column(name, at, service) for name in names]))
                for column in columns.values()
            ]
            theirs = mean(published.get(name, {}).get(service) for name in names)
            second = mean(implied(name, at) for name in names)
            shown = _ALL if len(names) > 1 else names[0]
            lines.append([f"{shown}, {service.upper()}", *cells, percent(theirs), percent(second)])
    return ["scenario, service", *columns, "first version", "second version"], lines


def _average(by_scenario: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean over scenarios for each seed."""
    return [statistics.fmean(of_seed) for of_seed in zip(*by_scenario, strict=True)]


def _format_interval(values: Sequence[float]) -> str:
    interval = bootstrap_interval(values, statistics.fmean)
    shown = percent(statistics.fmean(values))
    return shown if interval is None else f"{shown} [{interval[0]:+.1f}, {interval[1]:+.1f}]"


FIGURES: Mapping[str, Callable[[Measured], Table]] = {
    "Figures 4 and 5: edge ratio": partial(
        _tabulate_scenarios, ours=_our_ratio, published=_PUBLISHED.edge_ratios, form=".2f"
    ),
    "Figures 6 and 7: edge share by service": _tabulate_shares,
    "Figures 8 and 9: deviation over services": partial(
        _tabulate_scenarios,
        ours=_our_deviation,
        published={
            policy: [statistics.pstdev(each) for each in shares]
            for policy, shares in _PUBLISHED.shares.items()
        },
        form=".3f",
    ),
    "Figure 10: migrations": _tabulate_migrations,
    "Figure 11: QoS factors": _tabulate_qos,
    "First version, Figures 4 to 12: response times": _tabulate_times,
    "First version, Figures 13 to 15: variants": _tabulate_variant_times,
    "Response times in both loops": _tabulate_loops,
}

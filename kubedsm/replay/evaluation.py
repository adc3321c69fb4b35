"""The tables of docs/evaluation.md: a report beside what the KubeDSM paper published.

Source: arXiv 2501.07130, the edge ratios read off the figures of its second version (+-.01), the
latencies from its first.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kubedsm.core.policies.registry import KUBEDSM
from kubedsm.replay.presets import (
    MAIN_POLICIES,
    OTHER_STABILIZATIONS,
    PAPER_SCENARIOS,
    VARIANT_SCENARIO,
    stabilized,
)
from kubedsm.replay.report import Report, number
from kubedsm.replay.variants import MIGRATION_VARIANTS, QOS_VARIANTS

Row = Mapping[str, Any]
Rows = Mapping[tuple[str, str], Row]

_REFERENCE = "kube-scheduler"
#: in the order of PAPER_SCENARIOS
PUBLISHED_EDGE_RATIOS: Mapping[str, tuple[float, ...]] = {
    "kubedsm": (0.85, 0.83, 0.84, 0.77, 0.77, 0.74, 0.79, 0.77, 0.77, 0.78),
    "kube-scheduler": (0.75, 0.68, 0.69, 0.62, 0.64, 0.66, 0.59, 0.58, 0.61, 0.60),
    "smallest-edge-first": (0.74, 0.68, 0.71, 0.70, 0.67, 0.73, 0.61, 0.64, 0.66, 0.70),
    "biggest-edge-first": (0.71, 0.74, 0.71, 0.68, 0.67, 0.63, 0.64, 0.63, 0.60, 0.70),
    "random": (0.56, 0.58, 0.58, 0.51, 0.57, 0.59, 0.49, 0.51, 0.48, 0.53),
    "cloud-first": (0.21, 0.23, 0.25, 0.28, 0.32, 0.31, 0.33, 0.32, 0.29, 0.29),
}
#: at VARIANT_SCENARIO
PUBLISHED_VARIANTS: Mapping[str, float] = {
    "kube-scheduler": 0.62,
    "kubedsm": 0.77,
    "mid-migration": 0.81,
    "no-cloud-offload": 0.72,
    "no-edge-migration": 0.67,
}
#: percent of kube-scheduler's response time more, by service; two figures
PUBLISHED_LATENCIES: Mapping[str, tuple[float, float]] = {
    "a": (-25.0, -20.4),
    "b": (-40.0, -27.5),
    "c": (-12.5, -22.0),
    "d": (-36.8, -35.2),
}


def tables(found: Report) -> str:
    """Markdown. Tables of which nothing was run are left out."""
    rows = {(row["scenario"], row["policy"]): row for row in found["means"]}
    sections = {
        "Edge ratio": _edge_ratios(rows),
        "Share of the optimum": _by_scenario(rows, "optimumShare"),
        "Standard deviation of the edge share over services": _by_scenario(rows, "std"),
        "Variants": _variants(rows),
        "QoS factors": _qos(rows),
        "Response times": _response_times(rows),
        "What it cost": _costs(rows),
        "Slower autoscalers": _stabilizations(rows),
    }
    parts = [f"## {title}\n\n{body}\n" for title, body in sections.items() if body]
    return "\n".join(parts)


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return ""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines))


def _present(rows: Rows, names: Sequence[str]) -> list[str]:
    return [name for name in names if any(policy == name for _, policy in rows)]


def _scenarios(rows: Rows) -> list[str]:
    return [name for name in PAPER_SCENARIOS if any(scenario == name for scenario, _ in rows)]


def _value(rows: Rows, scenario: str, policy: str, key: str) -> float | None:
    row = rows.get((scenario, policy))
    return None if row is None else row[key]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _edge_ratios(rows: Rows) -> str:
    """Ours, and in brackets the published ones."""
    scenarios = _scenarios(rows)
    lines = []
    for policy in _present(rows, MAIN_POLICIES):
        ours = [_value(rows, scenario, policy, "edgeRatio") for scenario in scenarios]
        published = dict(zip(PAPER_SCENARIOS, PUBLISHED_EDGE_RATIOS.get(policy, ()), strict=False))
        theirs = [published.get(scenario) for scenario in scenarios]
        pairs = zip([*ours, _mean(ours)], [*theirs, _mean(theirs)], strict=True)
        lines.append([policy, *(_beside(one, other) for one, other in pairs)])
    return _table(["policy", *scenarios, "mean"], lines)


def _beside(ours: float | None, theirs: float | None) -> str:
    return number(ours, 3) + ("" if theirs is None else f" ({theirs:.2f})")


def _by_scenario(rows: Rows, key: str) -> str:
    scenarios = _scenarios(rows)
    lines = []
    for policy in _present(rows, MAIN_POLICIES):
        values = [_value(rows, scenario, policy, key) for scenario in scenarios]
        lines.append([policy, *(number(value, 3) for value in [*values, _mean(values)])])
    return _table(["policy", *scenarios, "mean"], lines)


def _variants(rows: Rows) -> str:
    scenarios = _scenarios(rows)
    lines = []
    for policy in _present(rows, (_REFERENCE, KUBEDSM, *MIGRATION_VARIANTS)):
        everywhere = [_value(rows, scenario, policy, "edgeRatio") for scenario in scenarios]
        optimum = [_value(rows, scenario, policy, "optimumShare") for scenario in scenarios]
        migrations = [_value(rows, scenario, policy, "migrations") for scenario in scenarios]
        here = _value(rows, VARIANT_SCENARIO, policy, "edgeRatio")
        complete = None not in everywhere
        lines.append(
            [
                policy,
                _beside(here, PUBLISHED_VARIANTS.get(policy)),
                *(number(_mean(v) if complete else None, 3) for v in (everywhere, optimum)),
                number(_mean(migrations) if complete else None, 1),
            ]
        )
    headings = ["variant", VARIANT_SCENARIO, "mean of all", "of optimum", "migrations"]
    return _table(headings, lines)


def _qos(rows: Rows) -> str:
    """Edge shares by service at VARIANT_SCENARIO."""
    lines = []
    services: list[str] = []
    for policy in _present(rows, (_REFERENCE, KUBEDSM, *QOS_VARIANTS)):
        row = rows.get((VARIANT_SCENARIO, policy))
        if row is None:
            continue
        services = list(row["shares"])
        shares = [number(share, 3) for share in row["shares"].values()]
        lines.append([policy, *shares, number(row["edgeRatio"], 3)])
    return _table(["QoS factors", *services, "edge ratio"], lines)


def _response_times(rows: Rows) -> str:
    """Means over the scenarios, and against kube-scheduler: in all, and the network's part."""
    scenarios = [s for s in _scenarios(rows) if (s, _REFERENCE) in rows]
    lines = []
    for policy in _present(rows, MAIN_POLICIES):
        of_policy = [rows[s, policy] for s in scenarios if (s, policy) in rows]
        reference = [rows[s, _REFERENCE] for s in scenarios if (s, policy) in rows]
        for service, published in PUBLISHED_LATENCIES.items():
            if not of_policy or any(service not in row["latencyMs"] for row in of_policy):
                continue
            mean, p95, network = (
                statistics.fmean(row["latencyMs"][service][kind] for row in of_policy)
                for kind in ("mean", "p95", "network")
            )
            changes = [
                100
                * (value / statistics.fmean(r["latencyMs"][service][kind] for r in reference) - 1)
                for kind, value in (("mean", mean), ("network", network))
            ]
            lines.append(
                [
                    f"{policy}, {service.upper()}",
                    *(number(value, 1) for value in (mean, p95, network)),
                    *(f"{change:+.1f} %" for change in changes),
                    ", ".join(f"{value:+.1f} %" for value in published)
                    if policy == KUBEDSM
                    else "",
                ]
            )
    headings = ["policy, service", "mean ms", "p95 ms", "network ms"]
    against = ["mean against kube-scheduler", "network against kube-scheduler", "published"]
    return _table([*headings, *against], lines)


def _costs(rows: Rows) -> str:
    scenarios = _scenarios(rows)
    lines = []
    for policy in _present(rows, list(dict.fromkeys([*MAIN_POLICIES, *MIGRATION_VARIANTS]))):
        of_policy = [rows[s, policy] for s in scenarios if (s, policy) in rows]
        if of_policy:
            lines.append(
                [
                    policy,
                    number(_mean([row["migrations"] for row in of_policy]), 1),
                    number(_mean([row["takenBack"] for row in of_policy]), 1),
                    number(_mean([row["lostPodSeconds"] for row in of_policy]), 2),
                    number(_mean([row["pendingSeconds"]["mean"] for row in of_policy]), 3),
                    number(_mean([row["pendingSeconds"]["p95"] for row in of_policy]), 3),
                ]
            )
    headings = ["policy", "migrations a run", "taken back", "lost pod-seconds"]
    return _table([*headings, "pending s", "p95"], lines)


def _stabilizations(rows: Rows) -> str:
    named = {"5 s": VARIANT_SCENARIO} | {
        f"{seconds} s": stabilized(VARIANT_SCENARIO, seconds) for seconds in OTHER_STABILIZATIONS
    }
    shown = {head: name for head, name in named.items() if any(s == name for s, _ in rows)}
    if len(shown) <= 1:
        return ""
    lines = [
        [
            policy,
            *(number(_value(rows, name, policy, "edgeRatio"), 3) for name in shown.values()),
            *(number(_value(rows, name, policy, "optimumShare"), 3) for name in shown.values()),
        ]
        for policy in _present(rows, MAIN_POLICIES)
    ]
    optimum = [f"of optimum, {head}" for head in shown]
    return _table(["policy", *shown, *optimum], lines)

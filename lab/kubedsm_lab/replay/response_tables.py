"""Response times against another policy's, beside what the KubeDSM paper published."""

from collections.abc import Sequence

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.paper import SERVICES
from kubedsm_lab.replay.measured import Measured, mean, percent
from kubedsm_lab.replay.presets import (
    EQUAL_RATE_SCENARIOS,
    MAIN_POLICIES,
    PAPER_SCENARIOS,
    REFERENCE,
    VARIANT_SCENARIO,
    equal_rates,
)
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Table
from kubedsm_lab.replay.variants import MIGRATION_VARIANTS, OBJECTIVE_VARIANTS, QOS_VARIANTS


def by_scenario(measured: Measured) -> Table:
    """KubeDSM's by scenario and service; published figures in brackets."""
    against = [(name, REFERENCE) for name in PAPER_SCENARIOS]
    lines = _compared(measured, against)
    if lines and measured.published.response_times:
        lines.append(["mean of those published", *(_published_mean(measured, s) for s in SERVICES)])
    equal = [(equal_rates(name), REFERENCE) for name in EQUAL_RATE_SCENARIOS]
    others = [key for key in measured.published.response_times if key not in against]
    lines += _compared(measured, [*equal, *others])
    return ["scenario", *(name.upper() for name in SERVICES)], lines


def _compared(measured: Measured, pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    lines = []
    for scenario, reference in pairs:
        published = measured.published.response_times.get((scenario, reference), {})
        ours = {s: measured.longer(scenario, KUBEDSM, reference, s) for s in SERVICES}
        if any(value is not None for value in ours.values()):
            shown = scenario if reference == REFERENCE else f"{scenario}, against {reference}"
            cells = (_beside(value, published.get(service)) for service, value in ours.items())
            lines.append([shown, *cells])
    return lines


def _published_mean(measured: Measured, service: str) -> str:
    """Ours and theirs over the scenarios where both are known."""
    ours, theirs = [], []
    for (scenario, reference), published in measured.published.response_times.items():
        value = measured.longer(scenario, KUBEDSM, REFERENCE, service)
        if reference == REFERENCE and service in published and value is not None:
            ours.append(value)
            theirs.append(published[service])
    return _beside(mean(ours), mean(theirs))


def _beside(ours: float | None, theirs: float | None) -> str:
    return percent(ours) + ("" if theirs is None else f" ({theirs:+.4g})")


def of_variants(measured: Measured) -> Table:
    """At VARIANT_SCENARIO, against KubeDSM as it comes, and against kube-scheduler."""
    lines = []
    variants = (*MIGRATION_VARIANTS, *QOS_VARIANTS, *OBJECTIVE_VARIANTS)
    for policy in variants:
        published = measured.published.variant_response_times.get(policy, {})
        original, reference = (
            {s: measured.longer(VARIANT_SCENARIO, policy, other, s) for s in SERVICES}
            for other in (KUBEDSM, REFERENCE)
        )
        if any(value is not None for value in (*original.values(), *reference.values())):
            beside = (
                percent(value) + (f" ({published[s]})" if s in published else "")
                for s, value in original.items()
            )
            lines.append([policy, *beside, *map(percent, reference.values())])
    names = [name.upper() for name in SERVICES]
    return ["variant", *names, *(f"{s}, to {REFERENCE}" for s in names)], lines


def by_policy(measured: Measured) -> Table:
    """Means over the scenarios, and against kube-scheduler: in all, and the network's part."""
    lines = []
    for policy in measured.played(MAIN_POLICIES):
        rows = [row for name in measured.scenarios if (row := measured.row(name, policy))]
        for service in SERVICES:
            times = [row["latencyMs"][service] for row in rows if service in row["latencyMs"]]
            if times:
                parts = ("mean", "p95", "network")
                cells = (number(mean([of[part] for of in times]), 1) for part in parts)
                longer = (
                    mean(
                        [
                            measured.longer(name, policy, REFERENCE, service, part)
                            for name in measured.scenarios
                        ]
                    )
                    for part in ("mean", "network")
                )
                lines.append([f"{policy}, {service.upper()}", *cells, *map(percent, longer)])
    headings = ["policy, service", "mean ms", "p95 ms", "network ms"]
    return [*headings, f"mean to {REFERENCE}", f"network to {REFERENCE}"], lines

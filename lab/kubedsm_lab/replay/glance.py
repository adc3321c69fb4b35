"""The figures that say most, in one table."""

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.measured import Measured, mean, percent
from kubedsm_lab.replay.presets import MAIN_POLICIES, REFERENCE
from kubedsm_lab.replay.report import number
from kubedsm_lab.replay.sections import Table

_PAPERS, _STILL = "paper-suggester", "no-migration"


def at_a_glance(measured: Measured) -> Table:
    """Nothing unless KubeDSM was played in the paper's scenarios."""
    scenarios = [name for name in measured.scenarios if measured.row(name, KUBEDSM)]
    if not scenarios:
        return [], []
    lost = sum(row["lostPodSeconds"] * row["seeds"] for row in measured.rows.values())
    lines = [
        ["runs in all", str(sum(row["seeds"] for row in measured.rows.values()))],
        ["pod-seconds lost to moves, in all runs", number(lost, 2)],
    ]
    if measured.played(name for name in MAIN_POLICIES if name != KUBEDSM):
        first = f"{_firsts(measured)} of {len(scenarios)}"
        lines.append(["scenarios with the highest edge ratio", first])
    for policy in measured.played((KUBEDSM, _PAPERS, REFERENCE)):
        optimum = mean([measured.value(name, policy, "optimumShare") for name in scenarios])
        moves = mean([measured.value(name, policy, "migrations") for name in scenarios])
        lines.append([f"of the optimum, {policy}", number(optimum, 3)])
        lines.append([f"moves a run, {policy}", number(moves, 1)])
    for policy in measured.played((_PAPERS, _STILL)):
        ahead = _ahead(measured, policy)
        least = min(ahead, key=lambda name: ahead[name], default=None)
        if least is not None:
            above = f"edge ratio above {policy}"
            lines.append([above, number(mean([*ahead.values()]), 3)])
            lines.append([f"{above}, least ({least})", number(ahead[least], 3)])
    for part, shown in (("mean", "response time"), ("network", "the network's part")):
        longer = [measured.longer(name, KUBEDSM, REFERENCE, part=part) for name in scenarios]
        lines.append([f"{shown} of all requests, to {REFERENCE}", percent(mean(longer))])
    return ["what", "figure"], lines


def _firsts(measured: Measured) -> int:
    """In how many scenarios none of the others in every table is above KubeDSM."""
    rivals = [_ahead(measured, policy) for policy in MAIN_POLICIES]
    return sum(
        all(ahead.get(scenario, 0.0) >= 0 for ahead in rivals)
        for scenario in measured.scenarios
        if measured.row(scenario, KUBEDSM)
    )


def _ahead(measured: Measured, policy: str) -> dict[str, float]:
    """By scenario, how much higher KubeDSM's edge ratio is."""
    found = {}
    for scenario in measured.scenarios:
        ours, theirs = (measured.value(scenario, p, "edgeRatio") for p in (KUBEDSM, policy))
        if ours is not None and theirs is not None:
            found[scenario] = ours - theirs
    return found

"""Which defaults measure best: one setting changed at a time, on the paper's clusters and others.

KubeDSM as it comes, and with each setting of `FACTORS` in turn, plays the paper's ten scenarios
20 random clusters, and loads that oscillate.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.oscillations import OSCILLATIONS, oscillation
from kubedsm_lab.replay.presets import PAPER_SCENARIOS, PRICES
from kubedsm_lab.replay.random_clusters import random_cluster
from kubedsm_lab.replay.report import Report, number
from kubedsm_lab.replay.sources import recipe, runs
from kubedsm_lab.replay.world import Run, Setup

RANDOM_CLUSTERS = 20
#: the values tried, the defaults among them
FACTORS: Mapping[str, Sequence[str]] = {
    "fragmentation": ("unusable", "product"),
    "defaultSpread": ("true", "false"),
    "objective.beta": ("0", "0.1", "0.5"),
    "objective.gamma": ("0", "0.1", "0.3", "10"),
    "suggester.period": ("2s", "3s", "5s", "10s", "20s"),
    "suggester.maxMoves": ("2", "3", "4", "6", "10"),
    "suggester.maxCloudToEdge": ("2", "3", "5", "10"),
    "suggester.maxEdgeReorder": ("0", "1", "3", "6"),
    "suggester.defragment": ("false", "true"),
    "migration.price": PRICES,
    "migration.cooldown": ("0s", "5s", "10s", "30s"),
    "migration.maxConcurrent": ("1", "3", "6"),
    "migration.maxPerNode": ("1", "2", "3", "6"),
    "migration.maxPerWorkload": ("1", "3", "6"),
}
_WHERE = ("paper", "random", "oscillating")
_COLUMNS = {"edgeRatio": "edge ratio", "migrations": "migrations"}


def tuning(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Every setting that is not the default, and the defaults, everywhere."""
    names = [
        f"{key}={value}"
        for key, values in FACTORS.items()
        for value in values
        if not _is_default(key, value)
    ]
    policies = [KUBEDSM, *names]
    paper = [recipe(name, *PAPER_SCENARIOS[name]) for name in PAPER_SCENARIOS]
    found = runs(paper, policies, seeds, setup)
    for index in range(1, RANDOM_CLUSTERS + 1):
        source, other = random_cluster(index, setup)
        found += runs([source], policies, seeds, other)
    for name in OSCILLATIONS:
        source, other = oscillation(name, setup)
        found += runs([source], policies, seeds, other)
    return found


def _is_default(key: str, value: str) -> bool:
    return with_settings(Configuration(), {key: value}) == Configuration()


def answer(found: Report) -> str:
    """By the last column."""
    ratios: dict[str, list[list[float]]] = {}
    for row in found["means"]:
        kind = _WHERE.index(_kind(row["scenario"]))
        of_policy = ratios.setdefault(row["policy"], [[] for _ in _WHERE])
        of_policy[kind].append(row["edgeRatio"])
    both = {
        name: statistics.fmean(map(statistics.fmean, kinds[:2]))
        for name, kinds in ratios.items()
        if all(kinds[:2])
    }
    ours = both.pop(KUBEDSM, None)
    if ours is None or not both:
        return "Give KubeDSM and settings beside it, to tell which is best."
    best = max(both, key=both.__getitem__)
    said = f"KubeDSM as it comes kept {100 * ours:.1f} % at the edge"
    return f"{said}; the best of {len(both)} other settings, {best}, {100 * both[best]:.1f} %."


def table(found: Report) -> str:
    """Markdown: of each setting the means over the paper's scenarios and each kind of the others.

    The last column is the mean of those of the paper's and of the random clusters.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in found["means"]:
        rows.setdefault(row["policy"], []).append(row)
    lines = []
    for key, values in FACTORS.items():
        for value in values:
            default = _is_default(key, value)
            of_setting = rows.get(KUBEDSM if default else f"{key}={value}")
            if of_setting:
                shown = f"**{value}**" if default else value
                lines.append(f"| {key} | {shown} | {' | '.join(_measured(of_setting))} |")
    columns = [f"{what}, {where}" for where in _WHERE for what in _COLUMNS.values()]
    headings = " | ".join(["setting", "value", *columns, "edge ratio, both"])
    rule = " | ".join(["---", "---", *("---:" for _ in columns), "---:"])
    return "\n".join([f"| {headings} |", f"| {rule} |", *lines]) + "\n"


def _measured(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells, ratios = [], []
    for where in _WHERE:
        chosen = [row for row in rows if _kind(row["scenario"]) == where]
        means = {key: statistics.fmean(row[key] for row in chosen) for key in _COLUMNS}
        ratios.append(means["edgeRatio"])
        cells += [number(means["edgeRatio"], 4), number(means["migrations"], 1)]
    return [*cells, number(statistics.fmean(ratios[:2]), 4)]


def _kind(scenario: str) -> str:
    if scenario in OSCILLATIONS:
        return "oscillating"
    return "paper" if scenario in PAPER_SCENARIOS else "random"

"""Choice of defaults: one setting changed at a time, on the paper's clusters and on others.

KubeDSM with its defaults, and with each other value of `FACTORS`, plays the paper's ten scenarios,
20 random clusters, and loads that oscillate.
"""

import statistics
from collections.abc import Mapping, Sequence

import attrs

from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.presets import PAPER_SCENARIOS, PRICES
from kubedsm_lab.replay.random_clusters import random_cluster
from kubedsm_lab.replay.report import Report
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sources import Source, recipe, runs
from kubedsm_lab.replay.tables import Row, markdown, number
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import served

RANDOM_CLUSTERS = 20
#: values of each setting, the defaults among them
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
#: oscillating loads of two twin services on an edge that holds half of them: pods of one service
#: while the other has the other number
OSCILLATIONS = {"osc": (20, 26), "osc2": (22, 24), "const": (24, 24)}
_CYCLES, _CYCLE_SECONDS = 12, 90.0
_NODES = (("e1", "edge", "3", "8Gi"), ("e2", "edge", "3", "8Gi"), ("c1", "cloud", "100", "200Gi"))


def tuning(seeds: Sequence[int], setup: Setup) -> list[Run]:
    """Return the runs of the defaults and of every other value."""
    others = [
        f"{key}={value}"
        for key, values in FACTORS.items()
        for value in values
        if not _is_default(key, value)
    ]
    policies = [KUBEDSM, *others]
    paper = [recipe(name, *PAPER_SCENARIOS[name]) for name in PAPER_SCENARIOS]
    found = runs(paper, policies, seeds, setup)
    clusters = [
        *(random_cluster(number, setup) for number in range(1, RANDOM_CLUSTERS + 1)),
        *(oscillation(name, setup) for name in OSCILLATIONS),
    ]
    for source, other in clusters:
        found += runs([source], policies, seeds, other)
    return found


def oscillation(name: str, setup: Setup) -> tuple[Source, Setup]:
    """Return the oscillating scenario, the same for all seeds, and its cluster and services."""
    few, many = OSCILLATIONS[name]
    turns = {"x": (few, many), "y": (many, few)}
    replicas = {service: turn * (_CYCLES // 2) for service, turn in turns.items()}
    scenario = served(replicas, _CYCLE_SECONDS, "http://{service}/")
    services = tuple(
        ServiceSpec(service, "250m", "256Mi", replicas=(1, 60)) for service in replicas
    )
    cluster = ClusterSpec(tuple(node(*each) for each in _NODES), setup.cluster.timing)
    contended = attrs.evolve(setup, cluster=cluster, services=services)
    return Source(name, name, lambda _seed: scenario), contended


def _is_default(key: str, value: str) -> bool:
    return with_settings(Configuration(), {key: value}) == Configuration()


def _by_policy(found: Report) -> dict[str, dict[str, list[Row]]]:
    """Return the means of each policy by kind of scenario."""
    rows: dict[str, dict[str, list[Row]]] = {}
    for row in found["means"]:
        kinds = rows.setdefault(row["policy"], {where: [] for where in _WHERE})
        kinds[_kind(row["scenario"])].append(row)
    return rows


def _kind(scenario: str) -> str:
    if scenario in OSCILLATIONS:
        return "oscillating"
    return "paper" if scenario in PAPER_SCENARIOS else "random"


def _mean(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def _overall(kinds: Mapping[str, Sequence[Row]]) -> float:
    """Return the mean of the edge ratios of the paper's and of the random clusters."""
    return statistics.fmean(_mean(kinds[where], "edgeRatio") for where in _WHERE[:2])


def answer(found: Report) -> str:
    """Compare the defaults with the best other value."""
    ratios = {
        name: _overall(kinds)
        for name, kinds in _by_policy(found).items()
        if all(kinds[where] for where in _WHERE[:2])
    }
    ours = ratios.pop(KUBEDSM, None)
    if ours is None or not ratios:
        return "Give KubeDSM and settings beside it, to tell which is best."
    best = max(ratios, key=ratios.__getitem__)
    said = f"KubeDSM as it comes kept {100 * ours:.1f} % at the edge"
    return f"{said}; the best of {len(ratios)} other settings, {best}, {100 * ratios[best]:.1f} %."


def table(found: Report) -> str:
    """Return Markdown: means of each setting by kind of scenario, and over paper and random."""
    rows = _by_policy(found)
    lines = []
    for key, values in FACTORS.items():
        for value in values:
            default = _is_default(key, value)
            kinds = rows.get(KUBEDSM if default else f"{key}={value}")
            if kinds:
                cells = [key, f"**{value}**" if default else value]
                for where in _WHERE:
                    cells.append(number(_mean(kinds[where], "edgeRatio"), 4))
                    cells.append(number(_mean(kinds[where], "migrations"), 1))
                lines.append([*cells, number(_overall(kinds), 4)])
    columns = [f"{what}, {where}" for where in _WHERE for what in ("edge ratio", "migrations")]
    return markdown(["setting", "value", *columns, "edge ratio, both"], lines) + "\n"

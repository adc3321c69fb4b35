"""Evaluation of defaults: one changed setting at a time, on the paper's clusters and on others.

KubeDSM with its defaults, and with each alternative of `FACTORS`, plays the paper's ten scenarios,
20 random clusters, and oscillating loads.
"""

import math
import random
import statistics
from collections.abc import Mapping, Sequence

import attrs

from kubedsm.config.settings import Configuration, with_settings
from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.emulator.api.resources import Object
from kubedsm_lab.emulator.emulated_cluster import ClusterSpec
from kubedsm_lab.emulator.paper import node
from kubedsm_lab.replay.presets import PAPER_SCENARIOS, PRICES
from kubedsm_lab.replay.report import Report
from kubedsm_lab.replay.services import ServiceSpec
from kubedsm_lab.replay.sources import Source, recipe, runs
from kubedsm_lab.replay.tables import Row, markdown, number
from kubedsm_lab.replay.world import Run, Setup
from loadgen.generators import MOST_REPLICAS, coefficients, normal, serve_replicas
from loadgen.scenario import Scenario

_NODE_CORES = (2, 3, 4, 5, 6, 8)
_MEMORY_PER_CORE = (700, 1000, 1300, 1600)  # Mi
_SERVICE_CPU = (250, 500, 1000, 1500, 2000)  # millicores
_SERVICE_MEMORY = (256, 512, 950, 1400, 1900)  # Mi
#: replicas in a service's part of the edge: fewer are trivial, more reach the autoscaler's maximum
_PART = (1.0, 6.0)
#: every fourth cluster has services of many pods, a fifth of the size
_MANY_SMALL, _SMALLER = 4, 5
#: capacity of the cloud as a multiple of all replicas' requests
_CLOUD_PLENTY = 1.25
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


@attrs.frozen
class _Service:
    cpu: int
    memory: int

    @property
    def requests(self) -> dict[str, float]:
        return {"cpu": self.cpu, "memory": self.memory}


def random_cluster(number: int, setup: Setup) -> tuple[Source, Setup]:
    """Return a cluster of 2 to 6 edge nodes with 2 to 6 services, and its scenario.

    Services have up to 10 pods; in every fourth cluster up to 50, of a fifth of the size. Demand
    is the paper's recipe with 1.0 to 1.7 times the edge's capacity. Only the draws of the scenario
    depend on the seed.
    """
    rng = random.Random(f"cluster {number}")
    while True:
        nodes = [
            (rng.choice(_NODE_CORES), rng.choice(_MEMORY_PER_CORE))
            for _ in range(rng.randint(2, 6))
        ]
        services = {
            f"s{index}": _Service(rng.choice(_SERVICE_CPU), rng.choice(_SERVICE_MEMORY))
            for index in range(rng.randint(2, 6))
        }
        total = {
            "cpu": sum(1000 * cores for cores, _ in nodes),
            "memory": sum(cores * memory for cores, memory in nodes),
        }
        parts = coefficients(total, {name: s.requests for name, s in services.items()})
        if all(_PART[0] <= part <= _PART[1] for part in parts.values()):
            break
    mean, sigma = rng.uniform(1.0, 1.7), rng.uniform(0.1, 0.5)
    times = 1 if number % _MANY_SMALL else _SMALLER
    parts = {name: times * part for name, part in parts.items()}
    most = times * MOST_REPLICAS

    def scenario(seed: int) -> Scenario:
        return normal(mean, sigma, seed=seed, coefficients=parts, most_replicas=most)

    name = f"random-{number:02}"
    specs = tuple(
        ServiceSpec(n, f"{s.cpu // times}m", f"{s.memory // times}Mi", (1, most))
        for n, s in services.items()
    )
    cluster = ClusterSpec(
        (
            *(
                node(f"e{index}", "edge", str(cores), f"{cores * memory}Mi")
                for index, (cores, memory) in enumerate(nodes)
            ),
            *_make_cloud(tuple(services.values()), rng.randint(1, 3)),
        )
    )
    return Source(name, name, scenario), attrs.evolve(setup, cluster=cluster, services=specs)


def _make_cloud(services: Sequence[_Service], number: int) -> list[Object]:
    """Return nodes with capacity for the maximum of all autoscalers."""
    share = _CLOUD_PLENTY * MOST_REPLICAS / number
    cpu, memory = (
        math.ceil(share * sum(service.requests[resource] for service in services))
        for resource in ("cpu", "memory")
    )
    return [node(f"c{index}", "cloud", f"{cpu}m", f"{memory}Mi") for index in range(number)]


def oscillation(name: str, setup: Setup) -> tuple[Source, Setup]:
    """Return the oscillating scenario, the same for all seeds, and its cluster and services."""
    few, many = OSCILLATIONS[name]
    turns = {"x": (few, many), "y": (many, few)}
    replicas = {service: turn * (_CYCLES // 2) for service, turn in turns.items()}
    scenario = serve_replicas(replicas, _CYCLE_SECONDS, "http://{service}/")
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
        kinds[_classify_scenario(row["scenario"])].append(row)
    return rows


def _classify_scenario(scenario: str) -> str:
    if scenario in OSCILLATIONS:
        return "oscillating"
    return "paper" if scenario in PAPER_SCENARIOS else "random"


def _average_key(rows: Sequence[Row], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def _average_ratios(kinds: Mapping[str, Sequence[Row]]) -> float:
    """Return the mean of the edge ratios of the paper's and of the random clusters."""
    return statistics.fmean(_average_key(kinds[where], "edgeRatio") for where in _WHERE[:2])


def answer(found: Report) -> str:
    """Compare the defaults with the best other value."""
    ratios = {
        name: _average_ratios(kinds)
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
                    cells.append(number(_average_key(kinds[where], "edgeRatio"), 4))
                    cells.append(number(_average_key(kinds[where], "migrations"), 1))
                lines.append([*cells, number(_average_ratios(kinds), 4)])
    columns = [f"{what}, {where}" for where in _WHERE for what in ("edge ratio", "migrations")]
    return markdown(["setting", "value", *columns, "edge ratio, both"], lines) + "\n"

"""`kubedsm bench suggest`: the exact suggester next to the paper's, on crowded clusters.

Tests compare both with literal forms: the paper's pseudocode, and enumeration.
"""

import random
from statistics import median
from typing import Literal

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO, Objective, QosTarget
from kubedsm.optimizer.moving.suggest import SuggestLimits, suggest
from kubedsm.optimizer.moving.suggestion import Suggestion
from kubedsm.plugins.fit import shortages
from kubedsm.terminal.fitted_table import table
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI
from kubedsm_lab.bench.report import (
    Report,
    format_duration,
    format_number,
    format_ratio,
    measure_fastest,
)

_REPEATS = 5


@attrs.frozen
class Size:
    pods: int
    nodes: int
    services: int


#: Size for which a suggestion must take at most 200 ms.
LARGE = Size(pods=200, nodes=20, services=6)


def run(number: int = 10) -> Report:
    """Time both algorithms on as many crowded clusters of the size `LARGE`."""
    exact, paper = (
        [time_suggestion(seed, algorithm) for seed in range(number)]
        for algorithm in ("exact", "paper")
    )
    ratios = [ours / theirs for (_, ours), (_, theirs) in zip(exact, paper, strict=True)]
    figures = {
        **attrs.asdict(LARGE),
        "instances": number,
        "exact": _summarize_suggestions(exact),
        "paper": _summarize_suggestions(paper),
        "ratio": round(median(ratios), 2),
    }
    headings = ("suggester", "median", "worst", "moves", "QoS score gained", "proven")
    rows = [
        (
            name,
            *(format_duration(of(seconds for _, seconds in timed)) for of in (median, max)),
            format_number(median(len(found.moves) for found, _ in timed)),
            format_number(median(_qos_gain(found) for found, _ in timed)),
            f"{sum(found.proven for found, _ in timed)} of {number}",
        )
        for name, timed in (("exact", exact), ("paper", paper))
    ]
    return Report(
        figures,
        [table(headings, rows, numbers=headings[1:])],
        [
            (
                f"{number} crowded clusters of {LARGE.pods} pods of {LARGE.services} services on"
                f" {LARGE.nodes} edge nodes. The exact suggester takes"
                f" {format_ratio(median(ratios))} times as long as the paper's (median)."
                f" CPU time, the best of {_REPEATS} runs."
            )
        ],
    )


def _summarize_suggestions(timed: list[tuple[Suggestion, float]]) -> dict[str, float]:
    return {
        "medianMs": round(median(seconds for _, seconds in timed) * 1e3, 1),
        "worstMs": round(max(seconds for _, seconds in timed) * 1e3, 1),
        "moves": median(len(found.moves) for found, _ in timed),
        "gain": round(median(_qos_gain(found) for found, _ in timed), 6),
        "proven": sum(found.proven for found, _ in timed),
    }


def _qos_gain(found: Suggestion) -> float:
    return (found.after.qos - found.before.qos) / NANO


def time_suggestion(seed: int, algorithm: Literal["exact", "paper"]) -> tuple[Suggestion, float]:
    """Return the suggestion for one crowded cluster, and its CPU seconds."""
    snapshot = large_instance(seed)
    rng = random.Random(seed)
    targets = {w: QosTarget(rng.choice((0.3, 0.5, 0.7, 0.8, 1.0))) for w in snapshot.shares()}
    return measure_fastest(
        lambda: suggest(
            snapshot, targets.__getitem__, Objective(), SuggestLimits(), algorithm=algorithm
        ),
        _REPEATS,
    )


def large_instance(seed: int) -> Snapshot:
    """Return a fragmented edge, and pods in the cloud."""
    rng = random.Random(seed)
    sizes = {
        f"s{at}": (rng.choice((500, 700, 800, 1000, 1300, 1500, 2000)), rng.randint(2, 12) * 256)
        for at in range(LARGE.services)
    }
    wanted = [rng.choice(sorted(sizes)) for _ in range(LARGE.pods)]
    mean_cpu = sum(sizes[service][0] for service in wanted) / LARGE.nodes
    mean_memory = sum(sizes[service][1] for service in wanted) / LARGE.nodes
    nodes = [
        _make_node(
            f"edge-{at:02}",
            Tier.EDGE,
            mean_cpu / 1000 * rng.uniform(0.9, 1.2),
            mean_memory * rng.uniform(1.0, 1.2),
        )
        for at in range(LARGE.nodes)
    ]
    nodes.append(_make_node("cloud", Tier.CLOUD, 1000, 10**6))
    free = {node.name: node.allocatable for node in nodes}
    pods = []
    for at, service in enumerate([*wanted, *rng.choices(sorted(sizes), k=LARGE.pods // 4)]):
        cpu, memory = sizes[service]
        requests = Resources(cpu, memory * MI, 1)
        fitting = [n.name for n in nodes[:-1] if not shortages(requests, free[n.name])]
        target = rng.choice(fitting) if fitting and at < LARGE.pods else nodes[-1].name
        free[target] -= requests
        pods.append(_make_pod(at, service, requests, target))
    return instances.snapshot(nodes, pods, free)


def _make_pod(number: int, service: str, requests: Resources, node: NodeName) -> Pod:
    return instances.pod(
        f"{service}-{number:03}",
        Workload("default", "Deployment", service),
        requests,
        uid=f"{number:03}",
        node_name=node,
        phase="Running",
        ready=True,
    )


def _make_node(name: str, tier: Tier, cores: float, mebibytes: float) -> Node:
    return instances.node(name, tier, Resources(int(cores * 1000), int(mebibytes * MI), 250))

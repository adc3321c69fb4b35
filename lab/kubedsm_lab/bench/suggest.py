"""How much faster `suggest` is than its literal forms, on the papers' services."""

import itertools
import random
import statistics
from typing import Any, Literal

import attrs
import numpy as np

from kubedsm.model.model import Node, NodeName, Pod, Resources, Tier, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.gains import Gains
from kubedsm.objective.objective import NANO, Objective, QosTarget, quality
from kubedsm.optimizer.moving.edge_problem import EdgeProblem
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.optimizer.moving.paper import PaperPlan, paper_plan
from kubedsm.optimizer.moving.proposal import Question
from kubedsm.optimizer.moving.suggest import SUGGEST_BOUNDS, SuggestLimits, suggest
from kubedsm.plugins.fit import shortages
from kubedsm_lab.bench import instances
from kubedsm_lab.bench.instances import MI, SERVICES, DisagreementError, fastest, timed
from kubedsm_lab.bench.literal.enumerated_moves import best_by_enumeration
from kubedsm_lab.bench.literal.paper import LiteralPaper
from kubedsm_lab.bench.telling import extrapolated, figure, many, span, times_as_long

_EDGE_NODES = 3
_REPEATS = 5


@attrs.frozen
class Comparison:
    """Seconds of CPU: of the fast form the best of several runs."""

    edge_pods: int
    cloud_pods: int
    moves: int
    #: points of QoS
    gain: float
    #: subsets, or choices of moves, that the literal form tries
    choices: int
    #: how many of them were really run; its seconds are scaled to all of them
    choices_run: int
    seconds: float
    literal_seconds: float

    @property
    def ratio(self) -> float:
        return self.literal_seconds / self.seconds

    def as_json(self) -> dict[str, Any]:
        return {
            "edgePods": self.edge_pods,
            "cloudPods": self.cloud_pods,
            "moves": self.moves,
            "gain": round(self.gain, 9),
            "literalChoices": self.choices,
            "literalChoicesRun": self.choices_run,
            "seconds": round(self.seconds, 6),
            "literalSeconds": round(self.literal_seconds, 6),
            "ratio": round(self.ratio, 1),
        }

    def sentence(self, ours: str, literal: str, choices: str) -> str:
        of_choices = f"{self.choices:,} {choices}"
        took = (
            f"{literal} takes {span(self.literal_seconds)} for {of_choices}"
            if self.choices_run >= self.choices
            else f"{literal} would take {span(self.literal_seconds)}"
            + extrapolated(self.choices_run, self.choices, choices)
        )
        return (
            f"{ours}, {self.edge_pods:,} pods at the edge and {self.cloud_pods:,} in the cloud:"
            f" {many(self.moves, 'move')}, for {figure(self.gain)} points of QoS, found in"
            f" {span(self.seconds)}; {took}: {times_as_long(self.ratio)}."
        )


@attrs.frozen
class Size:
    pods: int
    nodes: int
    services: int


#: What `suggest` must be quick on: 200 ms.
LARGE = Size(pods=200, nodes=20, services=6)


@attrs.frozen
class Large:
    """Seconds of the exact form on crowded instances of the size `LARGE`."""

    seconds: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            **attrs.asdict(LARGE),
            "instances": len(self.seconds),
            "medianMs": round(statistics.median(self.seconds) * 1e3, 1),
            "worstMs": round(self.worst * 1e3, 1),
        }

    @property
    def sentence(self) -> str:
        return (
            f"The exact suggester, {len(self.seconds):,} crowded clusters of {LARGE.pods:,} pods of"
            f" {LARGE.services} services on {LARGE.nodes} nodes:"
            f" {span(statistics.median(self.seconds))} in the median, {span(self.worst)} at worst;"
            " nothing was run beside it."
        )


@attrs.frozen
class SuggestResult:
    paper: Comparison
    exact: Comparison
    large: Large

    def as_json(self) -> dict[str, Any]:
        return {
            "paper": self.paper.as_json(),
            "exact": self.exact.as_json(),
            "large": self.large.as_json(),
        }

    @property
    def sentences(self) -> list[str]:
        return [
            self.paper.sentence("The paper's suggester", "its literal form", "subsets"),
            self.exact.sentence("The exact suggester", "trying everything", "choices of moves"),
            self.large.sentence,
            f"Times are of CPU: the best of {_REPEATS} runs, and one of what is beside.",
        ]


def run(
    pods: int = 31,
    candidates: int = 8,
    reorders: int = 3,
    sample: int = 24,
    exact_pods: int = 9,
    large: int = 10,
) -> SuggestResult:
    """Time both forms on one instance each, from the snapshot to what is to be moved.

    The paper's literal form reorders the edge for each of 2^candidates subsets, more than a second
    each. Its choice is found by trying all of them; with their reordering only `sample` of them are
    run, spread evenly over all, and the time is scaled. Raises DisagreementError if two forms do
    not find the same optimum.
    """
    return SuggestResult(
        _compare_paper(pods, candidates, reorders, sample),
        _compare_exact(exact_pods),
        Large(tuple(timed_large(seed, "exact")[0] for seed in range(large))),
    )


def instance(edge_pods: int, cloud_pods: int, spare: float) -> Snapshot:
    """Pods of services A to D in turn; `spare`: room on the edge, in parts of what they request."""
    services = list(itertools.islice(itertools.cycle(SERVICES), edge_pods + cloud_pods))
    wanted = [SERVICES[service] for service in services[:edge_pods]]
    cores = sum(cpu for cpu, _ in wanted) * (1 + spare) / _EDGE_NODES
    mebibytes = sum(memory for _, memory in wanted) * (1 + spare) / _EDGE_NODES
    nodes = [_node(f"edge-{at}", Tier.EDGE, cores, mebibytes) for at in range(_EDGE_NODES)]
    nodes.append(_node("cloud", Tier.CLOUD, 1000, 10**6))
    free = {node.name: node.allocatable for node in nodes}
    pods = []
    for at, service in enumerate(services):
        cpu, memory = SERVICES[service]
        requests = Resources(cpu * 1000, memory * MI, 1)
        turn = [nodes[(at + step) % _EDGE_NODES].name for step in range(_EDGE_NODES)]
        fitting = [name for name in turn if at < edge_pods and not shortages(requests, free[name])]
        target = fitting[0] if fitting else nodes[-1].name
        free[target] -= requests
        pods.append(_pod(at, service, requests, target))
    return instances.snapshot(nodes, pods, free)


def large_instance(seed: int) -> Snapshot:
    """An edge so full that there is room left only where nothing fits, and pods in the cloud."""
    rng = random.Random(seed)
    sizes = {
        f"s{at}": (rng.choice((500, 700, 800, 1000, 1300, 1500, 2000)), rng.randint(2, 12) * 256)
        for at in range(LARGE.services)
    }
    wanted = [rng.choice(sorted(sizes)) for _ in range(LARGE.pods)]
    mean_cpu = sum(sizes[service][0] for service in wanted) / LARGE.nodes
    mean_memory = sum(sizes[service][1] for service in wanted) / LARGE.nodes
    nodes = [
        _node(
            f"edge-{at:02}",
            Tier.EDGE,
            mean_cpu / 1000 * rng.uniform(0.9, 1.2),
            mean_memory * rng.uniform(1.0, 1.2),
        )
        for at in range(LARGE.nodes)
    ]
    nodes.append(_node("cloud", Tier.CLOUD, 1000, 10**6))
    free = {node.name: node.allocatable for node in nodes}
    pods = []
    for at, service in enumerate([*wanted, *rng.choices(sorted(sizes), k=LARGE.pods // 4)]):
        cpu, memory = sizes[service]
        requests = Resources(cpu, memory * MI, 1)
        fitting = [n.name for n in nodes[:-1] if not shortages(requests, free[n.name])]
        target = rng.choice(fitting) if fitting and at < LARGE.pods else nodes[-1].name
        free[target] -= requests
        pods.append(_pod(at, service, requests, target))
    return instances.snapshot(nodes, pods, free)


def timed_large(seed: int, algorithm: Literal["exact", "paper"]) -> tuple[float, int, bool]:
    """Seconds, moves, and whether they are proven the best, on an instance of that size."""
    snapshot = large_instance(seed)
    rng = random.Random(seed)
    promised = {w: QosTarget(rng.choice((0.3, 0.5, 0.7, 0.8, 1.0))) for w in snapshot.shares()}
    found, seconds = fastest(
        lambda: suggest(
            snapshot, promised.__getitem__, Objective(), SuggestLimits(), algorithm=algorithm
        ),
        _REPEATS,
    )
    return seconds, len(found.moves), found.proven


def _pod(number: int, service: str, requests: Resources, node: NodeName) -> Pod:
    workload = Workload("default", "Deployment", service)
    return instances.pod(
        f"{service}-{number:03}",
        workload,
        requests,
        uid=f"{number:03}",
        node_name=node,
        phase="Running",
        ready=True,
    )


def _node(name: str, tier: Tier, cores: float, mebibytes: float) -> Node:
    return instances.node(name, tier, Resources(int(cores * 1000), int(mebibytes * MI), 250))


def _promises(_: Workload) -> QosTarget:
    return QosTarget()


def _edge_pods(snapshot: Snapshot) -> int:
    edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
    return sum(pod.node_name in edge for pod in snapshot.pods.values())


def _compare_paper(pods: int, candidates: int, reorders: int, sample: int) -> Comparison:
    snapshot = instance(pods, candidates + 4, spare=0.4)
    objective, movable = Objective(), default_movable(snapshot)
    limits = SuggestLimits(max_cloud_to_edge=candidates, max_edge_reorder=reorders)

    def fast() -> tuple[PaperPlan, int]:
        fragmentation = Fragmentation(Measure.UNUSABLE, request_mix(snapshot))
        problem = EdgeProblem.of(snapshot, movable, fragmentation, SUGGEST_BOUNDS)
        gains = Gains(snapshot.shares(), _promises, objective)
        plan = paper_plan(Question(problem, gains, gains, limits, SUGGEST_BOUNDS))
        room = problem.free - plan.changes @ problem.requests
        return plan, int(problem.costs(np.arange(len(problem.nodes)), room).sum())

    fragmentation = Fragmentation(Measure.UNUSABLE, request_mix(snapshot))
    literal = LiteralPaper(snapshot, _promises, objective, fragmentation, movable)
    picked = literal.candidates(candidates)
    number = 2 ** len(picked)
    masks = range(0, number, max(1, -(-number // sample)))
    _, sampled = timed(lambda: [literal.subset(picked, mask, reorders) for mask in masks])
    chosen = literal.decide(picked, reorders=0)
    mask = sum(1 << at for at, pod in enumerate(picked) if pod in chosen.chosen)
    best = literal.subset(picked, mask, reorders)
    reordered = chosen.reorder if best is None else best.reorder
    (plan, cost), seconds = fastest(fast, _REPEATS)
    before = quality(snapshot.shares(), _promises, objective)
    moves = len(chosen.chosen) + len(chosen.freed) + reordered.moves
    _agree(
        (before + plan.decision.gain, plan.moves, cost),
        (chosen.qos, moves, reordered.fragmentation),
    )
    return Comparison(
        _edge_pods(snapshot),
        len(snapshot.pods) - _edge_pods(snapshot),
        moves,
        plan.decision.gain / NANO,
        number,
        len(masks),
        seconds,
        sampled * number / len(masks),
    )


def _compare_exact(pods: int) -> Comparison:
    snapshot = instance(pods, 4, spare=0.25)
    objective, limits = Objective(), SuggestLimits(max_moves=4)
    best, literal_seconds = timed(
        lambda: best_by_enumeration(
            snapshot, _promises, objective, limits, Measure.UNUSABLE, default_movable(snapshot)
        )
    )
    found, seconds = fastest(lambda: suggest(snapshot, _promises, objective, limits), _REPEATS)
    reached = found.after.qos, len(found.legs), found.after.fragmentation
    _agree(reached, (best.qos, best.moves, best.fragmentation))
    return Comparison(
        _edge_pods(snapshot),
        len(snapshot.pods) - _edge_pods(snapshot),
        len(found.moves),
        (found.after.qos - found.before.qos) / NANO,
        best.tried,
        best.tried,
        seconds,
        literal_seconds,
    )


def _agree(found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise DisagreementError(
            f"QoS, moves, fragmentation: found {found}, the literal form {expected}"
        )

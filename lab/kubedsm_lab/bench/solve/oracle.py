"""The best there is, asked of HiGHS by a model of its own.

It shares nothing with how decisions are made: variables are pods of a kind on a node and, for what
a share is worth, one choice among the numbers that a workload may have on the edge. There is no
limit unless one is given; then it says what it found, and what nothing can be better than.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import attrs
import highspy

from kubedsm.model.model import (
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Share,
    Tier,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.solvers.highs_library import TAKES_START
from kubedsm_lab.bench.instances import MI
from kubedsm_lab.bench.solve.best import ROUNDING, Best, Reach
from kubedsm_lab.bench.solve.instances import Instance

#: more pods than any workload of a batch has
_MANY = 100

_Kind = tuple[Workload, PodClass]


class _Model:
    def __init__(self, seconds: float, seed: int = 0) -> None:
        """seconds: for everything that is asked."""
        self._until = time.monotonic() + seconds
        self.highs = highspy.Highs()
        #: as they were found last; all variables there are going to be are made before
        self._values: list[float] = []
        for option, value in {
            "output_flag": False,
            "threads": 1,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": ROUNDING,
            # Begun anew, and by its rule for parallel rows and columns, it has called optimal what
            # was not (1.15.1).
            "mip_allow_restart": False,
            "presolve_rule_off": 1 << 13,
            "random_seed": seed,
        }.items():
            self.highs.setOptionValue(option, value)

    def number(self, most: int) -> Any:
        return self.highs.addIntegral(lb=0, ub=most)

    def demand(self, row: Any) -> None:
        self.highs.addConstr(row)

    def fits(self, room: Mapping[str, float], pods: Sequence[tuple[PodClass, Any]]) -> None:
        wanted = [(_amounts(kind.requests), number) for kind, number in pods]
        for resource in {resource for amounts, _ in wanted for resource in amounts}:
            asked = [a[resource] * number for a, number in wanted if resource in a]
            self.demand(_sum(asked) <= max(0.0, room.get(resource, 0.0)))

    def worth(self, instance: Instance, workload: Workload, on_edge: Any, total: int) -> Any:
        """What it is worth, in points, that so many of the workload's pods are on the edge."""
        promise, objective = instance.promises(workload), instance.objective
        chosen = [self.number(1) for _ in range(total + 1)]
        self.demand(_sum(chosen) == 1)
        self.demand(_sum([n * this for n, this in enumerate(chosen)]) == on_edge)
        scores = [
            objective.score(n, total, promise.qos, promise.weight) / NANO for n in range(total + 1)
        ]
        return _sum([score * this for score, this in zip(scores, chosen, strict=True)])

    def most(self, goal: Any, *, whole: bool) -> Reach:
        """Find it, and have what comes after keep it."""
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + self._left())
        self.highs.maximize(goal)
        info = self.highs.getInfo()
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            self._values = list(self.highs.getSolution().col_value)
        if not self._values:
            raise TimeoutError("nothing was found in the time that there was")
        found, bound = goal.evaluate(self._values), info.mip_dual_bound
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            bound = found
        if whole:
            found, bound = float(round(found)), float(math.floor(bound + ROUNDING))
        self.demand(goal >= found - (0.5 if whole else ROUNDING))
        if TAKES_START:
            begin = highspy.HighsSolution()
            begin.col_value = self._values
            self.highs.setSolution(begin)
        return Reach(found, bound)

    def value(self, number: Any) -> int:
        """What it is in what was found last."""
        at: int = number.index
        return round(self._values[at])

    def _left(self) -> float:
        return max(1.0, self._until - time.monotonic())


def best_placement(instance: Instance, seconds: float = math.inf, seed: int = 0) -> Best:
    """Most pods placed, by priority; then the greatest QoS, by the priority of workloads.

    seed: of the order in which HiGHS looks.
    """
    begun = time.process_time()
    snapshot, model = instance.snapshot, _Model(seconds, seed)
    kinds = _kinds(instance.batch)
    # What others of the batch may bring about is no part of what a node takes by itself.
    alone = [_without_rules(pods[0]) for pods in kinds.values()]
    feasibility = Feasibility.of(snapshot)
    numbers: dict[_Kind, dict[NodeName, Any]] = defaultdict(dict)
    for (kind, pods), pod in zip(kinds.items(), alone, strict=True):
        for name in feasibility.feasible(pod):
            if snapshot.nodes[name].tier is not None:
                numbers[kind][name] = model.number(len(pods))
        if numbers[kind]:
            model.demand(_sum(list(numbers[kind].values())) <= len(pods))
    for name in snapshot.nodes:
        here = [(kind[1], of[name]) for kind, of in numbers.items() if name in of]
        model.fits(_amounts(snapshot.free[name]), here)
    for (_, pod_class), of in numbers.items():
        _keep_rules(model, snapshot, pod_class.rules, of)
    by_priority: dict[int, list[Any]] = {kind[1].priority: [] for kind in kinds}
    for kind, of in numbers.items():
        by_priority[kind[1].priority] += of.values()
    worths = _worths(model, instance, numbers, kinds)
    placed = [
        model.most(_sum(by_priority[priority]), whole=True)
        if by_priority[priority]
        else Reach(0.0, 0.0)
        for priority in sorted(by_priority, reverse=True)
    ]
    qos = [model.most(worth, whole=False) for worth in worths]
    return Best(tuple(placed), tuple(qos), time.process_time() - begun)


def _without_rules(pod: Pod) -> Pod:
    rules = attrs.evolve(pod.pod_class.rules, affinity=(), anti_affinity=(), spread=())
    return attrs.evolve(pod, pod_class=attrs.evolve(pod.pod_class, rules=rules))


def _keep_rules(
    model: _Model, snapshot: Snapshot, rules: SchedulingRules, numbers: Mapping[NodeName, Any]
) -> None:
    """Rules of a kind about its own pods, of which none runs yet; there are no others."""

    def in_domains(key: str) -> list[Any]:
        """Of each domain, how many are in it."""
        names: dict[str, list[NodeName]] = defaultdict(list)
        for name, node in snapshot.nodes.items():
            names[node.labels[key]].append(name)
        return [_sum([numbers[name] for name in of if name in numbers]) for of in names.values()]

    for term in rules.anti_affinity:
        for number in in_domains(term.topology_key):
            model.demand(number + 0 <= 1)
    for constraint in rules.spread:
        for number, other in permutations(in_domains(constraint.topology_key), 2):
            model.demand(number - other <= constraint.max_skew)
    for term in rules.affinity:
        domains = in_domains(term.topology_key)
        chosen = [model.number(1) for _ in domains]
        model.demand(_sum(chosen) <= 1)
        for number, this in zip(domains, chosen, strict=True):
            model.demand(number <= _MANY * this)


def best_moves(instance: Instance, limits: SuggestLimits | None, seconds: float = math.inf) -> Best:
    """The greatest QoS that moves within the limits lead to, or any number of them.

    As if room were there in time: what cannot be carried out make-before-break counts, too.
    """
    begun = time.process_time()
    snapshot, model = instance.snapshot, _Model(seconds)
    kinds = _kinds(snapshot.pods.values())
    numbers: dict[_Kind, dict[NodeName, Any]] = {}
    flows: list[tuple[Any, Any, Any]] = []
    for kind, pods in kinds.items():
        here = Counter(pod.node_name for pod in pods)
        numbers[kind] = {name: model.number(len(pods)) for name in snapshot.nodes}
        model.demand(_sum(list(numbers[kind].values())) == len(pods))
        if limits is not None:
            flows.append(_flow(model, instance, numbers[kind], here, len(pods)))
    for name, node in snapshot.nodes.items():
        model.fits(_amounts(node.allocatable), [(kind[1], numbers[kind][name]) for kind in kinds])
    if limits is not None:
        inside, coming, leaving = (_sum(list(each)) for each in zip(*flows, strict=True))
        model.demand(inside <= limits.max_edge_reorder)
        model.demand(coming <= limits.max_cloud_to_edge)
        model.demand(inside + coming + leaving <= limits.max_moves)
    qos = [model.most(worth, whole=False) for worth in _worths(model, instance, numbers, kinds)]
    targets: dict[Uid, NodeName] = {}
    for kind, pods in kinds.items():
        left = Counter({name: model.value(number) for name, number in numbers[kind].items()})
        moved = []
        for pod in pods:
            if left[snapshot.placed[pod.uid]]:
                left[snapshot.placed[pod.uid]] -= 1
            else:
                moved.append(pod.uid)
        targets |= zip(moved, left.elements(), strict=True)
    return Best((), tuple(qos), time.process_time() - begun, targets)


def _flow(
    model: _Model,
    instance: Instance,
    numbers: Mapping[NodeName, Any],
    here: Mapping[NodeName | None, int],
    total: int,
) -> tuple[Any, Any, Any]:
    """How many pods of a kind move within the edge, come to it, and leave it."""
    inside, coming, leaving = (model.number(total) for _ in range(3))
    gone: dict[Tier | None, list[Any]] = defaultdict(list)
    come: dict[Tier | None, list[Any]] = defaultdict(list)
    for name, number in numbers.items():
        tier = instance.snapshot.nodes[name].tier
        less, more = model.number(here[name]), model.number(total)
        model.demand(number - here[name] == more - less)
        gone[tier].append(less)
        come[tier].append(more)
    model.demand(_sum(gone[Tier.EDGE]) == inside + leaving)
    model.demand(_sum(come[Tier.EDGE]) == inside + coming)
    model.demand(_sum(gone[Tier.CLOUD]) == coming + 0)
    model.demand(_sum(come[Tier.CLOUD]) == leaving + 0)
    return inside, coming, leaving


def _worths(
    model: _Model,
    instance: Instance,
    numbers: Mapping[_Kind, Mapping[NodeName, Any]],
    kinds: Mapping[_Kind, Sequence[Pod]],
) -> list[Any]:
    """QoS by level. The pods of `numbers` come on top of those that run, if they are a batch."""
    snapshot = instance.snapshot
    shares = snapshot.shares()
    edge = {node.name for node in snapshot.of_tier(Tier.EDGE)}
    levels: dict[Workload, int] = {}
    for workload, pod_class in kinds:
        levels[workload] = max(pod_class.priority, levels.get(workload, pod_class.priority))
    worths: dict[int, list[Any]] = defaultdict(list)
    for workload, level in levels.items():
        share = shares.get(workload, Share())
        at_edge = share.edge if instance.batch else 0
        counted = [
            number
            for kind, of in numbers.items()
            if kind[0] == workload
            for name, number in of.items()
            if name in edge
        ]
        on_edge = _sum(counted) + at_edge if counted else at_edge
        worths[level].append(model.worth(instance, workload, on_edge, share.total))
    return [_sum(worths[level]) for level in sorted(worths, reverse=True)]


def _kinds(pods: Iterable[Pod]) -> dict[_Kind, list[Pod]]:
    kinds: dict[_Kind, list[Pod]] = defaultdict(list)
    for pod in pods:
        kinds[pod.workload, pod.pod_class].append(pod)
    return dict(kinds)


def _amounts(of: Resources) -> dict[str, float]:
    """In numbers of about one size; none of 0."""
    return {n: a / MI if n == "memory" else float(a) for n, a in of.items() if a}


def _sum(terms: Sequence[Any]) -> Any:
    return highspy.Highs.qsum(terms)

"""Oracle for optimal placements and migrations: independent integer programs, solved by HiGHS.

The model shares only the solver process with the scheduler. Variables are the pods of a kind per
node and, for the QoS score, a choice among the possible numbers of a workload's edge pods. Without
a deadline the result is proven optimal, otherwise there is an upper bound.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

import attrs
import numpy as np

from kubedsm.model.deadline import NO_DEADLINE
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
from kubedsm.optimizer.programming.programme import UNBOUNDED, Ints, Programme, Rows, Status
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.solvers.available import Highs
from kubedsm_lab.bench.solve.instances import Instance

#: Negligible difference of QoS scores.
ROUNDING = 1e-6
#: More pods than any workload of a batch has.
_MANY = 100

_Kind = tuple[Workload, PodClass]
#: Linear expression: coefficient by variable.
_Terms = dict[int, int]


@attrs.frozen(slots=True)
class Reach:
    """Result of the oracle for one objective: the best value found, and a proven upper bound."""

    found: float
    bound: float

    @property
    def proven(self) -> bool:
        return self.bound - self.found <= ROUNDING * max(1.0, abs(self.found))


@attrs.frozen(slots=True)
class Best:
    """Optimum according to the oracle: pods placed and QoS scores by priority level, and target
    nodes of migrated pods.
    """

    #: pods placed, highest priority first; empty if no pod is pending
    placed: tuple[Reach, ...]
    #: QoS scores of the workloads of the batch, or of all; highest priority first
    qos: tuple[Reach, ...]
    #: target nodes of migrated pods
    targets: Mapping[Uid, NodeName] = attrs.field(factory=dict)

    @property
    def proven(self) -> bool:
        return all(reach.proven for reach in (*self.placed, *self.qos))


def best_placement(instance: Instance, seconds: float = math.inf, *, plain: bool = False) -> Best:
    """Find the optimal placement of a batch by an integer programme (MIP): most pods by priority
    level, then the highest QoS score.

    `plain` disables HiGHS' presolve, for a second opinion. Raises TimeoutError if nothing is found.
    """
    snapshot, model = instance.snapshot, _Model()
    kinds = _group_kinds(instance.batch)
    feasibility = Feasibility.of(snapshot)
    numbers: dict[_Kind, dict[NodeName, int]] = defaultdict(dict)
    for kind, pods in kinds.items():
        # Rules among pods of the batch are rows, and do not limit the nodes of a single pod.
        for name in feasibility.feasible(_without_rules(pods[0])):
            if snapshot.nodes[name].tier is not None:
                numbers[kind][name] = model.add_variable(len(pods))
        model.add_row(_sum_terms(numbers[kind].values()), most=len(pods))
    for name in snapshot.nodes:
        here = [(kind[1], of[name]) for kind, of in numbers.items() if name in of]
        model.limit_resources(snapshot.free[name], here)
    for (_, pod_class), of in numbers.items():
        _add_rules(model, snapshot, pod_class.rules, of)
    by_priority: dict[int, _Terms] = {kind[1].priority: {} for kind in kinds}
    for kind, of in numbers.items():
        by_priority[kind[1].priority] |= _sum_terms(of.values())
    priorities = sorted(by_priority, reverse=True)
    scores = _score_terms(model, instance, numbers, kinds)
    goals = [*(by_priority[priority] for priority in priorities), *scores]
    reached, _ = model.maximise(goals, seconds, plain=plain)
    placed, qos = reached[: len(priorities)], reached[len(priorities) :]
    return Best(
        tuple(Reach(float(found), float(bound)) for found, bound in placed),
        tuple(Reach(found / NANO, bound / NANO) for found, bound in qos),
    )


def best_moves(instance: Instance, limits: SuggestLimits | None, seconds: float = math.inf) -> Best:
    """Find the migrations that maximise the QoS score by an integer programme (MIP), within the
    migration limits if given.

    Capacity is checked after all migrations: make-before-break may not be possible. Raises
    TimeoutError if nothing is found.
    """
    snapshot, model = instance.snapshot, _Model()
    kinds = _group_kinds(snapshot.pods.values())
    numbers: dict[_Kind, dict[NodeName, int]] = {}
    flows: list[tuple[int, int, int]] = []
    for kind, pods in kinds.items():
        here = Counter(pod.node_name for pod in pods)
        numbers[kind] = {name: model.add_variable(len(pods)) for name in snapshot.nodes}
        model.add_row(_sum_terms(numbers[kind].values()), least=len(pods), most=len(pods))
        if limits is not None:
            flows.append(_add_flow(model, instance, numbers[kind], here, len(pods)))
    for name, node in snapshot.nodes.items():
        here_now = [(kind[1], numbers[kind][name]) for kind in kinds]
        model.limit_resources(node.allocatable, here_now)
    if limits is not None:
        within, to_edge, to_cloud = (_sum_terms(each) for each in zip(*flows, strict=True))
        model.add_row(within, most=limits.max_edge_reorder)
        model.add_row(to_edge, most=limits.max_cloud_to_edge)
        model.add_row(within | to_edge | to_cloud, most=limits.max_moves)
    scores = _score_terms(model, instance, numbers, kinds)
    reached, values = model.maximise(scores, seconds)
    targets: dict[Uid, NodeName] = {}
    for kind, pods in kinds.items():
        left = Counter({name: int(values[number]) for name, number in numbers[kind].items()})
        migrated = []
        for pod in pods:
            if left[snapshot.placed[pod.uid]]:
                left[snapshot.placed[pod.uid]] -= 1
            else:
                migrated.append(pod.uid)
        targets |= zip(migrated, left.elements(), strict=True)
    return Best((), tuple(Reach(found / NANO, bound / NANO) for found, bound in reached), targets)


class _Model:
    """Integer programme (MIP) under construction: integer variables and linear constraints."""

    def __init__(self) -> None:
        self._rows = Rows()

    def add_variable(self, most: int) -> int:
        return int(self._rows.variables([most])[0])

    def add_row(self, terms: _Terms, *, least: int = -UNBOUNDED, most: int = UNBOUNDED) -> None:
        self._rows.add((list(terms), list(terms.values())), least=least, most=most)

    def limit_resources(self, free: Resources, pods: Sequence[tuple[PodClass, int]]) -> None:
        """Constrain the pods' total requests to a node's free resources.

        `pods` are pairs of a pod class and the variable of its number of pods.
        """
        used: dict[str, _Terms] = defaultdict(dict)
        for pod_class, number in pods:
            for resource, amount in pod_class.requests.items():
                if amount:
                    used[resource][number] = amount
        available = dict(free.items())
        for resource, terms in used.items():
            self.add_row(terms, most=max(0, available.get(resource, 0)))

    def score(
        self, instance: Instance, workload: Workload, on_edge: _Terms, share: Share
    ) -> _Terms:
        """Return the workload's QoS score in nano-units, as linear terms of new 0-1 variables.

        `on_edge` counts pods at the edge in addition to `share.edge`; `share.total` counts all
        pods.
        """
        qos_target, objective = instance.qos_targets(workload), instance.objective
        chosen = [self.add_variable(1) for _ in range(share.total + 1)]
        self.add_row(_sum_terms(chosen), least=1, most=1)
        counted = {each: number for number, each in enumerate(chosen) if number}
        less = {variable: -coefficient for variable, coefficient in on_edge.items()}
        self.add_row(counted | less, least=share.edge, most=share.edge)
        return {
            each: objective.worth_of(
                Share(number, share.total), attrs.evolve(qos_target, most=None)
            )
            for number, each in enumerate(chosen)
        }

    def maximise(
        self, goals: Sequence[_Terms], seconds: float, *, plain: bool = False
    ) -> tuple[list[tuple[int, int]], Ints]:
        """Maximise several objectives in lexicographic order: each is fixed at its optimum before
        the next is maximised.

        Returns (value, upper bound) per objective, and the values of the variables.
        """
        until = time.monotonic() + seconds
        programme, values = self._rows.programme(), None
        reached = []
        for terms in goals:
            goal = np.zeros(self._rows.number, dtype=np.int64)
            goal[list(terms)] = list(terms.values())
            solver = Highs(seconds=max(1.0, until - time.monotonic()))
            solved = solver.maximise(programme, goal, NO_DEADLINE, values, plain=plain)
            if solved.values is not None:
                values = solved.values
            if values is None:
                raise TimeoutError(f"the oracle found nothing in {seconds:g} s; {solved.note}")
            value = int(goal @ values)
            bound = solved.bound if solved.bound is not None else _trivial_bound(programme, goal)
            reached.append((value, value if solved.status is Status.OPTIMAL else bound))
            programme = programme.at_least(goal, value)
        return reached, values if values is not None else np.zeros(0, dtype=np.int64)


def _trivial_bound(programme: Programme, goal: Ints) -> int:
    return int(np.maximum(goal, 0) @ programme.upper)


def _without_rules(pod: Pod) -> Pod:
    rules = attrs.evolve(pod.pod_class.rules, affinity=(), anti_affinity=(), spread=())
    return attrs.evolve(pod, pod_class=attrs.evolve(pod.pod_class, rules=rules))


def _add_rules(
    model: _Model, snapshot: Snapshot, rules: SchedulingRules, numbers: Mapping[NodeName, int]
) -> None:
    """Add the linear constraints for a pod class's affinity and spread rules among the pending pods
    of this class.
    """

    def list_domains(key: str) -> list[_Terms]:
        """Return, for each topology domain, the number of the class's pods there as a sum of
        variables.
        """
        found: dict[str, _Terms] = defaultdict(dict)
        for name, node in snapshot.nodes.items():
            found[node.labels[key]] |= _sum_terms([numbers[name]] if name in numbers else [])
        return list(found.values())

    for term in rules.anti_affinity:
        for domain in list_domains(term.topology_key):
            model.add_row(domain, most=1)
    for constraint in rules.spread:
        for domain, other in permutations(list_domains(constraint.topology_key), 2):
            less = dict.fromkeys(other, -1)
            model.add_row(domain | less, most=constraint.max_skew)
    for term in rules.affinity:
        chosen = []
        for domain in list_domains(term.topology_key):
            chosen.append(model.add_variable(1))
            model.add_row(domain | {chosen[-1]: -_MANY}, most=0)
        model.add_row(_sum_terms(chosen), most=1)


def _add_flow(
    model: _Model,
    instance: Instance,
    numbers: Mapping[NodeName, int],
    here: Mapping[NodeName | None, int],
    total: int,
) -> tuple[int, int, int]:
    """Add variables for the numbers of a class's pods that migrate within the edge, from cloud to
    edge, and from edge to cloud; return these.
    """
    within, to_edge, to_cloud = (model.add_variable(total) for _ in range(3))
    departures: dict[Tier | None, _Terms] = defaultdict(dict)
    arrivals: dict[Tier | None, _Terms] = defaultdict(dict)
    for name, number in numbers.items():
        tier, before = instance.snapshot.nodes[name].tier, here[name]
        less, more = model.add_variable(before), model.add_variable(total)
        model.add_row({number: 1, more: -1, less: 1}, least=before, most=before)
        departures[tier][less] = 1
        arrivals[tier][more] = 1
    for terms, flows in (
        (departures[Tier.EDGE], (within, to_cloud)),
        (arrivals[Tier.EDGE], (within, to_edge)),
        (departures[Tier.CLOUD], (to_edge,)),
        (arrivals[Tier.CLOUD], (to_cloud,)),
    ):
        model.add_row(terms | dict.fromkeys(flows, -1), least=0, most=0)
    return within, to_edge, to_cloud


def _score_terms(
    model: _Model,
    instance: Instance,
    numbers: Mapping[_Kind, Mapping[NodeName, int]],
    kinds: Mapping[_Kind, Sequence[Pod]],
) -> list[_Terms]:
    """Return the QoS score of running and pending pods as linear terms, one sum per
    priority level.
    """
    shares = instance.snapshot.census.shares
    edge = {node.name for node in instance.snapshot.of_tier(Tier.EDGE)}
    levels: dict[Workload, int] = {}
    for workload, pod_class in kinds:
        levels[workload] = max(pod_class.priority, levels.get(workload, pod_class.priority))
    scores: dict[int, _Terms] = defaultdict(dict)
    for workload, level in levels.items():
        share = shares.get(workload, Share())
        on_edge = _sum_terms(
            number
            for kind, of in numbers.items()
            if kind[0] == workload
            for name, number in of.items()
            if name in edge
        )
        running = Share(share.edge if instance.batch else 0, share.total)
        scores[level] |= model.score(instance, workload, on_edge, running)
    return [scores[level] for level in sorted(scores, reverse=True)]


def _group_kinds(pods: Iterable[Pod]) -> dict[_Kind, list[Pod]]:
    kinds: dict[_Kind, list[Pod]] = defaultdict(list)
    for pod in pods:
        kinds[pod.workload, pod.pod_class].append(pod)
    return dict(kinds)


def _sum_terms(variables: Iterable[int]) -> _Terms:
    return dict.fromkeys(variables, 1)

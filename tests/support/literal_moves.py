"""Exhaustive search for the best suggestion: oracle of the exact form of `suggest`.

Tries every choice of up to `max_moves` pods with every target, in plain Python. Only the model, the
rules of `fit` and the objective are shared with the scheduler.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import combinations, permutations, product

import attrs

from kubedsm.model.model import Node, NodeName, Pod, Resources, Share, Tier, Uid, Workload
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import NANO, Objective, QosTargets, quality
from kubedsm.optimizer.moving.movable import Movable
from kubedsm.optimizer.moving.suggestion import SuggestLimits
from support.literal_fit import reasons, static_reasons
from support.literal_match import literal_fragmentation, literal_match

#: The cloud as a whole.
CLOUD = NodeName("the cloud")

#: A pod, the node it is on (None: it waits), and where it goes.
Step = tuple[Pod, NodeName | None, NodeName]
_Free = dict[NodeName, Resources]
#: What it is worth that the shares become these.
Worth = Callable[[Mapping[Workload, Share]], int]


def kind_of(step: Step, edge: Container[NodeName]) -> str:
    """Return what a step does, as seen from the edge."""
    _, source, target = step
    if source is None:
        return "placed"
    return "in" if source not in edge else "out" if target == CLOUD else "within"


def free_after(free: Mapping[NodeName, Resources], steps: Sequence[Step]) -> _Free:
    """Return the free capacity after the steps; the cloud's does not count."""
    left = dict(free)
    for pod, source, target in steps:
        if source is not None:
            left[source] += pod.requests
        if target != CLOUD:
            left[target] -= pod.requests
    return left


@attrs.frozen
class Best:
    """Best suggestion: QoS in nano-units, legs, awaited pods, replica pairs, fragmentation."""

    qos: int
    #: of worth, what is left when all legs are paid; the QoS where they have no price
    net: int
    moves: int
    fragmentation: int
    #: how many choices there were
    tried: int
    #: of replicas on one edge node; none if that does not count
    pairs: int = 0

    @property
    def rank(self) -> tuple[int, int, int, int]:
        return self.net, -self.moves, -self.pairs, -self.fragmentation


@attrs.frozen(eq=False)
class _Try:
    snapshot: Snapshot
    limits: SuggestLimits
    edge: Mapping[NodeName, Node]
    cloud: Sequence[Node]

    def legs(self, steps: Sequence[Step]) -> int | None:
        """Return the number of legs that carry out the steps; None if they are not allowed."""
        kinds = Counter(self._kind(step) for step in steps)
        allowed = (
            kinds["in"] <= self.limits.max_cloud_to_edge
            and kinds["within"] <= self.limits.max_edge_reorder
            and not self._exchanged(steps)
            and self._fits(steps)
            and self._leaves_headroom(steps)
        )
        return self._started(steps) if allowed else None

    def _kind(self, step: Step) -> str:
        return kind_of(step, self.edge)

    def _exchanged(self, steps: Sequence[Step]) -> bool:
        """Return whether two equivalent pods change places between edge and cloud.

        That equals a migration within the edge, at twice its price.
        """
        out = {self._looks[step[0].uid] for step in steps if self._kind(step) == "out"}
        return any(
            self._looks[step[0].uid] in out
            for step in steps
            if self._kind(step) in ("in", "placed")
        )

    @cached_property
    def _looks(self) -> Mapping[Uid, tuple[object, ...]]:
        return {uid: self._look(pod) for uid, pod in self.snapshot.pods.items()}

    def _look(self, pod: Pod) -> tuple[object, ...]:
        free = self.snapshot.free
        return (
            pod.workload,
            pod.requests,
            *(not static_reasons(pod.pod_class, node) for node in self.edge.values()),
            *(not reasons(pod.pod_class, node, free[node.name]) for node in self.cloud),
        )

    def _fits(self, steps: Sequence[Step]) -> bool:
        free = dict(self.snapshot.free)
        for pod, source, _ in steps:
            if source is not None:
                free[source] += pod.requests
        for pod, _, target in steps:
            if target != CLOUD:
                if reasons(pod.pod_class, self.edge[target], free[target]):
                    return False
                free[target] -= pod.requests
        return True

    def _held(self, pods: Sequence[Pod]) -> bool:
        free = self.snapshot.free
        return literal_match(pods, self.cloud, free, Fragmentation()).costs[-1] is not None

    def _leaves_headroom(self, steps: Sequence[Step]) -> bool:
        """Return whether running pods respect the edge headroom."""
        for resource in ("cpu", "memory"):
            size = sum(node.allocatable.amount(resource) for node in self.edge.values())
            free = sum(max(self.snapshot.free[name].amount(resource), 0) for name in self.edge)
            brought = sum(
                ((target in self.edge) - (source in self.edge)) * pod.requests.amount(resource)
                for pod, source, target in steps
                if source is not None
            )
            if brought > max(free - round(size * self.limits.headroom), 0):
                return False
        return True

    def _started(self, steps: Sequence[Step]) -> int | None:
        """Return the legs of a feasible order of steps, with at most one stop-over in the cloud."""
        out = [pod for pod, _, target in steps if target == CLOUD]
        # A cloud that holds them all from the start has room in any order.
        ways = (steps,) if self._held(out) else self._ways(steps)
        if any(_in_some_order(way, self.snapshot.free) for way in ways):
            return len(steps)
        inner = [step for step in steps if self._kind(step) == "within"]
        broken = len(steps) < self.limits.max_moves and any(
            self._held([*out, step[0]])
            and _in_some_order([other for other in steps if other != step], self._without(step))
            for step in inner
        )
        return len(steps) + 1 if broken else None

    def _ways(self, steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
        """Yield the steps with a concrete cloud node for each step to the cloud."""
        options = [
            [
                (pod, source, node.name)
                for node in self.cloud
                if not static_reasons(pod.pod_class, node)
            ]
            if target == CLOUD
            else [(pod, source, target)]
            for pod, source, target in steps
        ]
        yield from product(*options)

    def _without(self, step: Step) -> Mapping[NodeName, Resources]:
        pod, source, _ = step
        free = dict(self.snapshot.free)
        if source is not None:
            free[source] += pod.requests
        return free


def _in_some_order(steps: Sequence[Step], free: Mapping[NodeName, Resources]) -> bool:
    return any(_in_order(order, dict(free)) for order in permutations(steps))


def _in_order(order: Sequence[Step], free: _Free) -> bool:
    for pod, source, target in order:
        if target != CLOUD:
            short = [
                name
                for name, amount in pod.requests.items()
                if amount and amount > free[target].amount(name)
            ]
            if short:
                return False
            free[target] -= pod.requests
        if source is not None:
            free[source] += pod.requests
    return True


def best_by_enumeration(
    snapshot: Snapshot,
    qos_targets: QosTargets,
    objective: Objective,
    limits: SuggestLimits,
    measure: Measure,
    movable: Movable,
    worth: Worth | None = None,
    new: Container[Uid] = (),
) -> Best:
    """Return the best suggestion: greatest QoS, then fewest moves, pairs, and fragmentation.

    With `worth` (nano-units of the price), the result maximises the benefit after the price of all
    legs, among suggestions that do not lower the QoS. `new`: pods that could start in the cloud;
    then no pending pod is worth more than it gains.
    """
    edge = {node.name: node for node in snapshot.of_tier(Tier.EDGE)}
    trial = _Try(snapshot, limits, edge, snapshot.of_tier(Tier.CLOUD))
    fragmentation = Fragmentation(measure, request_mix(snapshot))
    shares = snapshot.census.shares

    # Many choices come to the same shares, or leave a node the same room.
    @cache
    def reached(changes: frozenset[tuple[Workload, int]]) -> tuple[int, int]:
        after = shares_after(shares, changes)
        qos = quality(after, qos_targets, objective)
        return qos, qos if worth is None else worth(after)

    @cache
    def cost_of(node: NodeName, free: Resources) -> int:
        return literal_fragmentation(fragmentation, edge[node], free)

    at_first = quality(shares, qos_targets, objective)
    price = round(limits.price * NANO)
    best = Best(at_first, at_first if worth is None else 0, 0, _after((), trial, cost_of), 0)
    tried = 0
    for steps in _choices(snapshot, limits, trial, movable, new):
        tried += 1
        qos, value = reached(list_changes(steps, edge))
        if worth is not None:
            value += _given(steps, limits, most=0 if new else limits.max_moves)
        found = Best(qos, value - price * len(steps), len(steps), 0, 0)
        if found.rank[:2] < best.rank[:2] or (worth and (qos <= at_first or found.net <= 0)):
            continue
        moved = {pod.uid: target for pod, _, target in steps}
        pairs = pairs_on_edge(snapshot, moved) if limits.spread else 0
        cost = _after(steps, trial, cost_of)
        found = attrs.evolve(found, pairs=pairs, fragmentation=cost)
        legs = trial.legs(steps) if found.rank > best.rank else None
        if legs is not None:
            found = attrs.evolve(found, moves=legs, net=value - price * legs)
            best = max(best, found, key=lambda each: each.rank)
    return attrs.evolve(best, tried=tried)


def _given(steps: Sequence[Step], limits: SuggestLimits, most: int) -> int:
    """Return the price granted for awaited pods: their own, and that of `most` migrations."""
    awaited = sum(source is None for _, source, _ in steps)
    return round(limits.price * NANO) * awaited * (1 + most)


def list_changes(
    steps: Sequence[Step], edge: Container[NodeName]
) -> frozenset[tuple[Workload, int]]:
    """Return the change of edge pods for each workload of the steps."""
    changes: Counter[Workload] = Counter()
    for pod, source, target in steps:
        changes[pod.workload] += (target in edge) - (source in edge)
    return frozenset(changes.items())


def shares_after(
    shares: Mapping[Workload, Share], changes: frozenset[tuple[Workload, int]]
) -> Mapping[Workload, Share]:
    after = dict(shares)
    for workload, change in changes:
        share = after[workload]
        after[workload] = Share(share.edge + change, share.total)
    return after


def _after(
    steps: Sequence[Step], trial: _Try, cost_of: Callable[[NodeName, Resources], int]
) -> int:
    """Return the fragmentation of the edge after the steps."""
    free = free_after(trial.snapshot.free, steps)
    return sum(cost_of(name, free[name]) for name in trial.edge)


def pairs_on_edge(snapshot: Snapshot, moved: Mapping[Uid, NodeName]) -> int:
    """Count the pairs of replicas on one edge node, after the moves."""
    where: dict[tuple[NodeName, Workload], int] = {}
    for uid, node in {**snapshot.placed, **moved}.items():
        pod = snapshot.pods[uid]
        if node in snapshot.nodes and snapshot.nodes[node].tier is Tier.EDGE and pod.counts_for_qos:
            where[node, pod.workload] = where.get((node, pod.workload), 0) + 1
    return sum(number * (number - 1) // 2 for number in where.values())


def _choices(
    snapshot: Snapshot, limits: SuggestLimits, trial: _Try, movable: Movable, new: Container[Uid]
) -> Iterator[tuple[Step, ...]]:
    steps = []
    for pod in sorted(snapshot.pods.values(), key=str):
        source = pod.node_name
        if source is None:
            stranded = pod in snapshot.schedulable([pod]) and (
                pod.uid in new
                or all(
                    reasons(pod.pod_class, node, snapshot.free[node.name])
                    for node in (*trial.edge.values(), *trial.cloud)
                )
            )
            targets = list(trial.edge) if stranded and pod.counts_for_qos else []
        elif movable(pod):
            targets = []
        elif source in trial.edge:
            targets = [*(name for name in trial.edge if name != source), CLOUD]
        else:
            targets = list(trial.edge)
        if targets:
            steps.append([(pod, source, target) for target in targets])
    for number in range(min(limits.max_moves, len(steps)) + 1):
        for chosen in combinations(steps, number):
            yield from product(*chosen)

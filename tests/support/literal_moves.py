"""Exhaustive search for the best suggestion, and execution of suggestions, in literal form.

The search tries every choice of up to `max_moves` pods with every target, in every order, under
all rules between pods. Only the model, `shortages` and the objective are shared with the scheduler.
"""

import random
from collections import Counter
from functools import cache
from itertools import combinations, groupby, product

import attrs

from kubedsm.model.model import NodeName, PodClass, Resources, Share, Tier
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import NANO
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.plugins.fit import shortages
from support.literal_rules import literal_rule, reasons, static_rejection
from support.placement_literal import literal_fragmentation, qos_by_priority

#: The cloud as a whole.
CLOUD = NodeName("the cloud")
#: Nano-units of QoS a move that do not count: scores are rounded, workload by workload.
ROUNDING = 1000


def put(shot, pod, node):
    """Return the snapshot with the pod moved to a node, or removed (None)."""
    placed, free = dict(shot.placed), dict(shot.free)
    if pod.uid in placed:
        free[placed.pop(pod.uid)] += pod.requests
    if node is not None:
        placed[pod.uid] = node
        free[node] -= pod.requests
    return attrs.evolve(shot, pods={**shot.pods, pod.uid: pod}, placed=placed, free=free)


def allowed(shot, pod, node):
    return literal_rule(put(shot, pod, None), pod, shot.nodes[node]) is None


def broken(before, after):
    """Return the pods whose required rules are violated after a change, and were not before."""

    def keeps(shot, pod):
        needed = attrs.evolve(pod.pod_class.rules, ports=(), claims=(), disks=())
        asking = attrs.evolve(pod, pod_class=PodClass(Resources(), needed))
        return allowed(shot, asking, shot.placed[pod.uid])

    return [
        pod.name
        for pod in after.pods.values()
        if pod.uid in after.placed
        and (pod.uid not in before.placed or keeps(before, before.pods[pod.uid]))
        and not keeps(after, pod)
    ]


def by_priority(case, shares):
    """Return the QoS by priority, highest first."""
    pods = (p for p in case.snapshot.pods.values() if p.workload in shares and p.counts_for_qos)
    return qos_by_priority(pods, shares, case.qos_targets, case.objective)


def rank_of(case, found):
    """Return the rank of a suggestion as `LiteralMoves.best` has it."""
    moved = {move.pod.uid: move.target for move in (*found.moves, *found.awaited)}
    legs, pairs = len(found.legs) + len(found.awaited), pairs_on_edge(case, moved)
    return by_priority(case, found.after.shares), -legs, -pairs, -found.after.fragmentation


def no_gain(case, best):
    """Return whether the best is no more than rounding, at the first priority that changes."""
    before = by_priority(case, case.snapshot.census.shares)
    gain = next((b - a for a, b in zip(before, best[0], strict=True) if a != b), 0)
    return gain <= ROUNDING * -best[1]


def pairs_on_edge(case, moved):
    """Count the pairs of replicas on one edge node, after the moves; 0 if they do not count."""
    shot, where = case.snapshot, Counter()
    for uid, node in {**shot.placed, **moved}.items() if case.limits.spread else ():
        if node in shot.nodes and shot.nodes[node].tier is Tier.EDGE:
            where[node, shot.pods[uid].workload] += shot.pods[uid].counts_for_qos
    return sum(number * (number - 1) // 2 for number in where.values())


class LiteralMoves:
    """Search over all choices of steps: (pod, its node or None if it waits, its target).

    With `worth` (nano-units of the price, of shares), the benefit after the price of all legs is
    maximised, among suggestions that raise the QoS. `new`: pods that could start in the cloud; then
    no pending pod is worth more than it gains.
    """

    def __init__(self, case, measure=Measure.UNUSABLE, worth=None, new=()):
        self.case, self.shot, self.limits = case, case.snapshot, case.limits
        self.edge = {node.name: node for node in self.shot.of_tier(Tier.EDGE)}
        self.cloud = {node.name: node for node in self.shot.of_tier(Tier.CLOUD)}
        self.worth, self.new = worth, new
        fragmentation = Fragmentation(measure, request_mix(self.shot))
        self._cost = cache(lambda n, free: literal_fragmentation(fragmentation, self.edge[n], free))
        self._value = cache(self._value_of)
        self._price = round(self.limits.price * NANO) if worth else 0
        self._looks = {uid: self._look(pod) for uid, pod in self.shot.pods.items()}

    def best(self):
        """Return the best reachable (QoS by priority, or benefit; -legs; -pairs; -fragmentation).

        If the steps need a stopover in the cloud, they take one leg more.
        """
        ranked = [(self._worth(steps), -len(steps), steps) for steps in self._choices()]
        ranked = sorted((each for each in ranked if each[0] is not None), key=_rank, reverse=True)
        best = ()
        for rank, same in groupby(ranked, key=_rank):
            if rank < best[:2]:
                break
            for worth, _, steps in same:
                moved = {pod.uid: target for pod, _, target in steps}
                rest = -pairs_on_edge(self.case, moved), -self._fragmentation(steps)
                legs = self._legs(steps) if (*rank, *rest) > best else None
                if legs is not None:
                    least = tuple(each - self._price * (legs - len(steps)) for each in worth)
                    best = max(best, (least, -legs, *rest))
        return best

    def _worth(self, steps):
        changes = Counter()
        for pod, source, target in steps:
            changes[pod.workload] += (target in self.edge) - (source in self.edge)
        qos, worth = self._value(frozenset(changes.items()))
        if self.worth is None or not steps:
            return qos if self.worth is None else (0,)
        awaited = sum(source is None for _, source, _ in steps)
        given = awaited * (1 + (0 if self.new else self.limits.max_moves))
        raised = qos > self._value(frozenset())[0]
        return (worth + self._price * (given - len(steps)),) if raised else None

    def _value_of(self, changes):
        after = dict(self.shot.census.shares)
        for workload, change in changes:
            after[workload] = Share(after[workload].edge + change, after[workload].total)
        return by_priority(self.case, after), self.worth and self.worth(after)

    def _choices(self):
        movable, options = default_movable(self.shot), []
        for pod in self.shot.pods.values():
            source, targets = pod.node_name, []
            if source is None:
                if pod.counts_for_qos and self._is_stranded(pod):
                    targets = list(self.edge)
            elif not movable(pod):
                targets = [name for name in self.edge if name != source]
            targets = [n for n in targets if not static_rejection(pod.pod_class, self.edge[n])]
            targets += [CLOUD] if source in self.edge and not movable(pod) else []
            if targets:
                options.append([(pod, source, target) for target in targets])
        for number in range(min(self.limits.max_moves, len(options)) + 1):
            for chosen in combinations(options, number):
                yield from filter(self._is_within_limits, product(*chosen))

    def _is_stranded(self, pod):
        fits_nowhere = not any(allowed(self.shot, pod, n) for n in (*self.edge, *self.cloud))
        return bool(self.shot.schedulable([pod])) and (pod.uid in self.new or fits_nowhere)

    def _kind(self, step):
        _, source, target = step
        if source is None:
            return "placed"
        return "in" if source not in self.edge else "out" if target == CLOUD else "within"

    def _is_within_limits(self, steps):
        """Return whether the limits permit the steps, and no two equivalent pods change places
        between edge and cloud, which equals a migration within the edge, at twice its price.
        """
        kinds = Counter(map(self._kind, steps))
        out = {self._looks[step[0].uid] for step in steps if self._kind(step) == "out"}
        come = {self._looks[s[0].uid] for s in steps if self._kind(s) in ("in", "placed")}
        return (
            kinds["in"] <= self.limits.max_cloud_to_edge
            and kinds["within"] <= self.limits.max_edge_reorder
            and not out & come
            and self._fits(steps)
        )

    def _look(self, pod):
        return (
            pod.workload,
            pod.requests,
            *(not static_rejection(pod.pod_class, node) for node in self.edge.values()),
            *(not reasons(pod.pod_class, n, self.shot.free[n.name]) for n in self.cloud.values()),
        )

    def _fits(self, steps):
        """Return whether pods fit at the end, and running pods respect the edge headroom."""
        free = self._free_after(steps, leaving=True)
        for pod, _, target in steps:
            if target != CLOUD:
                if shortages(pod.requests, free[target]):
                    return False
                free[target] -= pod.requests
        for resource in ("cpu", "memory") if self.limits.headroom else ():
            size = sum(node.allocatable.amount(resource) for node in self.edge.values())
            left = sum(max(self.shot.free[name].amount(resource), 0) for name in self.edge)
            brought = sum(
                ((target in self.edge) - (source in self.edge)) * pod.requests.amount(resource)
                for pod, source, target in steps
                if source is not None
            )
            if brought > max(left - round(size * self.limits.headroom), 0):
                return False
        return True

    def _free_after(self, steps, *, leaving=False):
        """Return the free capacity after the steps, or after the departures alone."""
        free = dict(self.shot.free)
        for pod, source, target in steps:
            if source is not None:
                free[source] += pod.requests
            if target != CLOUD and not leaving:
                free[target] -= pod.requests
        return free

    def _fragmentation(self, steps):
        free = self._free_after(steps)
        return sum(self._cost(name, free[name]) for name in self.edge)

    def _legs(self, steps):
        """Return the legs that the steps need, one more with a stopover; None if infeasible."""
        room = {name: self.shot.free[name] for name in self.cloud}
        if self._has_order(self.shot, room, steps):
            return len(steps)
        parking = [step[0] for step in steps if self._kind(step) == "within"]
        for pod, name in product(parking, room) if len(steps) < self.limits.max_moves else ():
            if allowed(self.shot, pod, name):
                less = {**room, name: room[name] - pod.requests}
                if self._has_order(put(self.shot, pod, name), less, steps):
                    return len(steps) + 1
        return None

    def _has_order(self, shot, room, steps):
        """Return whether the steps are feasible in some order; `room` is the cloud's capacity."""
        if not steps:
            return not broken(self.shot, shot)
        for at, (pod, source, target) in enumerate(steps):
            left, rest = room, (*steps[:at], *steps[at + 1 :])
            if source in room:
                left = {**room, source: room[source] + pod.requests}
            for name in self.cloud if target == CLOUD else [target]:
                fits = name in self.edge or not shortages(pod.requests, left[name])
                if fits and allowed(shot, pod, name):
                    after = {**left, name: left[name] - pod.requests} if name in left else left
                    if self._has_order(put(shot, pod, name), after, rest):
                        return True
        return False


def _rank(entry):
    return entry[:2]


def needed(suggestion):
    """Return the legs that each leg depends on, by pod name."""
    short = {leg.name: leg.name.partition("/")[2] for leg in suggestion.legs}
    return {short[leg.name]: {short[name] for name in leg.needs} for leg in suggestion.legs}


def stages(shot, suggestion):
    """Yield the snapshot before the moves, and after each group."""
    yield shot
    for _, group in groupby(suggestion.moves, key=lambda move: move.group):
        for move in group:
            shot = put(shot, move.pod, move.target)
        yield shot


def carried_out(shot, suggestion, seed=0):
    """Execute a suggestion leg by leg, checking rules and capacity; return the final snapshot.

    Legs whose dependencies are over start in a random order and overlap at random: the new pod
    exists before the old one is gone.
    """
    rng, now, whole = random.Random(seed), shot, {m.pod.uid: m.target for m in suggestion.moves}
    waiting, doubled, over = list(suggestion.legs), {}, set()
    while waiting or doubled:
        ready = [leg for leg in waiting if leg.needs <= over]
        if ready and (not doubled or rng.random() < 0.6):
            leg = rng.choice(ready)
            waiting.remove(leg)
            pod = leg.move.pod
            assert now.placed[pod.uid] == leg.source
            assert allowed(now, pod, leg.target), (leg.name, leg.target)
            old = attrs.evolve(pod, uid=f"{pod.uid} (old)")
            now = put(put(now, pod, leg.target), old, leg.source)
            doubled[leg.name] = old
        else:
            assert doubled, f"these wait for each other: {[leg.name for leg in waiting]}"
            name = rng.choice(sorted(doubled))
            now = put(now, doubled.pop(name), None)
            over.add(name)
    after = shot.with_placed(whole)
    assert (after.free, after.placed) == (now.free, now.placed)
    return after

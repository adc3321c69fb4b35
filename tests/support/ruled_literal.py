"""Oracles of `suggest` for pods with rules about each other, in literal form."""

import random
from collections import Counter
from functools import cache
from itertools import combinations, groupby, permutations, product

import attrs

from kubedsm.model.model import PodClass, Resources, Tier
from kubedsm.objective.fragmentation import Fragmentation, request_mix
from kubedsm.objective.objective import quality
from kubedsm.optimizer.moving.movable import default_movable
from kubedsm.plugins.fit import shortages
from support.literal_moves import CLOUD, free_after, kind_of, list_changes, shares_after
from support.literal_rules import literal_rule


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


def by_priority(shot, shares, case):
    """Return the QoS by priority, highest first."""
    priorities = {}
    for pod in shot.pods.values():
        if pod.workload in shares and pod.counts_for_qos:
            priorities.setdefault(pod.workload, []).append(pod.pod_class.priority)
    levels = sorted({max(p) for p in priorities.values()}, reverse=True)
    return tuple(
        quality(
            {w: share for w, share in shares.items() if max(priorities[w]) == level},
            case.qos_targets,
            case.objective,
        )
        for level in levels
    )


class RuledOracle:
    """Exhaustive search over all choices of moves, in every order of execution."""

    def __init__(self, case):
        self.case, self.shot = case, case.snapshot
        self.edge = [n.name for n in self.shot.of_tier(Tier.EDGE)]
        self.cloud = [n.name for n in self.shot.of_tier(Tier.CLOUD)]
        self.fragmentation = Fragmentation(mix=request_mix(self.shot))

    def best(self):
        """Return the best reachable (QoS by priority, -legs, -fragmentation)."""

        @cache
        def qos(changes):
            shares = shares_after(self.shot.census.shares, changes)
            return by_priority(self.shot, shares, self.case)

        def worth(steps):
            return qos(list_changes(steps, self.edge)), -len(steps)

        ranked = sorted(((worth(steps), steps) for steps in self._choices()), key=_first)
        best = None
        for rank, same in groupby(reversed(ranked), key=_first):
            if best is not None and rank < best[:2]:
                break
            for _, steps in same:
                legs = self._legs(steps)
                found = rank[0], -(legs or 0), -self._fragmentation(steps)
                if legs is not None and (best is None or found > best):
                    best = found
        return best

    def _choices(self):
        movable = default_movable(self.shot)
        options = []
        for pod in self.shot.pods.values():
            source = pod.node_name
            targets = []
            if source is None:
                if not any(allowed(self.shot, pod, n) for n in (*self.edge, *self.cloud)):
                    targets = self.edge
            elif not movable(pod):
                targets = [n for n in self.edge if n != source]
                targets += [CLOUD] if source in self.edge else []
            if targets:
                options.append([(pod, source, target) for target in targets])
        most = min(self.case.limits.max_moves, len(options))
        for number in range(most + 1):
            for chosen in combinations(options, number):
                yield from filter(self._within, product(*chosen))

    def _kind(self, step):
        return kind_of(step, self.edge)

    def _within(self, steps):
        kinds = Counter(map(self._kind, steps))
        out = {step[0].workload for step in steps if self._kind(step) == "out"}
        come = {step[0].workload for step in steps if self._kind(step) in ("in", "placed")}
        return (
            kinds["in"] <= self.case.limits.max_cloud_to_edge
            and kinds["within"] <= self.case.limits.max_edge_reorder
            and not out & come
        )

    def _fragmentation(self, steps):
        free = free_after(self.shot.free, steps)
        return self.fragmentation.of(self.shot.of_tier(Tier.EDGE), free)

    def _legs(self, steps):
        """Return the legs that the steps need, one more with a stop-over; None if infeasible."""
        room = {name: self.shot.free[name] for name in self.cloud}
        if any(self._carried_out(self.shot, room, order) for order in permutations(steps)):
            return len(steps)
        for step in steps:
            if self._kind(step) != "within" or len(steps) == self.case.limits.max_moves:
                continue
            for name in self.cloud:
                pod = step[0]
                if not allowed(self.shot, pod, name):
                    continue
                parked = put(self.shot, pod, name)
                less = {**room, name: room[name] - pod.requests}
                if any(self._carried_out(parked, less, order) for order in permutations(steps)):
                    return len(steps) + 1
        return None

    def _carried_out(self, shot, room, order):
        """Return whether the steps are feasible in this order; `room` is the cloud's capacity."""
        if not order:
            return not broken(self.shot, shot)
        (pod, source, target), *rest = order
        if source in room:
            room = {**room, source: room[source] + pod.requests}
        if target != CLOUD:
            return allowed(shot, pod, target) and self._carried_out(
                put(shot, pod, target), room, rest
            )
        return any(
            allowed(shot, pod, name)
            and not shortages(pod.requests, room[name])
            and self._carried_out(
                put(shot, pod, name), {**room, name: room[name] - pod.requests}, rest
            )
            for name in self.cloud
        )


def _first(entry):
    return entry[0]


def stages(shot, suggestion):
    """Yield the snapshot before the moves, and after each group."""
    yield shot
    for _, group in groupby(suggestion.moves, key=lambda move: move.group):
        for move in group:
            shot = put(shot, move.pod, move.target)
        yield shot


def refusals(shot, suggestion, seed):
    """Execute the suggestion in a random permitted order; return the infeasible moves.

    Moves overlap at random: the new pod exists before the old one is gone.
    """
    rng = random.Random(seed)
    waiting, doubled, over, refused = list(suggestion.legs), {}, set(), []
    while waiting or doubled:
        ready = [leg for leg in waiting if leg.needs <= over]
        if ready and (not doubled or rng.random() < 0.6):
            leg = rng.choice(ready)
            waiting.remove(leg)
            pod = leg.move.pod
            assert shot.placed[pod.uid] == leg.source
            if not allowed(shot, pod, leg.target):
                refused.append(leg)
            old = attrs.evolve(pod, uid=f"{pod.uid} (old)")
            shot = put(put(shot, pod, leg.target), old, leg.source)
            doubled[leg.name] = old
        else:
            assert doubled, f"these wait for each other: {[leg.name for leg in waiting]}"
            name = rng.choice(sorted(doubled))
            shot = put(shot, doubled.pop(name), None)
            over.add(name)
    assert all(shot.placed[move.pod.uid] == move.target for move in suggestion.moves)
    return refused

"""Results of placing a batch pod by pod, over all orders and all choices of nodes."""

from collections import Counter, defaultdict

import attrs

from kubedsm.objective.objective import QosTarget
from kubedsm.plugins.feasibility import Feasibility
from support.literal_rules import literal_rule
from support.placement_literal import standing


def qos_targets(workload):
    return QosTarget(0.5 if workload.name.endswith("-0") else 1.0)


def best_of_all(snapshot, batch):
    """Return the best result over all orders and node choices, by exhaustive search."""
    found = {}

    def extend(feasibility, homes):
        key = frozenset(homes.items())
        if key in found:
            return
        found[key] = standing(snapshot, batch, homes, qos_targets)
        for p in batch:
            if p.uid not in homes:
                for name in feasibility.feasible(p):
                    extend(feasibility.with_pod(p, name), {**homes, p.uid: name})

    extend(Feasibility.of(snapshot), {})
    return max(found.values())


def most_served(snapshot, batch):
    """Return the most pods placed by priority, by exhaustive search over distinct pods."""
    kinds = defaultdict(list)
    for p in batch:
        kinds[p.pod_class, tuple(p.labels.items()), p.namespace].append(p)
    names = {p.uid: n for n, alike in enumerate(kinds.values()) for p in alike}
    known, best = set(), served_by(batch, ())

    def extend(feasibility, there):
        nonlocal best
        best = max(best, served_by(batch, [p for p, _ in there]))
        homes = {p.uid for p, _ in there}
        for alike in kinds.values():
            for p in [p for p in alike if p.uid not in homes][:1]:
                for name in feasibility.feasible(p):
                    with_it = [*there, (p, name)]
                    key = frozenset(Counter((names[q.uid], n) for q, n in with_it).items())
                    if key not in known:
                        known.add(key)
                        extend(feasibility.with_pod(p, name), with_it)

    extend(Feasibility.of(snapshot), [])
    return best


def served(batch, decision):
    return served_by(batch, [binding.pod for binding in decision.bindings])


def served_by(batch, placed):
    """Return the number of placed pods by priority, highest first."""
    found = Counter(p.pod_class.priority for p in placed)
    return [found[p] for p in sorted({p.pod_class.priority for p in batch}, reverse=True)]


def joined(shot, bindings):
    """Return the snapshot with these pods on their nodes."""
    free = dict(shot.free)
    for binding in bindings:
        free[binding.node] -= binding.pod.requests
    nodes = {binding.pod.uid: binding.node for binding in bindings}
    return attrs.evolve(shot, placed={**shot.placed, **nodes}, free=free)


def is_allowed(shot, bindings, binding):
    there = joined(shot, bindings)
    return literal_rule(there, binding.pod, shot.nodes[binding.node]) is None


def is_allowed_in_turn(shot, bindings):
    """Return whether each pod is allowed beside those before it."""
    return all(is_allowed(shot, bindings[:n], binding) for n, binding in enumerate(bindings))


def is_sound(shot, bindings):
    """Return whether each pod keeps its rules with all the others in place."""
    return all(
        is_allowed(shot, [other for other in bindings if other is not binding], binding)
        for binding in bindings
    )

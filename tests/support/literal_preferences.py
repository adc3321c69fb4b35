"""kube-scheduler's scoring of preferences in literal form: loops over nodes and pods."""

import math

from kubedsm.model.selectors import selects
from support.literal_fit import node_affinity, taint_toleration, term_selects
from support.literal_rules import meant, together

HOST = "kubernetes.io/hostname"


def literal_penalties(snapshot, pod, nodes):
    """Return each node's difference from the best preference score."""
    totals = [0] * len(nodes)
    for weight, scores in (
        (3, _taints(pod, nodes)),
        (2, _node_affinity(pod, nodes)),
        (2, _neighbours(snapshot, pod, nodes)),
        (2, _spread(snapshot, pod, nodes)),
    ):
        totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    return [max(totals) - total for total in totals] if totals else []


def _others(snapshot):
    return [
        (other, snapshot.nodes[snapshot.placed[other.uid]])
        for other in snapshot.pods.values()
        if other.uid in snapshot.placed and not other.finished
    ]


def _taints(pod, nodes):
    counts = [
        sum(
            taint.effect == "PreferNoSchedule"
            and not any(t.tolerates(taint) for t in pod.pod_class.rules.tolerations)
            for taint in node.taints
        )
        for node in nodes
    ]
    most = max(counts, default=0)
    return [100 - 100 * count // most if most else 100 for count in counts]


def _node_affinity(pod, nodes):
    raw = [
        sum(
            weight
            for weight, term in pod.pod_class.rules.preferences.node_affinity
            if term_selects(term, node.name, node.labels)
        )
        for node in nodes
    ]
    most = max(raw, default=0)
    return [100 * score // most if most else 0 for score in raw]


def _neighbours(snapshot, pod, nodes):
    raw = []
    own = pod.pod_class.rules.preferences
    for node in nodes:
        score = 0
        for other, at in _others(snapshot):
            theirs = other.pod_class.rules.preferences
            for weight, term, about in (
                *((w, t, other) for w, t in own.affinity),
                *((-w, t, other) for w, t in own.anti_affinity),
                *((w, t, pod) for w, t in theirs.affinity),
                *((-w, t, pod) for w, t in theirs.anti_affinity),
                *((1, t, pod) for t in other.pod_class.rules.affinity),
            ):
                if meant(snapshot, term, about) and together(term, node, at):
                    score += weight
        raw.append(score)
    least, most = min(raw, default=0), max(raw, default=0)
    return [int(100 * ((s - least) / (most - least))) if most > least else 0 for s in raw]


def _spread(snapshot, pod, nodes):
    constraints = pod.pod_class.rules.preferences.spread
    usable = [n for n in nodes if all(c.topology_key in n.labels for c in constraints)]
    if not constraints:
        return [100] * len(nodes)
    raw = {n.name: 0.0 for n in usable}
    for c in constraints:
        values = {n.labels[c.topology_key] for n in usable}
        size = len(usable) if c.topology_key == HOST else len(values)
        for node in usable:
            count = sum(
                _counts(pod, c, other)
                for other, at in _others(snapshot)
                if at.labels.get(c.topology_key) == node.labels[c.topology_key]
                and (
                    at.name == node.name if c.topology_key == HOST else _in(pod, c, at, constraints)
                )
            )
            raw[node.name] += count * math.log(size + 2) + c.max_skew - 1
    rounded = {name: math.floor(score + 0.5) for name, score in raw.items()}
    least, most = min(rounded.values(), default=0), max(rounded.values(), default=0)
    scores = {n: 100 * (most + least - s) // most if most else 100 for n, s in rounded.items()}
    return [scores.get(node.name, 0) for node in nodes]


def _counts(pod, constraint, other):
    return (
        constraint.selector != ()
        and not other.terminating
        and other.namespace == pod.namespace
        and selects(constraint.selector, other.labels)
    )


def _in(pod, constraint, at, constraints):
    return (
        all(c.topology_key in at.labels for c in constraints)
        and not (constraint.honor_affinity and node_affinity(pod.pod_class.rules, at))
        and not (constraint.honor_taints and taint_toleration(pod.pod_class.rules, at))
    )

"""Filter plugins and kube-scheduler's scoring of preferences in literal form: one pod, one node,
and loops over all other pods.
"""

import math

from kubedsm.model.model import EVERY_ADDRESS, Taint
from kubedsm.model.selectors import is_name_field, selects
from kubedsm.model.surroundings import Claim, CSINode, Volume
from kubedsm.plugins.fit import NO_TIER, TIER, shortages
from kubedsm.plugins.node_affinity import CONFLICT, NO_MATCH, NOT_NAMED, list_named_nodes
from kubedsm.plugins.plugin import Rejection
from kubedsm.plugins.taints import UNSCHEDULABLE

HOST = "kubernetes.io/hostname"
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


# Rules of a pod class and a node, whatever other pods there are: reasons, or an empty text


def _term_selects(term, name, labels):
    return (
        bool(term.expressions or term.fields)
        and selects(term.expressions, labels)
        and all(is_name_field(r) and r.accepts(name) for r in term.fields)
    )


def any_selects(terms, name, labels):
    return any(_term_selects(term, name, labels) for term in terms)


def _tolerates(rules, taint):
    return any(toleration.tolerates(taint) for toleration in rules.tolerations)


def taint_toleration(rules, node):
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _tolerates(rules, taint):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return ""


def node_affinity(rules, node):
    if any(node.labels.get(label) != value for label, value in rules.node_selector):
        return NO_MATCH
    terms = rules.node_affinity
    return "" if terms is None or any_selects(terms, node.name, node.labels) else NO_MATCH


def static_rejection(pod_class, node):
    """Return the first plugin, capacity aside, that rejects the node."""
    rules = pod_class.rules
    names = list_named_nodes(rules)
    if names is not None and node.name not in names:
        return Rejection("NodeAffinity", (NOT_NAMED if names else CONFLICT,), everywhere=not names)
    cordoned = node.unschedulable and not _tolerates(rules, _CORDONED)
    verdicts = {
        "NodeUnschedulable": UNSCHEDULABLE if cordoned else "",
        "TaintToleration": taint_toleration(rules, node),
        "NodeAffinity": node_affinity(rules, node),
        "Tier": "" if node.tier is not None else NO_TIER,
    }
    return next((Rejection(name, (why,)) for name, why in verdicts.items() if why), None)


def rejection(pod_class, node, free):
    rejected = static_rejection(pod_class, node)
    if rejected is None and (short := shortages(pod_class.requests, free)):
        rejected = Rejection("NodeResourcesFit", short)
    return rejected


def reasons(pod_class, node, free):
    rejected = rejection(pod_class, node, free)
    return rejected.reasons if rejected else ()


# Rules about other pods


def literal_rule(snapshot, pod, node):
    """Return the first rule (other than the tier's) that rejects the node; None if none does."""
    rejected = static_rejection(pod.pod_class, node)
    if rejected is not None and rejected.rule != TIER.name:
        return rejected.rule
    own, others = pod.pod_class.rules, _others(snapshot, but=pod)
    here = [other for other, at in others if at.name == node.name]
    rules = {
        "NodePorts": lambda: not any(_clash(pod, other) for other in here),
        "NodeResourcesFit": lambda: not shortages(pod.requests, snapshot.free[node.name]),
        "VolumeRestrictions": lambda: not _mounted_already(snapshot, pod, others),
        "NodeVolumeLimits": lambda: _attachable(snapshot, pod, node, here),
        "VolumeBinding": lambda: all(
            volume.nodes is None or any_selects(volume.nodes, node.name, node.labels)
            for volume in _volumes(snapshot, pod)
        ),
        "VolumeZone": lambda: (
            not any(key in node.labels for key in _ZONES)
            or all(
                node.labels.get(key) in volume.labels[key].split("__")
                for volume in _volumes(snapshot, pod)
                for key in _ZONES
                if key in volume.labels
            )
        ),
        "PodTopologySpread": lambda: all(_even(snapshot, pod, node, c, others) for c in own.spread),
        "InterPodAffinity": lambda: (
            _near_enough(snapshot, pod, node, others) and _far_enough(snapshot, pod, node, others)
        ),
    }
    return next((name for name, keeps in rules.items() if not keeps()), None)


def _others(snapshot, but=None):
    """Return the placed pods, except one, with their nodes."""
    return [
        (other, snapshot.nodes[snapshot.placed[uid]])
        for uid, other in snapshot.pods.items()
        if uid in snapshot.placed and not other.finished and (but is None or uid != but.uid)
    ]


def _meant(snapshot, term, pod):
    """Return whether an affinity term selects the pod."""
    named = pod.namespace in term.namespaces
    if not named:
        named = snapshot.surroundings.namespace_selected(term.namespace_selector, pod.namespace)
    return named and selects(term.selector, pod.labels)


def _together(term, node, at):
    """Return whether two nodes are in one topology domain of the term."""
    key = term.topology_key
    return key in node.labels and at.labels.get(key) == node.labels[key]


def _clash(pod, other):
    return any(
        (a.port, a.protocol) == (b.port, b.protocol)
        and (a.ip == b.ip or EVERY_ADDRESS in (a.ip, b.ip))
        for a in pod.pod_class.rules.ports
        for b in other.pod_class.rules.ports
    )


def _mounted_already(snapshot, pod, others):
    claims = snapshot.surroundings.of(Claim)
    mounted = {(c.namespace, c.name) for o, _ in others for c in o.pod_class.rules.claims}
    return any(
        claims[c.namespace, c.name].once_per_pod and (c.namespace, c.name) in mounted
        for c in pod.pod_class.rules.claims
    )


def _volumes(snapshot, pod):
    claims, volumes = map(snapshot.surroundings.of, (Claim, Volume))
    return [volumes[claims[c.namespace, c.name].volume,] for c in pod.pod_class.rules.claims]


def _attachable(snapshot, pod, node, here):
    csi_node = snapshot.surroundings.of(CSINode).get((node.name,))
    if csi_node is None:
        return True
    wanted, attached = (
        {volume.csi for each in pods for volume in _volumes(snapshot, each) if volume.csi}
        for pods in ([pod], here)
    )
    return all(
        sum(csi.driver == driver for csi in wanted | attached) <= most
        for driver, most in csi_node.limits.items()
        if any(csi.driver == driver for csi in wanted - attached)
    )


def _eligible(pod, constraint, node, constraints):
    """Return whether a spread constraint counts the node's pods."""
    return (
        all(each.topology_key in node.labels for each in constraints)
        and not (constraint.honor_affinity and node_affinity(pod.pod_class.rules, node))
        and not (constraint.honor_taints and taint_toleration(pod.pod_class.rules, node))
    )


def _counts(pod, constraint, other):
    return (
        constraint.selector != ()
        and not other.terminating
        and other.namespace == pod.namespace
        and selects(constraint.selector, other.labels)
    )


def _even(snapshot, pod, node, constraint, others):
    key, constraints = constraint.topology_key, pod.pod_class.rules.spread
    if key not in node.labels:
        return False
    eligible = {
        name: at.labels[key]
        for name, at in snapshot.nodes.items()
        if _eligible(pod, constraint, at, constraints)
    }
    matching = dict.fromkeys(eligible.values(), 0)
    for other, at in others:
        if at.name in eligible and _counts(pod, constraint, other):
            matching[eligible[at.name]] += 1
    least = min(matching.values()) if len(matching) >= constraint.min_domains else 0
    newcomer = 1 if selects(constraint.selector, pod.labels) else 0
    return matching.get(node.labels[key], 0) + newcomer - least <= constraint.max_skew


def _near_enough(snapshot, pod, node, others):
    terms = pod.pod_class.rules.affinity
    if not terms:
        return True
    friends = [(o, at) for o, at in others if all(_meant(snapshot, term, o) for term in terms)]
    if not all(term.topology_key in node.labels for term in terms):
        return False
    if all(any(_together(term, node, at) for _, at in friends) for term in terms):
        return True
    alone = not any(term.topology_key in at.labels for _, at in friends for term in terms)
    return alone and all(_meant(snapshot, term, pod) for term in terms)


def _far_enough(snapshot, pod, node, others):
    return not any(
        _together(term, node, at) and _meant(snapshot, term, shunned)
        for other, at in others
        for shunned, terms in (
            (other, pod.pod_class.rules.anti_affinity),
            (pod, other.pod_class.rules.anti_affinity),
        )
        for term in terms
    )


# Preferences


def literal_penalties(snapshot, pod, nodes):
    """Return each node's difference from the best preference score."""
    totals = [0] * len(nodes)
    for weight, scores in (
        (3, _prefer_no_taints(pod, nodes)),
        (2, _prefer_nodes(pod, nodes)),
        (2, _prefer_neighbours(snapshot, pod, nodes)),
        (2, _prefer_spread(snapshot, pod, nodes)),
    ):
        totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
    return [max(totals) - total for total in totals] if totals else []


def _prefer_no_taints(pod, nodes):
    counts = [
        sum(
            taint.effect == "PreferNoSchedule" and not _tolerates(pod.pod_class.rules, taint)
            for taint in node.taints
        )
        for node in nodes
    ]
    most = max(counts, default=0)
    return [100 - 100 * count // most if most else 100 for count in counts]


def _prefer_nodes(pod, nodes):
    preferences = pod.pod_class.rules.preferences.node_affinity
    raw = [
        sum(weight for weight, term in preferences if _term_selects(term, n.name, n.labels))
        for n in nodes
    ]
    most = max(raw, default=0)
    return [100 * score // most if most else 0 for score in raw]


def _prefer_neighbours(snapshot, pod, nodes):
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
                if _meant(snapshot, term, about) and _together(term, node, at):
                    score += weight
        raw.append(score)
    least, most = min(raw, default=0), max(raw, default=0)
    return [int(100 * ((s - least) / (most - least))) if most > least else 0 for s in raw]


def _prefer_spread(snapshot, pod, nodes):
    constraints = pod.pod_class.rules.preferences.spread
    if not constraints:
        return [100] * len(nodes)
    usable = [n for n in nodes if all(c.topology_key in n.labels for c in constraints)]
    raw = {n.name: 0.0 for n in usable}
    for c in constraints:
        by_host = c.topology_key == HOST
        size = len(usable if by_host else {n.labels[c.topology_key] for n in usable})
        for node in usable:
            count = sum(
                _counts(pod, c, other)
                for other, at in _others(snapshot)
                if at.labels.get(c.topology_key) == node.labels[c.topology_key]
                and (at.name == node.name if by_host else _eligible(pod, c, at, constraints))
            )
            raw[node.name] += count * math.log(size + 2) + c.max_skew - 1
    rounded = {name: math.floor(score + 0.5) for name, score in raw.items()}
    least, most = min(rounded.values(), default=0), max(rounded.values(), default=0)
    scores = {n: 100 * (most + least - s) // most if most else 100 for n, s in rounded.items()}
    return [scores.get(node.name, 0) for node in nodes]

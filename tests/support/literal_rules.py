"""Filter rules in literal form: one pod, one node, and a loop over all other pods."""

from collections.abc import Iterator, Sequence

from kubedsm.model.model import EVERY_ADDRESS, Node, Pod, PodAffinityTerm, SpreadConstraint
from kubedsm.model.selectors import selects
from kubedsm.model.snapshot import Snapshot
from kubedsm.model.surroundings import Volume
from kubedsm.plugins.fit import TIER, shortages
from support.literal_fit import any_selects, node_affinity, static_rejection, taint_toleration

_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

Others = Sequence[tuple[Pod, Node]]


def literal_rule(snapshot: Snapshot, pod: Pod, node: Node) -> str | None:
    """Return the first rule (other than the tier's) that rejects the node; None if none does."""
    rejected = static_rejection(pod.pod_class, node)
    if rejected is not None and rejected.rule != TIER.name:
        return rejected.rule
    others = [
        (other, snapshot.nodes[snapshot.placed[other.uid]])
        for other in snapshot.pods.values()
        if other.uid in snapshot.placed and not other.finished and other.uid != pod.uid
    ]
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
        "PodTopologySpread": lambda: all(
            _even(snapshot, pod, node, constraint, others)
            for constraint in pod.pod_class.rules.spread
        ),
        "InterPodAffinity": lambda: (
            _near_enough(snapshot, pod, node, others) and _far_enough(snapshot, pod, node, others)
        ),
    }
    return next((name for name, keeps in rules.items() if not keeps()), None)


def meant(snapshot: Snapshot, term: PodAffinityTerm, pod: Pod) -> bool:
    """Return whether an affinity term selects the pod."""
    named = pod.namespace in term.namespaces
    if not named:
        named = snapshot.surroundings.namespace_selected(term.namespace_selector, pod.namespace)
    return named and selects(term.selector, pod.labels)


def together(term: PodAffinityTerm, node: Node, at: Node) -> bool:
    """Return whether two nodes are in one topology domain of the term."""
    key = term.topology_key
    return key in node.labels and at.labels.get(key) == node.labels[key]


def _clash(pod: Pod, other: Pod) -> bool:
    return any(
        (a.port, a.protocol) == (b.port, b.protocol)
        and (a.ip == b.ip or EVERY_ADDRESS in (a.ip, b.ip))
        for a in pod.pod_class.rules.ports
        for b in other.pod_class.rules.ports
    )


def _mounted_already(snapshot: Snapshot, pod: Pod, others: Others) -> bool:
    claims = snapshot.surroundings.claims or {}
    mounted = {(c.namespace, c.name) for o, _ in others for c in o.pod_class.rules.claims}
    return any(
        claims[c.namespace, c.name].once_per_pod and (c.namespace, c.name) in mounted
        for c in pod.pod_class.rules.claims
    )


def _volumes(snapshot: Snapshot, pod: Pod) -> Iterator[Volume]:
    claims, volumes = snapshot.surroundings.claims or {}, snapshot.surroundings.volumes or {}
    for claim in pod.pod_class.rules.claims:
        yield volumes[claims[claim.namespace, claim.name].volume,]


def _attachable(snapshot: Snapshot, pod: Pod, node: Node, here: Sequence[Pod]) -> bool:
    csi_node = (snapshot.surroundings.csi_nodes or {}).get((node.name,))
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


def _even(
    snapshot: Snapshot, pod: Pod, node: Node, constraint: SpreadConstraint, others: Others
) -> bool:
    key = constraint.topology_key
    if key not in node.labels:
        return False
    keys = [other.topology_key for other in pod.pod_class.rules.spread]
    eligible = {
        candidate.name
        for candidate in snapshot.nodes.values()
        if all(each in candidate.labels for each in keys)
        and not (constraint.honor_affinity and node_affinity(pod.pod_class.rules, candidate))
        and not (constraint.honor_taints and taint_toleration(pod.pod_class.rules, candidate))
    }
    matching = {snapshot.nodes[name].labels[key]: 0 for name in eligible}
    for other, at in others:
        if (
            at.name in eligible
            and constraint.selector != ()
            and not other.terminating
            and other.namespace == pod.namespace
            and selects(constraint.selector, other.labels)
        ):
            matching[at.labels[key]] += 1
    least = min(matching.values()) if len(matching) >= constraint.min_domains else 0
    newcomer = 1 if selects(constraint.selector, pod.labels) else 0
    return matching.get(node.labels[key], 0) + newcomer - least <= constraint.max_skew


def _near_enough(snapshot: Snapshot, pod: Pod, node: Node, others: Others) -> bool:
    terms = pod.pod_class.rules.affinity
    if not terms:
        return True
    friends = [(o, at) for o, at in others if all(meant(snapshot, term, o) for term in terms)]
    if not all(term.topology_key in node.labels for term in terms):
        return False
    if all(any(together(term, node, at) for _, at in friends) for term in terms):
        return True
    alone = not any(term.topology_key in at.labels for _, at in friends for term in terms)
    return alone and all(meant(snapshot, term, pod) for term in terms)


def _far_enough(snapshot: Snapshot, pod: Pod, node: Node, others: Others) -> bool:
    return not any(
        together(term, node, at) and meant(snapshot, term, shunned)
        for other, at in others
        for shunned, terms in (
            (other, pod.pod_class.rules.anti_affinity),
            (pod, other.pod_class.rules.anti_affinity),
        )
        for term in terms
    )

"""A batch kept within the rules about other pods: ports, affinity, spread, volumes.

`match` knows what a class and a node say of each other. What pods say of each other is checked
afterwards, one binding after the other, each seeing those before it; a pod whose node refuses it
goes to another that takes it, the edge first, or stays out.
"""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from kubedsm.core.feasibility import Feasibility
from kubedsm.core.model import NodeName, Pod, Resources, Snapshot, Tier, Uid


@attrs.frozen(slots=True)
class Kept:
    #: pod and node, in the order given
    placed: tuple[tuple[Pod, NodeName], ...]
    #: why not, for every node, of those that no node takes any more
    refused: Mapping[Uid, Mapping[NodeName, tuple[str, ...]]]
    #: whether anything had to be changed
    changed: bool


def speaks_of_others(pod: Pod) -> bool:
    """Whether more than a class and a node decide about this pod, or about others beside it."""
    rules = pod.pod_class.rules
    return bool(
        rules.ports
        or rules.affinity
        or rules.anti_affinity
        or rules.spread
        or rules.claims
        or rules.disks
        or rules.resource_claims
    )


def keep_rules(
    snapshot: Snapshot, placed: Sequence[tuple[Pod, NodeName]], left_over: Iterable[Pod]
) -> Kept:
    """What of these placements the rules allow, after mending what they do not.

    Pods left over are only looked at for why they are: their reasons may be rules about others.
    """
    feasibility = Feasibility.of(snapshot)
    tier = {node.name: node.tier for node in snapshot.nodes.values()}
    free = dict(snapshot.free)
    kept: list[tuple[Pod, NodeName]] = []
    homeless: list[Pod] = []
    changed = False
    for pod, wanted in placed:
        node: NodeName | None = wanted
        if feasibility.rejection(pod, wanted) is not None:
            changed = True
            node = _another(feasibility, pod, tier, free)
        if node is None:
            homeless.append(pod)
            continue
        feasibility = feasibility.with_pod(pod, node)
        free[node] -= pod.requests
        kept.append((pod, node))
    refused = {
        pod.uid: {name: why.reasons for name, why in feasibility.rejections(pod).items()}
        for pod in (*homeless, *left_over)
    }
    return Kept(tuple(kept), refused, changed)


def _another(
    feasibility: Feasibility,
    pod: Pod,
    tier: Mapping[NodeName, Tier | None],
    free: Mapping[NodeName, Resources],
) -> NodeName | None:
    """The edge node with the least room to spare that takes the pod, or the roomiest other."""
    nodes = feasibility.feasible(pod)
    edge = [name for name in nodes if tier[name] is Tier.EDGE]
    if edge:
        return min(edge, key=lambda name: (free[name].cpu, free[name].memory, name))
    return min(nodes, key=lambda name: (-free[name].cpu, -free[name].memory, name), default=None)

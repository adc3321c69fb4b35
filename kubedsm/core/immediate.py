"""Algorithm 1: a batch of new pods is placed as one."""

from collections.abc import Iterable, Mapping

from kubedsm.core.decision import Binding, Decision, make_decision
from kubedsm.core.fit import reasons
from kubedsm.core.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.core.match import Bounds
from kubedsm.core.model import (
    NodeName,
    Pod,
    PodClass,
    Resources,
    Share,
    Snapshot,
    Tier,
    Uid,
    Workload,
)
from kubedsm.core.objective import Objective, Promises, quality
from kubedsm.core.packing import Packing, kinds, turn
from kubedsm.core.rule_keeping import keep_rules, speaks_of_others


def immediate_schedule(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    promises: Promises,
    objective: Objective,
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds | None = None,
) -> Decision:
    """Where these waiting pods of the snapshot go.

    The edge first, by QoS; what it leaves over to the cloud; a pod that fits nowhere stays out,
    with the reasons. No edge node, no cloud node and no node at all are nothing special. Equal
    inputs give equal decisions, whatever the order in which pods and nodes are listed.
    """
    batch = sorted(pods, key=turn)
    edge_nodes, cloud_nodes = snapshot.of_tier(Tier.EDGE), snapshot.of_tier(Tier.CLOUD)
    fragmentation = Fragmentation(measure, request_mix(snapshot))
    shares = snapshot.shares()
    measured = [vector for vector, _ in fragmentation.mix]
    batch_kinds = kinds(batch, [*edge_nodes, *cloud_nodes], snapshot.free)
    edge = Packing.of(batch_kinds, edge_nodes, snapshot.free, measured)
    cloud = Packing.of(batch_kinds, cloud_nodes, snapshot.free)
    choice = make_decision(
        edge, cloud, shares, promises, objective, fragmentation, bounds or Bounds()
    )
    placed = {
        pod.uid: Binding(pod, node, tier)
        for tier, targets in ((Tier.EDGE, choice.edge), (Tier.CLOUD, choice.cloud))
        for pod, node in targets
    }
    bindings = tuple(placed[pod.uid] for pod in batch if pod.uid in placed)
    left_over = [pod for pod in batch if pod.uid not in placed]
    proven = choice.proven
    costs = int(fragmentation.costs(edge.axes, edge.allocatable, choice.edge_room).sum())
    if any(speaks_of_others(pod) for pod in (*batch, *snapshot.pods.values())):
        kept = keep_rules(snapshot, [(b.pod, b.node) for b in bindings], left_over)
        bindings = tuple(
            Binding(pod, node, tier)
            for pod, node in kept.placed
            if (tier := snapshot.nodes[node].tier) is not None
        )
        unplaced = kept.refused
        if kept.changed:
            proven = False
            costs = fragmentation.of(edge_nodes, _room_after(snapshot, bindings))
    else:
        unplaced = _why_not(snapshot, bindings, left_over)
    after = _shares_after(shares, bindings)
    return Decision(
        bindings=bindings,
        unplaced=unplaced,
        score_before=quality(shares, promises, objective),
        score_after=quality(after, promises, objective),
        fragmentation=costs,
        proven=proven,
        shares_before=shares,
        shares_after=after,
    )


def _room_after(snapshot: Snapshot, bindings: Iterable[Binding]) -> dict[NodeName, Resources]:
    free = dict(snapshot.free)
    for binding in bindings:
        free[binding.node] -= binding.pod.requests
    return free


def _shares_after(
    shares: Mapping[Workload, Share], bindings: Iterable[Binding]
) -> dict[Workload, Share]:
    after = dict(shares)
    for binding in bindings:
        workload = binding.pod.workload
        if binding.tier is Tier.EDGE and workload in after:
            share = after[workload]
            after[workload] = Share(share.edge + 1, share.total)
    return after


def _why_not(
    snapshot: Snapshot, bindings: Iterable[Binding], unplaced: Iterable[Pod]
) -> dict[Uid, Mapping[NodeName, tuple[str, ...]]]:
    free = _room_after(snapshot, bindings)
    known: dict[PodClass, Mapping[NodeName, tuple[str, ...]]] = {}
    answers: dict[Uid, Mapping[NodeName, tuple[str, ...]]] = {}
    for pod in unplaced:
        if pod.pod_class not in known:
            known[pod.pod_class] = {
                name: reasons(pod.pod_class, snapshot.nodes[name], free[name])
                for name in sorted(snapshot.nodes)
            }
        answers[pod.uid] = known[pod.pod_class]
    return answers

"""Algorithm 1: a batch of new pods is placed as one."""

import math
from collections.abc import Iterable, Sequence

import attrs

from kubedsm.core.goals.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.core.goals.objective import Objective, Promises
from kubedsm.core.goals.replica_spread import ReplicaSpread
from kubedsm.core.packing.match import Bounds
from kubedsm.core.placing.batch import Batch, others
from kubedsm.core.placing.batch_kinds import is_plain
from kubedsm.core.placing.cloud_window import WHOLE_CLOUD, Sampling
from kubedsm.core.placing.decision import Decision
from kubedsm.core.placing.ranks import ranks_of
from kubedsm.core.placing.ruled import decide_ruled
from kubedsm.core.world.model import Pod
from kubedsm.core.world.serving_order import serving_order
from kubedsm.core.world.snapshot import Snapshot


def immediate_schedule(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    promises: Promises,
    objective: Objective,
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds | None = None,
    patience: float = math.inf,
    *,
    default_spread: bool = True,
    sampling: Sampling = WHOLE_CLOUD,
) -> Decision:
    """Where these waiting pods of the snapshot go.

    The edge first, by QoS; what it leaves over to the cloud; a pod that fits nowhere stays out,
    with the reasons. No edge node, no cloud node and no node at all are nothing special. Equal
    inputs give equal decisions, whatever the order in which pods and nodes are listed.

    With several priorities among the pods, no pod stays out for one of lower priority, and the QoS
    of the workloads of a higher level comes before that of a lower one; the level of a workload is
    the greatest priority of its pods in the batch. Among pods of one priority those come first that
    have waited for longer than `patience`, in seconds.

    default_spread: whether the replicas of a workload go as far apart as costs no QoS.
    sampling: how much of the cloud is enough for pods of which a class and a node say all; rules
    and wishes about other pods, and preferences, are about all nodes.
    """
    ordered = sorted(pods, key=serving_order)
    placeable: list[Pod] = []
    set_aside: list[Pod] = []
    for pod in ordered:
        (set_aside if pod.requests.beyond_any_node else placeable).append(pod)
    batch = Batch(
        snapshot,
        placeable,
        snapshot.shares(),
        promises,
        objective,
        Fragmentation(measure, request_mix(snapshot)),
        bounds or Bounds(),
        ranks_of(placeable, snapshot.at, patience),
        ReplicaSpread.of(snapshot, {pod.workload for pod in placeable}) if default_spread else None,
        sampling,
    )
    if is_plain(snapshot, placeable):
        return _plain(batch, ordered)
    return decide_ruled(batch, set_aside)


def _plain(batch: Batch, ordered: Sequence[Pod]) -> Decision:
    """Of pods whose classes, with each node by itself, say all there is to say."""
    choice = batch.alone(batch.pods[0]) if len(batch.pods) == 1 else batch.plain_choice()
    bindings = batch.bindings(choice)
    unplaced = batch.why_not(bindings, others(ordered, bindings))
    proof = choice.proof.or_else(batch.plain_proof(bindings))
    if choice.looked_at is not None:
        proof = attrs.evolve(proof, spread=False, fragmentation=False)
    decision = batch.decision(bindings, unplaced, choice.fragmentation, proof)
    certificates = batch.certificates(bindings, choice, proof)
    return attrs.evolve(decision, plain=True, looked_at=choice.looked_at, certificates=certificates)

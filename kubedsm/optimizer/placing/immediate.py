"""Algorithm 1: a batch of new pods is placed as one."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs

from kubedsm.model.model import Pod
from kubedsm.model.serving_order import serving_order
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.objective.objective import Objective, Promises
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.placing.batch import Batch, others
from kubedsm.optimizer.placing.batch_kinds import is_plain
from kubedsm.optimizer.placing.cloud_window import WHOLE_CLOUD, Sampling
from kubedsm.optimizer.placing.decision import Decision, room_after
from kubedsm.optimizer.placing.one_at_a_time import place_one_at_a_time
from kubedsm.optimizer.placing.proof import NO_PROOF
from kubedsm.optimizer.placing.ranks import ranks_of
from kubedsm.optimizer.placing.ruled import decide_ruled
from kubedsm.plugins.feasibility import Feasibility

#: Pods with rules about other pods that one batch decides on: more take seconds at any deadline.
MOST_RULED = 1000


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

    At every deadline, the pods placed and then their QoS are at least what one pod at a time comes
    to. Of more than `MOST_RULED` pods with rules about others the rest is `late`: undecided, for
    the next batch.

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
    plain = is_plain(snapshot, placeable)
    now = placeable if plain else _first_of_each_namespace(placeable, MOST_RULED)
    batch = Batch(
        snapshot,
        now,
        snapshot.shares(),
        promises,
        objective,
        Fragmentation(measure, request_mix(snapshot)),
        bounds or Bounds(),
        ranks_of(now, snapshot.at, patience),
        ReplicaSpread.of(snapshot, {pod.workload for pod in now}) if default_spread else None,
        sampling,
    )
    if plain:
        return _plain(batch, ordered)
    decision = decide_ruled(batch, set_aside)
    if len(now) == len(placeable):
        return decision
    taken = {pod.uid for pod in now}
    late = tuple(pod for pod in placeable if pod.uid not in taken)
    return attrs.evolve(decision, late=late, proof=NO_PROOF)


def _plain(batch: Batch, ordered: Sequence[Pod]) -> Decision:
    """Of pods whose classes, with each node by itself, say all there is to say."""
    choice = batch.alone(batch.pods[0]) if len(batch.pods) == 1 else batch.plain_choice()
    bindings, looked_at = batch.bindings(choice), choice.looked_at
    fragmentation = choice.fragmentation
    proof = choice.proof.or_else(batch.plain_proof(bindings))
    if looked_at is not None:
        proof = attrs.evolve(proof, spread=False, fragmentation=False)
    if not (proof.placed and proof.qos):
        one_at_a_time = place_one_at_a_time(batch, Feasibility.of(batch.snapshot))
        floor = batch.bindings_at(one_at_a_time.placed.values())
        if batch.standing(floor) > batch.standing(bindings):
            bindings, looked_at, proof = floor, None, batch.plain_proof(floor)
            room = room_after(batch.snapshot.free, floor)
            fragmentation = batch.fragmentation.of(batch.edge.nodes, room)
    unplaced = batch.why_not(bindings, others(ordered, bindings))
    decision = batch.decision(bindings, unplaced, fragmentation, proof)
    certificates = batch.certificates(bindings, choice, proof)
    return attrs.evolve(decision, plain=True, looked_at=looked_at, certificates=certificates)


def _first_of_each_namespace(pods: Iterable[Pod], most: int) -> list[Pod]:
    """Return up to `most` pods by priority, then of one namespace after the other in turn.

    Pods that have waited for long do not go first, since these may be the expensive ones.
    """
    served: Counter[tuple[int, str]] = Counter()
    rounds: list[tuple[int, int, Pod]] = []
    for pod in sorted(pods, key=serving_order):
        priority = pod.pod_class.priority
        served[priority, pod.namespace] += 1
        rounds.append((-priority, served[priority, pod.namespace], pod))
    chosen = [pod for _, _, pod in sorted(rounds, key=lambda entry: entry[:2])]
    return sorted(chosen[:most], key=serving_order)

"""Immediate scheduler: Algorithm 1 (`immediateSchedule`), which places a batch of pending pods."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import attrs
import numpy as np

from kubedsm.model.model import NodeName, Pod, PodClass, Tier, Uid, levels_of, serving_order
from kubedsm.model.node_index import NodeRows
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.fragmentation import Fragmentation, Ints, Measure, axes_of, request_mix, rows
from kubedsm.objective.objective import Objective, QosTargets
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.optimizer.matching.match import Bounds
from kubedsm.optimizer.matching.problem import Rank, is_plain
from kubedsm.optimizer.placing.batch import Batch, without_binding
from kubedsm.optimizer.placing.cloud import Sampling
from kubedsm.optimizer.placing.decision import Decision
from kubedsm.optimizer.placing.ruled import decide_ruled
from kubedsm.optimizer.placing.settling import place_one_at_a_time
from kubedsm.optimizer.placing.site_columns import list_wanted_sites
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate
from kubedsm.plugins.feasibility import Feasibility, Rejection
from kubedsm.plugins.plugins import fitting_nodes


def rank_pods(
    batch: Sequence[Pod],
    now: float,
    patience: float,
    is_placeable: Callable[[Pod], bool] = lambda _: True,
) -> Mapping[Uid, Rank]:
    """Return the scheduling rank (priority, priority level of the workload, precedence by age) of
    each pod; empty if all are equal.

    Of the placeable pods of a priority that are pending for longer than `patience` seconds, the
    oldest precedes all others. So no pod starves, and age takes places from one pod per batch only.
    """
    now = max([now, *(pod.created for pod in batch)])
    levels = levels_of((pod.workload, pod.pod_class.priority) for pod in batch)
    overdue: dict[int, list[Pod]] = {}
    for pod in batch:
        if pod.created and now - pod.created > patience:
            overdue.setdefault(pod.pod_class.priority, []).append(pod)
    oldest = {
        next((p.uid for p in sorted(pods, key=serving_order) if is_placeable(p)), None)
        for pods in overdue.values()
    } - {None}
    if levels is None and not oldest:
        return {}
    levels = levels or {}
    return {
        pod.uid: Rank(pod.pod_class.priority, levels.get(pod.workload, 0), int(pod.uid in oldest))
        for pod in batch
    }


def _test_placeable(snapshot: Snapshot, *, plain: bool) -> Callable[[Pod], bool]:
    """Return a cached function that tells whether any node takes a pod alone."""
    if plain:
        takes = cache(lambda each: bool(fitting_nodes(each, snapshot.index, snapshot.room).any()))
        return lambda pod: takes(pod.pod_class)
    feasibility = Feasibility.of(snapshot)
    return lambda pod: bool(feasibility.taking(pod).any())


#: most classes: more would take longer than the batch window
_CLASSES = 8


def is_uncontended(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    batch: int,
    qos_targets: QosTargets | None = None,
    site_labels: tuple[str, ...] = (),
) -> bool:
    """Determine whether pending pods can be placed now, without competition from later pods.

    All pods find sufficient capacity on the edge, for up to `batch` pods; or the edge cannot hold
    the pods, and the cloud has sufficient capacity. Replicas of a single workload are
    interchangeable as well.

    qos_targets: with demand by site, capacity must be sufficient at each site of the users; None:
    the edge is one pool.
    """
    classes = [c for c in {pod.pod_class for pod in pods} if not c.requests.beyond_any_node]
    if len(classes) > _CLASSES or not is_plain(snapshot, pods):
        return False
    if not classes:
        return True
    if len(classes) == len(snapshot.census.shares) == len(snapshot.census.requests) == 1:
        return True
    axes = axes_of([pod_class.requests for pod_class in classes])
    requests = rows([pod_class.requests for pod_class in classes], axes)
    # Number of pods of each class that one other pod can displace.
    displaced = np.ceil(requests.max(axis=0) / np.maximum(requests, 1))
    needed = batch * np.where(requests > 0, displaced, 1).max(axis=1)
    edge, cloud = (
        np.array([_count_places(pod_class, snapshot.in_turn(tier)).sum() for pod_class in classes])
        for tier in (Tier.EDGE, Tier.CLOUD)
    )
    if qos_targets is not None:
        sites = snapshot.index.site(site_labels)
        for number, pod_class in enumerate(classes):
            workloads = {pod.workload for pod in pods if pod.pod_class == pod_class}
            wanted = list_wanted_sites(workloads, qos_targets, sites)
            found = _count_places(pod_class, snapshot.in_turn(Tier.EDGE))
            at_site = np.bincount(sites.codes, found, len(sites.values))
            places = [at_site[code] for code, site in enumerate(sites.values) if site in wanted]
            if edge[number] and min(places, default=needed[number]) < needed[number]:
                return False
    return bool(np.all((edge >= needed) | ((edge == 0) & (cloud >= needed))))


def _count_places(pod_class: PodClass, nodes: NodeRows) -> Ints:
    """Return how many pods with identical requests fit on each node of the index if no other pods
    arrive.
    """
    requests = {name: amount for name, amount in pod_class.requests.items() if amount}
    fitting = nodes.only(fitting_nodes(pod_class, nodes.index, nodes.room))
    free = fitting.free(tuple(requests))
    places = np.zeros(len(nodes.index), dtype=np.int64)
    asked = np.array(list(requests.values()), dtype=np.int64)
    places[fitting.positions] = (free // asked).min(axis=1)
    return places


#: Most pods with constraints between pods in one batch: more take seconds.
MOST_RULED = 1000


def immediate_schedule(
    snapshot: Snapshot,
    pods: Iterable[Pod],
    qos_targets: QosTargets,
    objective: Objective,
    measure: Measure = Measure.UNUSABLE,
    bounds: Bounds | None = None,
    patience: float = math.inf,
    *,
    default_spread: bool = True,
    sampling: Sampling | None = None,
    site_labels: tuple[str, ...] = (),
) -> Decision:
    """Decide on the nodes of pending pods (Algorithm 1, `immediateSchedule`).

    Pods go to the edge by QoS, and otherwise to the cloud. Pods fitting nowhere are unschedulable,
    with the rejection of each node. Identical inputs give identical decisions, irrespective of the
    order of pods and nodes. At any deadline, placed pods and then QoS are no worse than scheduling
    one pod at a time. Above `MOST_RULED` pods with constraints between pods, the remainder is
    `late`.
    No pod is unplaced in favour of a pod of lower priority. Workloads of a higher level come
    first:
    the greatest priority of their pods in the batch.

    patience: seconds pending before the oldest placeable pod of its priority takes precedence.
    default_spread: whether replicas are spread without loss of QoS.
    sampling: part of the cloud examined for pods without constraints between pods; None: all
    nodes.
    site_labels: labels of edge nodes that name their site, for workloads with demand by site.
    """
    ordered = sorted(pods, key=serving_order)
    placeable = [pod for pod in ordered if not pod.requests.beyond_any_node]
    plain = is_plain(snapshot, placeable)
    now = placeable if plain else _first_of_each_namespace(placeable, MOST_RULED)
    workloads = {pod.workload for pod in now}
    batch = Batch(
        snapshot,
        now,
        snapshot.census.shares,
        qos_targets,
        objective,
        Fragmentation(measure, request_mix(snapshot)),
        bounds or Bounds(),
        rank_pods(now, snapshot.at, patience, _test_placeable(snapshot, plain=plain))
        if len(now) > 1
        else {},
        ReplicaSpread.of(snapshot, workloads) if default_spread else None,
        sampling,
        snapshot.in_turn(Tier.EDGE, pods=now),
        snapshot.in_turn(Tier.CLOUD, pods=now),
        snapshot.index.site(site_labels)
        if any(qos_targets(workload).demand is not None for workload in workloads)
        else None,
    )
    if plain:
        return _decide_plain(batch, ordered)
    decision = decide_ruled(batch, [pod for pod in ordered if pod.requests.beyond_any_node])
    if len(now) == len(placeable):
        return decision
    taken = {pod.uid for pod in now}
    late = tuple(pod for pod in placeable if pod.uid not in taken)
    return attrs.evolve(decision, late=late, proof=NO_PROOF)


def _decide_plain(batch: Batch, ordered: Sequence[Pod]) -> Decision:
    """Decide on a batch of pods without affinity, spread or other rules between pods."""
    choice = batch.alone(batch.pods[0]) if len(batch.pods) == 1 else batch.plain_choice()
    bindings, looked_at, proof = batch.bindings(choice), choice.looked_at, choice.proof
    if not proof.whole:
        proof = proof.or_else(batch.plain_proof(bindings))
    if looked_at is not None:
        proof = attrs.evolve(proof, spread=False, fragmentation=False)
    if not (proof.placed and proof.qos):
        one_at_a_time = place_one_at_a_time(batch, Feasibility.of(batch.snapshot))
        floor = batch.bindings_at(one_at_a_time.placed.values())
        if batch.standing(floor) > batch.standing(bindings):
            bindings, looked_at, proof = floor, None, batch.plain_proof(floor)
    unplaced: Mapping[Uid, Mapping[NodeName, Rejection]] = {}
    if len(bindings) < len(ordered):
        unplaced = batch.why_not(bindings, without_binding(ordered, bindings))
    decision = batch.decision(bindings, unplaced, proof)
    certificates: tuple[Certificate, ...] = ()
    if not (proof.placed and proof.qos):
        certificates = batch.certificates(bindings, choice, proof)
    return attrs.evolve(decision, plain=True, looked_at=looked_at, certificates=certificates)


def _first_of_each_namespace(pods: Iterable[Pod], most: int) -> list[Pod]:
    """Return up to `most` pods for a batch: by priority, then in rotation over namespaces."""
    served: Counter[tuple[int, str]] = Counter()
    rounds: list[tuple[int, int, Pod]] = []
    for pod in sorted(pods, key=serving_order):
        priority = pod.pod_class.priority
        served[priority, pod.namespace] += 1
        rounds.append((-priority, served[priority, pod.namespace], pod))
    chosen = [pod for _, _, pod in sorted(rounds, key=lambda entry: entry[:2])]
    return sorted(chosen[:most], key=serving_order)

"""Eligibility of running pods for migration, determined from the cluster snapshot alone."""

from collections.abc import Callable, Container

from kubedsm.model.model import MIGRATING_LABEL, NodeName, Pod, Tier, Uid, Workload
from kubedsm.model.residents import Selection
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import QosTargets
from kubedsm.objective.qos_targets import is_capped
from kubedsm.optimizer.matching.problem import is_plain
from kubedsm.optimizer.moving.suggestion import Cause, Reason

#: Return the reason why a pod must stay; None if it may be migrated.
Movable = Callable[[Pod], Reason | None]

#: Owners whose migrations are known. Others create no replacement on another node, restart
#: computations, or cannot be read before a migration, as custom resources.
_MIGRATED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})

#: in the order of the checks
_CAUSES = (
    Cause.OF_ANOTHER_SCHEDULER,
    Cause.FINISHED,
    Cause.TERMINATING,
    Cause.NAMESPACE_TERMINATING,
    Cause.DETACHED,
    Cause.MARKED,
    Cause.GATED,
    Cause.ON_NO_NODE,
    Cause.BEYOND_ANY_NODE,
    Cause.ON_NO_TIER,
    Cause.NOT_RUNNING,
    Cause.NOT_READY,
)


def default_movable(snapshot: Snapshot) -> Movable:
    """Return a function from pods to the reason why a pod must not be migrated, or None.

    Eligible pods are ready, opted in, and have a controller creating replacements on any node.
    """

    nodes, placed, name = snapshot.nodes, snapshot.placed, snapshot.scheduler_name
    ending = snapshot.surroundings.terminating_namespaces

    def reason(pod: Pod) -> Reason | None:
        if pod.pinned:
            return Cause.PINNED.of(pod.pinned)
        if pod.workload.kind not in _MIGRATED and pod.scheduler_name == name:
            return Cause.NOT_REPLACED.of(pod.workload.kind)
        node = nodes.get(placed.get(pod.uid, NodeName("")))
        # Evaluated for every pod, mostly without a reason: no intermediate values.
        found = (
            pod.scheduler_name != name,
            pod.finished,
            pod.terminating,
            pod.namespace in ending,
            pod.detached,
            MIGRATING_LABEL in pod.labels,
            pod.gated,
            pod.node_name is None,
            pod.requests.beyond_any_node,
            node is None or node.tier is None,
            pod.phase != "Running",
            not pod.ready,
        )
        if True in found:
            return _CAUSES[found.index(True)].of()
        return find_volume_reason(pod, snapshot) if pod.pod_class.rules.claims else None

    return reason


def join_movable(first: Movable, then: Movable) -> Movable:
    """Return a function that asks both, and each once about a pod: every part of a search asks
    about all pods.
    """
    known: dict[Uid, Reason | None] = {}

    def reason(pod: Pod) -> Reason | None:
        if pod.uid not in known:
            known[pod.uid] = first(pod) or then(pod)
        return known[pod.uid]

    return reason


def find_volume_reason(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """Return the reason against the migration of a pod with volumes, or None.

    A volume of K3s' local-path provisioner is on one node's disk. A volume that other pods use at
    the same time cannot follow one of them, unless several nodes can mount it.
    """
    keys, mounted = pod.pod_class.rules.claim_keys, snapshot.residents.claims
    used = [key for key in keys if sum(mounted.get(key, {}).values()) > 1]
    if claim := snapshot.surroundings.find_unshared(used):
        return Cause.CLAIM_NOT_SHARED.of(claim)
    for volume in snapshot.surroundings.volumes_at(keys):
        if volume.nodes is not None and snapshot.index.match_terms(volume.nodes).sum() <= 1:
            return Cause.LOCAL_VOLUME.of(volume.name)
    return None


def reject_sited(sited: Container[Workload], movable: Movable) -> Movable:
    """Extend a function that says why a pod must not migrate: also reject pods placed by users'
    site, which `site_moves` migrates.
    """

    def reason(pod: Pod) -> Reason | None:
        why = movable(pod)
        # A stranded pod may get capacity anywhere.
        placed = why is None and pod.node_name is not None
        return Cause.BY_SITE.of() if placed and pod.workload in sited else why

    return reason


def reject_capped(snapshot: Snapshot, qos_targets: QosTargets, movable: Movable) -> Movable:
    """Extend a function that says why a pod must not migrate: also reject cloud pods of workloads
    with a cap on edge pods.
    """
    shares = snapshot.census.shares
    capped = {workload for workload in shares if is_capped(qos_targets, workload)}
    if not capped:
        return movable

    def reason(pod: Pod) -> Reason | None:
        why = movable(pod)
        if why is None and pod.workload in capped:
            node = snapshot.nodes.get(snapshot.placed.get(pod.uid, NodeName("")))
            if node is not None and node.tier is Tier.CLOUD:
                return Cause.EDGE_SLOWER.of()
        return why

    return reason


def is_ruled(snapshot: Snapshot, pod: Pod) -> bool:
    """Return True if rules between pods concern the pod, its own or those of any other pod:
    migrations next to its own may violate them.
    """
    if not is_plain(snapshot, [pod]):
        return True
    constraints = {term for of_class in snapshot.census.classes for term in of_class.rules.spread}
    return any(
        Selection.of_spread(term).covers(pod.namespace, pod.labels, snapshot.surroundings)
        for term in constraints
    )

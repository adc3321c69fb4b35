"""Overview of a running installation: health, leader, edge, services, migrations, waiting pods."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Any

import attrs

from kubedsm.config.current import CurrentConfiguration
from kubedsm.config.mismatches import missing_tiers
from kubedsm.execution.deferrals import Deferrals
from kubedsm.explain.node import node_state
from kubedsm.inspection.gathering import ClusterState, Part
from kubedsm.kube.calls.inspection import DetachedPod
from kubedsm.model.model import Workload
from kubedsm.model.sites import Away
from kubedsm.observability.health_rules import (
    PATIENCE,
    EdgeCapacity,
    EdgeShare,
    HealthFacts,
    HealthReport,
    assess_health,
)

PARTS: tuple[Part, ...] = (
    "user",
    "configuration",
    "lease",
    "snapshot",
    "waiting",
    "detached",
    "scheduler",
    "begun",
)
_UNTRIED = "no attempt yet"


@attrs.frozen
class Scope:
    """Restriction of the services, migrations and pending pods listed by `kubedsm status`; health
    is never restricted.
    """

    namespace: str | None = None
    #: uids of the pods that match a label selector
    selected: Collection[str] | None = None

    def has_pod(self, namespace: str, uid: str) -> bool:
        is_selected = self.selected is None or uid in self.selected
        return is_selected and self.namespace in (None, namespace)


@attrs.frozen
class Overview:
    state: ClusterState
    facts: HealthFacts
    health: HealthReport
    #: workloads below their QoS target, the worst first; number of all
    below: tuple[EdgeShare, ...]
    services: int
    migrations: tuple[DetachedPod, ...]
    #: waiting pods, and workloads whose migrations are deferred, by the reason
    waiting: dict[str, list[str]]
    deferred: dict[str, list[str]]

    def as_json(self) -> dict[str, Any]:
        """Return the document of `kubedsm status -o json`."""
        state, edge = self.state, self.facts.edge
        process = state.scheduler
        return {
            "state": self.health.state,
            "problems": [attrs.asdict(problem) for problem in self.health.problems],
            "leader": state.leader or None,
            "leaseAgeSeconds": None if state.lease_age is None else round(state.lease_age, 1),
            "versions": {
                "client": state.client,
                "scheduler": (process.version if process else "") or None,
                "apiServer": state.version,
            },
            "edge": {
                "nodes": edge.nodes,
                "cpu": {"allocatable": edge.cpu / 1000, "free": edge.cpu_free / 1000},
                "memory": {"allocatable": edge.memory, "free": edge.memory_free},
            },
            "services": self.services,
            "edgeShareDeviation": self.facts.share_deviation,
            "belowTarget": [
                {
                    "workload": share.workload,
                    "kind": share.kind,
                    "edge": share.edge,
                    "pods": share.total,
                    "target": share.qos,
                    "missing": share.missing,
                    "waiting": share.waiting,
                }
                for share in self.below
            ],
            "migrations": [
                {"pod": str(pod), "from": pod.source, "to": pod.target, "since": pod.since}
                for pod in self.migrations
            ],
            "waiting": [{"reason": why, "pods": of} for why, of in self.waiting.items()],
            "deferred": [{"reason": why, "workloads": of} for why, of in self.deferred.items()],
            "notRead": dict(state.errors),
        }


def summarise(state: ClusterState, scope: Scope) -> Overview:
    """Derive the overview of `kubedsm status` from the gathered cluster state."""
    snapshot, waiting = state.snapshot, state.own_waiting
    away = Away.from_snapshot(snapshot, state.configuration.site.label)
    lost = {node.name: node_state(node, away) for node in snapshot.nodes.values()}
    process = state.scheduler
    facts = HealthFacts(
        has_leader=state.is_led or "lease" in state.errors,
        refusal=state.refusal,
        watches=dict.fromkeys(process.troubled, "its watch fails") if process else {},
        tiers=[] if "snapshot" in state.errors else _list_missing_tiers(state),
        partitioned={site: sorted(names) for site, names in away.partitioned.items()},
        lost_nodes={
            each: sorted(name for name, is_state in lost.items() if is_state == each)
            for each in ("unreachable", "not ready")
        },
        waiting={
            str(pod): pod.message
            for pod in waiting
            if pod.message and state.now - pod.created > PATIENCE
        },
        shares=list(_list_shares(state)),
        edge=EdgeCapacity.of(snapshot, away),
    )
    groups = defaultdict[str, list[str]](list)
    for pod in waiting:
        if scope.has_pod(pod.namespace, pod.uid):
            groups[pod.message or _UNTRIED].append(str(pod))
    scoped = _list_scoped(state, scope)
    # Workloads of several kinds may have one name.
    known = {(workload.kind, str(workload)) for workload in scoped}
    listed = [share for share in facts.below_target if (share.kind, share.workload) in known]
    return Overview(
        state,
        facts,
        assess_health(facts),
        tuple(listed),
        len(scoped),
        tuple(p for p in state.detached if p.target and scope.has_pod(p.namespace, p.uid)),
        dict(sorted(groups.items(), key=lambda group: -len(group[1]))),
        _group_deferred(state, scoped),
    )


def _group_deferred(state: ClusterState, workloads: set[Workload]) -> dict[str, list[str]]:
    """Return the workloads whose migrations may not begin now, by the reason."""
    deferrals = Deferrals(CurrentConfiguration(state.configuration), lambda: state.now)
    deferrals.restore(state.begun)
    groups = defaultdict[str, list[str]](list)
    for workload, deferral in deferrals.list_deferred(sorted(workloads, key=str)).items():
        groups[str(deferral)].append(str(workload))
    return dict(groups)


def _list_scoped(state: ClusterState, scope: Scope) -> set[Workload]:
    pods = (pod for pod in state.own_pods if pod.counts_for_qos)
    return {pod.workload for pod in pods if scope.has_pod(pod.namespace, pod.uid)}


def _list_shares(state: ClusterState) -> Iterator[EdgeShare]:
    snapshot, process = state.snapshot, state.scheduler
    targets = state.configuration.policy.qos_targets_in(snapshot)
    counting = (pod for pod in state.own_pods if pod.counts_for_qos and pod.waits_for_node)
    waiting = Counter(pod.workload for pod in counting)
    # The scheduler's targets may follow measured response times.
    measured = process.targets if process else {}
    for workload, share in snapshot.census.shares.items():
        target = targets(workload)
        target = attrs.evolve(target, qos=measured.get(workload, target.qos))
        missing = max(0, target.count_wanted(share.total) - share.edge)
        name, pending, qos = str(workload), waiting[workload], target.qos
        yield EdgeShare(name, share.edge, share.total, pending, qos, missing, workload.kind)


def _list_missing_tiers(state: ClusterState) -> list[str]:
    nodes = state.snapshot.nodes.values()
    missing = missing_tiers(nodes, state.configuration.tiers).values()
    return [text.partition(": ")[0] for text in missing]

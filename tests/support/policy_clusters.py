"""Tiny snapshots for tests of policies."""

from kubedsm.model.model import (
    Node,
    NodeName,
    Pod,
    PodClass,
    Resources,
    SchedulingRules,
    Taint,
    Tier,
    Uid,
    Workload,
)
from kubedsm.model.snapshot import Snapshot
from kubedsm.objective.objective import Objective, QosTarget

MI = 2**20
TARGETS = (lambda _: QosTarget(), Objective())


def node(name, tier, cores, memory, *, labels=None, taints=()):
    """Return a node; `memory` is in bytes."""
    return Node(
        NodeName(name),
        {"kubernetes.io/hostname": name} if labels is None else labels,
        Resources(cores * 1000, memory, 110),
        tuple(Taint(key, "", effect) for key, effect in taints),
        tier=tier,
    )


PAPER = (
    node("n2", Tier.EDGE, 5, 5 * 10**9),
    node("n3", Tier.EDGE, 4, 4 * 10**9),
    node("n4", Tier.EDGE, 7, 5 * 10**9),
    node("n5", Tier.CLOUD, 22, 17 * 10**9),
)


def pod(name, *, cores=1, memory=950 * MI, service="a", on=None, **more):
    return Pod(
        uid=Uid(f"uid-{name}"),
        namespace="default",
        name=name,
        workload=Workload("default", "Deployment", service),
        pod_class=PodClass(Resources(int(cores * 1000), memory, 1), SchedulingRules()),
        scheduler_name="kubedsm",
        node_name=None if on is None else NodeName(on),
        **more,
    )


def snapshot(nodes, pods):
    free = {n.name: n.allocatable for n in nodes}
    for one in pods:
        if one.node_name is not None:
            free[one.node_name] -= one.requests
    return Snapshot(
        nodes={n.name: n for n in nodes},
        pods={p.uid: p for p in pods},
        free=free,
        placed={p.uid: p.node_name for p in pods if p.node_name is not None},
    )

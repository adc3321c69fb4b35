"""Tiny snapshots for tests of policies."""

from kubedsm.model.model import Node, NodeName, Resources, Taint, Tier
from kubedsm.objective.objective import Objective, QosTarget
from support.pods import made_pod

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
    requests = Resources(int(cores * 1000), memory, 1)
    named = {"uid": f"uid-{name}", "namespace": "default", "workload": service}
    return made_pod(name, **named, requests=requests, node_name=on, **more)

"""States of clusters with an installation of the scheduler, as values."""

import attrs

from kubedsm.inspection.gathering import ClusterState, SchedulerProcess
from kubedsm.kube.calls.inspection import Installed
from kubedsm.kube.calls.leases import term_of
from kubedsm.kube.client.port import ObjectName
from kubedsm.model.model import Tier
from support.placement_instances import node, snapshot
from support.pods import made_pod

NOW = 1_800_000_000.0


def made_node(name, tier=Tier.EDGE, **fields):
    return node(name, tier, **{"labels": {"kubedsm.io/site": "north"}, **fields})


NODES = [made_node("e1"), made_node("c1", Tier.CLOUD)]
PODS = [made_pod("web-1", cpu=1000, node_name="e1", ready=True, phase="Running")]
WELL = ClusterState(
    "https://api:6443",
    ObjectName(),
    NOW,
    "0.1.0",
    version="v1.36.2",
    user="admin",
    skew=0.2,
    configured=True,
    snapshot=snapshot(NODES, PODS),
    denied={"placing": (), "migrations": ()},
    term=term_of("kubedsm-0_1", 15.0, NOW - 2, 0),
    deployment=Installed(("registry.example/kubedsm:0.1.0",), 2, 2),
    scheduler=SchedulerProcess("pod kubedsm-0", ready=True, readiness="ok", version="0.1.0"),
)


def changed(**fields):
    """Return the state of a healthy installation with some changes."""
    return attrs.evolve(WELL, **fields)


def with_pods(*pods, nodes=NODES, **fields):
    return changed(snapshot=snapshot(nodes, pods), **fields)

"""A pod between its placement decision and its watch event counts everywhere as on its node."""

import attrs
import pytest

from kubedsm.model.events import NodeApplied, PodApplied
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import (
    ClaimReference,
    Disk,
    HostPort,
    Node,
    NodeName,
    Pod,
    PodAffinityTerm,
    PodClass,
    Preferences,
    Resources,
    SchedulingRules,
    SpreadConstraint,
    Uid,
    Workload,
)
from kubedsm.model.selectors import Requirement
from kubedsm.objective.replica_spread import ReplicaSpread
from kubedsm.plugins.feasibility import Feasibility

HOSTNAME = "kubernetes.io/hostname"
WEB = Workload("shop", "Deployment", "web")
IS_WEB = (Requirement("app", "In", ("web",)),)
NEAR_WEB = PodAffinityTerm(HOSTNAME, IS_WEB, ("shop",))
PORT = HostPort(80, "TCP", "0.0.0.0")  # noqa: S104 - any address of the node
SPREAD = SpreadConstraint(HOSTNAME, 1, IS_WEB, "shop")
RULES = SchedulingRules(
    ports=(PORT,),
    affinity=(NEAR_WEB,),
    anti_affinity=(NEAR_WEB,),
    spread=(SPREAD,),
    claims=(ClaimReference("shop", "data"),),
    disks=(Disk("rbd", ("pool/image",)),),
    preferences=Preferences(affinity=((5, NEAR_WEB),)),
)
#: what the Residents of a snapshot count
BOOKS = ("peers", "holders", "keepers", "wishes", "ports", "claims", "disks", "attached")


def node(name):
    labels = {"kubedsm.io/tier": "edge", HOSTNAME: name}
    return Node(NodeName(name), labels, Resources(4000, 8 * 2**30, 10))


def pod(version, **fields):
    pod_class = PodClass(Resources(1000, 2**30, 1), RULES)
    made = Pod(Uid("a"), "shop", "a", WEB, pod_class, "kubedsm", labels={"app": "web"})
    return attrs.evolve(made, resource_version=str(version), **fields)


def mirror(*pods):
    made = ClusterMirror()
    for name in ("n1", "n2"):
        made.apply(NodeApplied(node(name)))
    for each in pods:
        made.apply(PodApplied(each))
    made.snapshot()  # from here on it counts along
    return made


def counted(made):
    """Return all that decisions count."""
    made.check_invariants()
    snapshot = made.snapshot()
    rejected = {}
    for name, rules in {
        "port": SchedulingRules(ports=(PORT,)),
        "anti-affinity": SchedulingRules(anti_affinity=(NEAR_WEB,)),
        "affinity": SchedulingRules(affinity=(NEAR_WEB,)),
        "spread": SchedulingRules(spread=(SPREAD,)),
        "disk": SchedulingRules(disks=RULES.disks),
        "room": SchedulingRules(),
    }.items():
        requests = Resources(3500 if name == "room" else 100, 2**20, 1)
        labels = {"app": "web"} if name == "spread" else {}
        other = Pod(Uid("b"), "shop", "b", WEB, PodClass(requests, rules), "kubedsm", labels=labels)
        found = Feasibility.of(snapshot).rejections(other)
        rejected[name] = {at: rejection.rule for at, rejection in found.items()}
    return {
        "free": dict(snapshot.free),
        "placed": dict(snapshot.placed),
        "shares": dict(snapshot.census.shares),
        "standing": dict(snapshot.census.standing),
        "spread": ReplicaSpread.of(snapshot),
        "pods per node": snapshot.room.column("pods").tolist(),
        "rejected": rejected,
        **{book: dict(getattr(snapshot.residents, book)) for book in BOOKS},
    }


PENDING, BOUND = pod(1), pod(3, node_name=NodeName("n2"))


def assumed():
    made = mirror(PENDING)
    made.reserve("a", NodeName("n2"), PENDING.requests)
    return made


def bound():
    found = counted(mirror(BOUND))
    assert found["standing"] == {WEB: {"n2": 1}}
    assert all(found[book] for book in BOOKS if book != "attached")
    assert all(found["rejected"].values())
    return found


def test_it_counts_as_on_its_node_from_the_decision_on():
    assert counted(assumed()) == bound()


@pytest.mark.parametrize(
    "events",
    [
        [pod(2, phase="Pending", deletion_cost="7")],
        [pod(2), BOUND],
        [BOUND, pod(2)],
        [BOUND, attrs.evolve(BOUND, resource_version="4", phase="Running", ready=True)],
    ],
    ids=["changed before the bind", "in order", "out of order", "running"],
)
def test_it_counts_once_whatever_the_watch_delivers(events):
    made = assumed()
    for event in events:
        made.apply(PodApplied(event))
        assert counted(made) == bound()
    if BOUND in events:
        # The answer to the bind comes after the event, or is lost.
        made.release("a")
        assert made.held == []
        assert counted(made) == bound()

"""Each rule by itself: what it accepts, what it refuses, and in which words.

Cases of volumes are those that kube-scheduler documents in the tests of its volume plugins.
"""

import attrs
import pytest

from kubedsm.model.events import Change
from kubedsm.model.model import ClaimReference, Disk, NodeName
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import Claim, StorageClass, Surroundings, Volume
from kubedsm.plugins.feasibility import Feasibility
from kubedsm.plugins.fit import unschedulable_message
from kubedsm.plugins.plugins import rejections
from kubedsm.plugins.spread import POD_TOPOLOGY_SPREAD
from support.rule_instances import TAINT, ZONE, app, cluster, evenly, pod, zoned

NO_MATCH = "node(s) didn't match Pod's node affinity/selector"


def verdicts(newcomer, nodes, others=(), surroundings=None):
    """Per node its rule and reason, or "" where the pod may go."""
    snapshot = cluster(nodes, [*others, newcomer], surroundings)
    refused = Feasibility.of(snapshot).rejections(newcomer)
    return {
        name: f"{refused[name].rule}: {', '.join(refused[name].reasons)}" if name in refused else ""
        for name in snapshot.nodes
    }


def reasons(newcomer, nodes, others=(), surroundings=None):
    return {
        name: verdict.partition(": ")[2]
        for name, verdict in verdicts(newcomer, nodes, others, surroundings).items()
    }


def knowing(*things):
    surroundings = Surroundings().with_kind(Claim).with_kind(Volume).with_kind(StorageClass)
    for thing in things:
        surroundings = surroundings.with_object(thing)
    return surroundings


XYZ = [zoned("n1", "x"), zoned("n2", "y"), zoned("n3", "z"), zoned("n4")]


def test_the_rules_go_by_their_plugins_names():
    nodes = [
        zoned("cordoned", unschedulable=True, taints=[TAINT]),
        zoned("tainted", taints=[TAINT]),
        zoned("elsewhere", labels={"disk": "hdd"}),
        zoned("full", labels={"disk": "ssd"}, cpu=0.5),
        zoned("tierless", labels={"disk": "ssd"}, tier=None),
        zoned("good", labels={"disk": "ssd"}),
    ]
    assert verdicts(pod("a", node_selector=(("disk", "ssd"),)), nodes) == {
        "cordoned": "NodeUnschedulable: node(s) were unschedulable",
        "tainted": "TaintToleration: node(s) had untolerated taint {dedicated: ml}",
        "elsewhere": f"NodeAffinity: {NO_MATCH}",
        "full": "NodeResourcesFit: Insufficient cpu",
        "tierless": "Tier: node(s) had no label that makes them edge or cloud",
        "good": "",
    }


def test_nodes_named_by_field_are_the_only_ones_looked_at():
    nodes = [zoned("n1", unschedulable=True), zoned("n2", unschedulable=True), zoned("n3")]

    def named(operator, *names):
        return NodeSelectorTerm((), (Requirement("metadata.name", operator, names),))

    aside = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    cordoned = "node(s) were unschedulable"
    assert reasons(pod("a", node_affinity=(named("In", "n2"),)), nodes) == {
        "n1": aside,
        "n2": cordoned,
        "n3": aside,
    }
    assert reasons(pod("a", node_affinity=(named("NotIn", "n3"),)), nodes) == {
        "n1": cordoned,
        "n2": cordoned,
        "n3": NO_MATCH,
    }
    odd = NodeSelectorTerm((), (Requirement("metadata.uid", "NotIn", ("x",)),))
    assert reasons(pod("a", node_affinity=(odd,)), nodes)["n3"] == NO_MATCH


def test_terms_that_contradict_themselves_leave_no_node():
    fields = tuple(Requirement("metadata.name", "In", (name,)) for name in ("n1", "n2"))
    newcomer = pod("a", node_affinity=(NodeSelectorTerm((), fields),))
    assert set(reasons(newcomer, XYZ).values()) == {"pod affinity terms conflict"}
    feasibility = Feasibility.of(cluster(XYZ, [newcomer]))
    message = unschedulable_message(feasibility.rejections(newcomer))
    assert message == "0/4 nodes are available: pod affinity terms conflict."
    snapshot = cluster(XYZ, [newcomer])
    refused = rejections(newcomer.pod_class, snapshot.index, snapshot.room)
    assert refused == feasibility.rejections(newcomer)


def spread(newcomer_labels=(("app", "a"),), **more):
    return pod("new", newcomer_labels, spread=(evenly(app("a"), **more),))


def test_another_zone_of_a_node_may_help_a_pod_that_is_spread_and_another_label_does_not():
    newcomer = spread()
    snapshot = cluster(XYZ, [newcomer])
    candidate = Feasibility.of(snapshot).equivalence(newcomer)
    before = XYZ[0]
    for label, helps in ((ZONE, True), ("disk", False)):
        after = attrs.evolve(before, labels={**before.labels, label: "other"})
        change = Change(node_before=before, node_after=after)
        assert bool(POD_TOPOLOGY_SPREAD.hint(change, candidate, snapshot)) is helps


MOUNTS = (ClaimReference("shop", "data"),)
BOUND = Claim("shop", "data", volume="pv", bound=True)
OTHERS = 'persistentvolumeclaim "a-data" was not created for the pod'


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        (
            [Claim("shop", "data", volume="pv", lost=True)],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (
            [attrs.evolve(BOUND, terminating=True)],
            'persistentvolumeclaim "data" is being deleted',
        ),
        ([BOUND], 'persistentvolume "pv" not found'),
        (
            [Claim("shop", "data", storage_class="fast"), StorageClass("fast")],
            "pod has unbound immediate PersistentVolumeClaims: data",
        ),
        (
            [Claim("shop", "data", storage_class="fats"), StorageClass("fast")],
            'pod has unbound immediate PersistentVolumeClaims: data (no StorageClass "fats")',
        ),
        (
            [Claim("shop", "data", volume="pv", storage_class="w"), StorageClass("w", True)],
            "pod has unbound immediate PersistentVolumeClaims: data",
        ),
        (
            [Claim("shop", "data", storage_class="w"), StorageClass("w", True)],
            "4 node(s) didn't find available persistent volumes to bind",
        ),
    ],
)
def test_a_claim_that_is_not_ready_keeps_the_pod_from_every_node(known, reason):
    newcomer = pod("a", claims=MOUNTS)
    feasibility = Feasibility.of(cluster(XYZ, [newcomer], knowing(*known)))
    assert feasibility.feasible(newcomer) == []
    message = unschedulable_message(feasibility.rejections(newcomer))
    assert message == f"0/4 nodes are available: {reason}."


def test_a_claim_made_for_the_pod_is_waited_for():
    newcomer = pod("a", claims=(ClaimReference("shop", "a-data", owner="uid-a"),))
    assert set(reasons(newcomer, XYZ, (), knowing()).values()) == {
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "a-data"'
    }


@pytest.mark.parametrize(
    ("owner", "reason"),
    [("uid-a", ""), ("uid-of-the-former", OTHERS), ("", OTHERS)],
)
def test_a_claim_made_for_another_pod_of_the_name_is_not_used(owner, reason):
    newcomer = pod("a", claims=(ClaimReference("shop", "a-data", owner="uid-a"),))
    given = attrs.evolve(BOUND, name="a-data", owner=owner)
    assert set(reasons(newcomer, XYZ, (), knowing(given, Volume("pv"))).values()) == {reason}


def test_what_is_unknown_of_bound_volumes_is_no_obstacle():
    [reason] = set(reasons(pod("a", claims=MOUNTS), XYZ).values())
    assert "KubeDSM may not list PersistentVolumeClaims" in reason
    assert set(reasons(pod("a"), XYZ).values()) == {""}
    only_claims = Surroundings().with_object(BOUND)
    assert set(reasons(pod("a", claims=MOUNTS), XYZ, (), only_claims).values()) == {""}


@pytest.mark.parametrize(
    ("operator", "values", "accepted"),
    [
        ("In", ("1", "3"), {"g1", "g3"}),
        ("NotIn", ("1", "3"), {"g2", "word", "none"}),
        ("Exists", (), {"g1", "g2", "g3", "word"}),
        ("DoesNotExist", (), {"none"}),
        ("Gt", ("1",), {"g2", "g3"}),
        ("Lt", ("2",), {"g1"}),
        ("Gt", ("word",), set()),
        ("Gt", (), set()),
        ("Near", ("1",), set()),
    ],
)
def test_operators_of_node_affinity(operator, values, accepted):
    nodes = [zoned(f"g{i}", labels={"gen": str(i)}) for i in (1, 2, 3)]
    nodes += [zoned("word", labels={"gen": "v2"}), zoned("none")]
    term = NodeSelectorTerm((Requirement("gen", operator, values),))
    given = reasons(pod("a", node_affinity=(term,)), nodes)
    assert {name for name, reason in given.items() if not reason} == accepted
    assert set(given.values()) <= {"", NO_MATCH}


REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
ZONES = {
    "node without labels": ({OLD_ZONE: "a"}, {}, True),
    "old zone label matches": ({OLD_ZONE: "a"}, {OLD_ZONE: "a", "useless": "none"}, True),
    "old region label matches": ({OLD_REGION: "r", "useless": "none"}, {OLD_REGION: "r"}, True),
    "old region label differs": ({OLD_REGION: "r"}, {OLD_REGION: "s"}, False),
    "old zone label differs": ({OLD_ZONE: "a"}, {OLD_ZONE: "b"}, False),
    "zone label matches": ({ZONE: "a"}, {ZONE: "a"}, True),
    "zone label differs": ({ZONE: "a"}, {ZONE: "b"}, False),
    "region label matches": ({REGION: "r"}, {REGION: "r"}, True),
    "region label differs": ({REGION: "r"}, {REGION: "s"}, False),
    "volume with zone and region, node with zone": ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
    "volume with zone, node with old zone": ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
    "volume with old zone, node with zone": ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
    "volume with old zone, node with another zone": ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
    "volume of two zones, node without labels": ({OLD_ZONE: "c__a"}, {}, True),
    "volume of two zones, node in one": ({ZONE: "c__a"}, {ZONE: "a"}, True),
    "volume of two zones, node in a third": ({ZONE: "c__a"}, {ZONE: "b"}, False),
}


@pytest.mark.parametrize("case", ZONES)
def test_volume_zone(case):
    of_volume, of_node, accepted = ZONES[case]
    known = knowing(BOUND, Volume("pv", labels=of_volume))
    nodes = [zoned("n1", labels=of_node)]
    refused = "VolumeZone: node(s) had no available volume zone"
    given = verdicts(pod("a", claims=MOUNTS), nodes, (), known)
    assert given == {"n1": "" if accepted else refused}


@pytest.mark.parametrize(
    ("kind", "reading", "others_reading", "refused"),
    [
        ("iscsi", True, True, False),
        ("iscsi", False, True, True),
        ("iscsi", True, False, True),
        ("iscsi", False, False, True),
        ("awsElasticBlockStore", True, True, True),
        ("awsElasticBlockStore", False, False, True),
        ("gcePersistentDisk", False, False, True),
        ("rbd", False, False, True),
    ],
)
def test_a_disk_is_shared_to_read_only(kind, reading, others_reading, refused):
    there = pod("there", on="n1", disks=(Disk(kind, ("d",), others_reading),))
    newcomer = pod("a", disks=(Disk(kind, ("d",), reading),))
    given = verdicts(newcomer, XYZ[:2], [there])
    no_disk = "VolumeRestrictions: node(s) had no available disk"
    assert given == {"n1": no_disk if refused else "", "n2": ""}
    assert set(verdicts(pod("b", disks=(Disk(kind, ("e",)),)), XYZ, [there]).values()) == {""}


@pytest.mark.parametrize("claims", [(), MOUNTS])
def test_a_claim_of_one_pod_at_a_time_is_used_by_no_other(claims):
    known = knowing(attrs.evolve(BOUND, once_per_pod=True), Volume("pv"))
    there = pod("there", on="n1", claims=claims)
    given = reasons(pod("a", claims=MOUNTS), XYZ, [there], known)
    assert all(
        "ReadWriteOncePod access mode" in why if claims else not why for why in given.values()
    )


def test_a_gated_pod_waits():
    gated = attrs.evolve(pod("a"), gated=True, gates=("example.com/one", "two"))
    feasibility = Feasibility.of(cluster(XYZ, [gated]))
    rejection = feasibility.rejection(gated, NodeName("n1"))
    assert rejection is not None
    assert (rejection.rule, rejection.everywhere) == ("SchedulingGates", True)
    assert rejection.reasons == ("waiting for scheduling gates: [example.com/one two]",)
    assert feasibility.feasible(gated) == []
    assert set(feasibility.rejections(gated)) == {"n1", "n2", "n3", "n4"}

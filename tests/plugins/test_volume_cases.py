"""Cases that kube-scheduler documents in the tests of its volume plugins, each on one node."""

import pytest

from kubedsm.model.model import ClaimReference, Disk
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    CSIVolume,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from kubedsm.plugins.feasibility import Feasibility
from support.literal_volumes import unbound
from support.rule_instances import HOST, ZONE, cluster, pod, zoned

REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
WAITING = StorageClass("wait", waits_for_consumer=True, provisioner="kubernetes.io/no-provisioner")
IMMEDIATE = StorageClass("now", provisioner=EBS)
DYNAMIC = StorageClass("dynamic", waits_for_consumer=True, provisioner=EBS)


def rejects(newcomer, labels, things, others=()):
    """Return the plugin that rejects the pod on a node with the labels; empty if none does."""
    known = Surroundings()
    for kind in (Claim, Volume, StorageClass, CSIDriver, CSINode, StorageCapacity):
        known = known.with_kind(kind)
    for thing in (WAITING, IMMEDIATE, DYNAMIC, *things):
        known = known.with_object(thing)
    nodes = [zoned("n1", labels={HOST: "n1", **labels})]
    feasibility = Feasibility.of(cluster(nodes, [newcomer, *others], known))
    rejection = feasibility.rejection(newcomer, "n1", tier=False)
    return "" if rejection is None else rejection.rule


def mounting(*claims, name="new", on=None):
    return pod(name, on=on, claims=tuple(ClaimReference("shop", claim) for claim in claims))


def bound(name, **more):
    return Claim("shop", name, volume=f"pv-{name}", bound=True, **more)


def reached_from(key, *values):
    return (NodeSelectorTerm((Requirement(key, "In", values),)),)


BINDING = {
    "all claims are bound": ((bound("a"), Volume("pv-a")), {}, ""),
    "a claim does not exist": ((), {}, "VolumeBinding"),
    "an immediate claim is not bound": ((unbound("a", 1, "now"),), {}, "VolumeBinding"),
    "no volume matches an unbound claim": ((unbound("a", 1, "wait"),), {}, "VolumeBinding"),
    "a volume matches an unbound claim": (
        (unbound("a", 1, "wait"), Volume("v", capacity=1, storage_class="wait", available=True,
                                         access_modes=("ReadWriteOnce",))), {}, "",
    ),
    "the only volume is of another class": (
        (unbound("a", 1, "wait"), Volume("v", capacity=1, storage_class="hdd", available=True,
                                         access_modes=("ReadWriteOnce",))), {}, "VolumeBinding",
    ),
    "the only volume is too small": (
        (unbound("a", 2, "wait"), Volume("v", capacity=1, storage_class="wait", available=True,
                                         access_modes=("ReadWriteOnce",))), {}, "VolumeBinding",
    ),
    "the bound volume is not reached from the node": (
        (bound("a"), Volume("pv-a", reached_from("foo", "bar"))), {"foo": "barbar"},
        "VolumeBinding",
    ),
    "the bound volume is reached from the node": (
        (bound("a"), Volume("pv-a", reached_from("foo", "bar"))), {"foo": "bar"}, "",
    ),
    "the claim lost its volume": ((bound("a", lost=True),), {}, "VolumeBinding"),
    "the provisioner may create the volume anywhere": ((unbound("a", 1, "dynamic"),), {}, ""),
    "the class allows other topologies": (
        (unbound("a", 1, "dynamic"), StorageClass("dynamic", True, EBS, reached_from(ZONE, "x"))),
        {ZONE: "y"}, "VolumeBinding",
    ),
    "the class allows the node's topology": (
        (unbound("a", 1, "dynamic"), StorageClass("dynamic", True, EBS, reached_from(ZONE, "x"))),
        {ZONE: "x"}, "",
    ),
    "the driver reports no capacity object": (
        (unbound("a", 1, "dynamic"), CSIDriver(EBS, reports_capacity=True)), {}, "VolumeBinding",
    ),
    "the driver reports enough capacity": (
        (unbound("a", 1, "dynamic"), CSIDriver(EBS, reports_capacity=True),
         StorageCapacity("s", "c", "dynamic", (), capacity=1)), {}, "",
    ),
    "the driver reports less capacity": (
        (unbound("a", 2, "dynamic"), CSIDriver(EBS, reports_capacity=True),
         StorageCapacity("s", "c", "dynamic", (), capacity=1)), {}, "VolumeBinding",
    ),
    "the driver reports enough capacity, but for smaller volumes": (
        (unbound("a", 2, "dynamic"), CSIDriver(EBS, reports_capacity=True),
         StorageCapacity("s", "c", "dynamic", (), capacity=9, maximum=1)), {}, "VolumeBinding",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BINDING)
def test_volume_binding(case):
    things, labels, plugin = BINDING[case]
    assert rejects(mounting("a"), labels, things) == plugin


def test_one_of_two_claims_decides():
    there = (bound("a"), Volume("pv-a"))
    assert rejects(mounting("a", "b"), {}, there) == "VolumeBinding"
    assert rejects(mounting("a", "b"), {}, (*there, unbound("b", 1, "wait"))) == "VolumeBinding"
    assert rejects(mounting("a", "b"), {}, (*there, unbound("b", 1, "dynamic"))) == ""


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
    things = bound("a"), Volume("pv-a", labels=of_volume)
    assert rejects(mounting("a"), of_node, things) == ("" if accepted else "VolumeZone")


def attached(driver, *claims):
    for claim in claims:
        yield bound(claim)
        yield Volume(f"pv-{claim}", csi=CSIVolume(driver, claim))


#: claims of running pods, limit by driver, claims of the new pod
LIMITS = {
    "below the limit": (["b", "c d"], {EBS: 4}, "a", True),
    "at the limit": (["b", "c d"], {EBS: 3}, "a", False),
    "the driver reports no limit": (["b", "c d"], {}, "a", True),
    "an unbound claim counts": (["pending", "c"], {EBS: 2}, "a", False),
    "an unbound claim of two pods is one": (["pending", "pending", "c d"], {EBS: 4}, "a", True),
    "a claim of no class does not count": (["b", "classless"], {EBS: 2}, "a", True),
    "a claim with a missing volume counts by its class": (["missing", "c"], {EBS: 2}, "a", False),
    "volumes of other drivers do not count": (["b", "c"], {EBS: 2, GCE: 2}, "g h", True),
    "volumes of the same driver count": (["g h", "b c"], {EBS: 2, GCE: 2}, "a", False),
    "a volume that the node has counts once": (["a", "b"], {EBS: 2}, "a", True),
}  # fmt: skip


@pytest.mark.parametrize("case", LIMITS)
def test_node_volume_limits(case):
    running, limits, new, accepted = LIMITS[case]
    others = [mounting(*of.split(), name=f"p{n}", on="n1") for n, of in enumerate(running)]
    things = [
        *attached(EBS, "a", "b", "c", "d"),
        *attached(GCE, "g", "h"),
        unbound("pending", 1, "dynamic"),
        Claim("shop", "classless", storage_class="none"),
        Claim("shop", "missing", volume="gone", storage_class="dynamic"),
        CSINode("n1", limits),
    ]
    rule = rejects(mounting(*new.split()), {}, things, others)
    assert rule == ("" if accepted else "NodeVolumeLimits")


def test_without_a_csi_node_there_is_no_limit():
    things = list(attached(EBS, "a", "b"))
    assert rejects(mounting("a"), {}, things, [mounting("b", name="p", on="n1")]) == ""


DISKS = ["gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi"]


@pytest.mark.parametrize("kind", DISKS)
@pytest.mark.parametrize(
    ("new", "running", "accepted"),
    [((), (), True), ((), ("foo",), True), (("foo",), ("foo",), False), (("bar",), ("foo",), True)],
)
def test_volume_restrictions_of_disks(kind, new, running, accepted):
    newcomer, other = (
        pod(name, on=on, disks=tuple(Disk(kind, (disk,)) for disk in disks))
        for name, on, disks in (("new", None, new), ("there", "n1", running))
    )
    assert rejects(newcomer, {}, (), [other]) == ("" if accepted else "VolumeRestrictions")


@pytest.mark.parametrize(("running", "accepted"), [(["many"], True), (["many", "once"], False)])
def test_volume_restrictions_of_access_modes(running, accepted):
    others = [mounting(claim, name=f"p-{claim}", on="n1") for claim in running]
    things = [
        bound("once", once_per_pod=True),
        bound("many", access_modes=("ReadWriteMany",)),
        *(Volume(f"pv-{name}") for name in ("once", "many")),
    ]
    rule = rejects(mounting("once"), {}, things, others)
    assert rule == ("" if accepted else "VolumeRestrictions")

"""Cases that kube-scheduler documents in the tests of its volume plugins, each on one node."""

import pytest

from kubedsm.model.model import ClaimReference, Disk
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    StorageCapacity,
    StorageClass,
    Surroundings,
    Volume,
)
from kubedsm.plugins.feasibility import Feasibility
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

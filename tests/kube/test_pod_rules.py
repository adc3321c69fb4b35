"""What the wire layer makes of a pod's scheduling rules, and of what the kubelet reports."""

import json

import attrs
import msgspec
import pytest

from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import WireError
from kubedsm.model.model import (
    ClaimReference,
    Disk,
    HostPort,
    PodAffinityTerm,
    Preferences,
    SpreadConstraint,
)
from kubedsm.model.selectors import NodeSelectorTerm, Requirement
from kubedsm.model.surroundings import (
    Claim,
    CSIDriver,
    CSINode,
    CSIVolume,
    Namespace,
    StorageCapacity,
    StorageClass,
    Volume,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Gi = 2**30


def shown(*, name="a", labels=None, status=None, containers=None, **spec):
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "labels": labels or {}},
        "spec": {"containers": containers or [{"name": "c"}], **spec},
        "status": status or {},
    }


def read(**given):
    pod = shown(**given)
    made = decoding.pod(pod)
    again = msgspec.json.encode(pod)
    assert decoding.pod(again).pod_class is made.pod_class
    return made


def rules(**given):
    return read(**given).pod_class.rules


def test_a_plain_pod_has_no_rules():
    assert rules(affinity={}, topologySpreadConstraints=[], volumes=None) == rules()


def test_node_affinity():
    terms = [
        {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["2"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
        {},
    ]
    given = rules(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})
    assert given.node_affinity == (
        NodeSelectorTerm((Requirement("gen", "Gt", ("2",)),)),
        NodeSelectorTerm((), (Requirement("metadata.name", "NotIn", ("n1",)),)),
        NodeSelectorTerm(),
    )
    assert rules(affinity={"nodeAffinity": {REQUIRED: None}}).node_affinity is None
    assert rules(affinity={"nodeAffinity": {REQUIRED: {}}}).node_affinity == ()


def test_preferences_are_no_demands():
    near = {PREFERRED: [{"weight": 7, "podAffinityTerm": term()}]}
    far = {PREFERRED: [{"weight": 8, "podAffinityTerm": term(matchLabelKeys=["side"])}]}
    expression = {"key": "gen", "operator": "Exists"}
    node = {PREFERRED: [{"weight": 9, "preference": {"matchExpressions": [expression]}}]}
    anyway = {"maxSkew": 3, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
    given = rules(
        labels={"side": "b"},
        affinity={"podAffinity": near, "podAntiAffinity": far, "nodeAffinity": node},
        topologySpreadConstraints=[anyway],
    )
    assert attrs.evolve(given, preferences=Preferences()) == rules()
    other = (Requirement("app", "In", ("a",)), Requirement("side", "In", ("b",)))
    assert given.preferences == Preferences(
        node_affinity=((9, NodeSelectorTerm((Requirement("gen", "Exists"),))),),
        affinity=((7, PodAffinityTerm("zone", A, ("shop",))),),
        anti_affinity=((8, PodAffinityTerm("zone", other, ("shop",))),),
        spread=(SpreadConstraint("z", 3, None, "shop"),),
    )
    assert given.preferences
    assert not rules().preferences


def term(**more):
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, **more}


def affinity(*terms, **more):
    return rules(affinity={"podAffinity": {REQUIRED: list(terms)}}, **more).affinity


A = (Requirement("app", "In", ("a",)),)


def test_the_namespaces_of_a_term():
    assert affinity(term()) == (PodAffinityTerm("zone", A, ("shop",)),)
    assert affinity(term(namespaces=["y", "x"])) == (PodAffinityTerm("zone", A, ("x", "y")),)
    assert affinity(term(namespaceSelector={})) == (PodAffinityTerm("zone", A, (), ()),)
    team = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
    assert affinity(term(namespaces=["x"], namespaceSelector=team)) == (
        PodAffinityTerm("zone", A, ("x",), (Requirement("team", "Exists"),)),
    )


def test_what_selectors_mean_the_same_compare_equal():
    one = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x", "y"]}],
    }
    other = {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["x", "y"]},
            {"key": "b", "operator": "In", "values": ["2"]},
        ],
    }
    assert affinity(term(labelSelector=one)) == affinity(term(labelSelector=other))
    assert affinity(term(labelSelector={}))[0].selector == ()
    assert affinity(term(labelSelector=None))[0].selector is None


def test_label_keys_are_the_pods_own_values():
    keys = {"matchLabelKeys": ["hash", "missing"], "mismatchLabelKeys": ["team"]}
    labels = {"app": "a", "hash": "h1", "team": "t"}
    (given,) = affinity(term(**keys), labels=labels)
    assert given.selector == (
        *A,
        Requirement("hash", "In", ("h1",)),
        Requirement("team", "NotIn", ("t",)),
    )
    (other,) = affinity(term(**keys), labels={**labels, "hash": "h2"})
    assert other != given
    # An API server of our day has worked them in already.
    worked_in = {"matchLabels": {"app": "a", "hash": "h1"}}
    (again,) = affinity(term(labelSelector=worked_in, **keys), labels=labels)
    assert again == given


def spread(**more):
    constraint = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }
    (made,) = rules(labels={"hash": "h"}, topologySpreadConstraints=[constraint]).spread
    return made


def test_spread_constraints():
    assert spread() == SpreadConstraint("zone", 2, A, "shop", 1, True, False)
    policies = {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "minDomains": 3}
    assert spread(**policies) == SpreadConstraint("zone", 2, A, "shop", 3, False, True)
    assert spread(matchLabelKeys=["hash"]).selector == (*A, Requirement("hash", "In", ("h",)))


def test_anti_affinity_is_kept_apart():
    given = rules(affinity={"podAntiAffinity": {REQUIRED: [term()]}})
    assert given.affinity == ()
    assert given.anti_affinity == (PodAffinityTerm("zone", A, ("shop",)),)


def test_host_ports_of_containers_and_sidecars():
    def container(port, **more):
        return {"name": f"c{port}", "ports": [{"containerPort": 1, "hostPort": port}], **more}

    udp = {"hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"}
    given = rules(
        containers=[container(81), {"name": "d", "ports": [udp, {"containerPort": 8080}]}],
        initContainers=[container(82, restartPolicy="Always"), container(83)],
    )
    assert given.ports == (HostPort(53, "UDP", "10.0.0.1"), HostPort(81), HostPort(82))


def test_claims_and_disks():
    given = rules(
        name="db-0",
        volumes=[
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "gce", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"name": "ebs", "awsElasticBlockStore": {"volumeID": "vol-1"}},
            {"name": "rbd", "rbd": {"monitors": ["m1", "m2"], "image": "i"}},
            {"name": "iscsi", "iscsi": {"iqn": "q"}},
            {"name": "empty", "emptyDir": {}},
        ],
    )
    assert given.claims == (
        ClaimReference("shop", "data"),
        ClaimReference("shop", "db-0-tmp", owner="u"),
    )
    assert given.disks == (
        Disk("gcePersistentDisk", ("d",), read_only=True),
        Disk("awsElasticBlockStore", ("vol-1",)),
        Disk("rbd", ("m1", "rbd", "i")),
        Disk("rbd", ("m2", "rbd", "i")),
        Disk("iscsi", ("q",)),
    )


def test_devices_and_gates():
    pod = read(resourceClaims=[{"name": "gpu"}], schedulingGates=[{"name": "one"}])
    assert pod.pod_class.rules.resource_claims == ("gpu",)
    assert (pod.gated, pod.gates) == (True, ("one",))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"affinity": []}, "spec.affinity"),
        ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, f"spec.affinity.podAffinity.{REQUIRED}"),
        (
            {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}[0]",
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"preference": {}}]}}},
            f"spec.affinity.nodeAffinity.{PREFERRED}[0]",
        ),
        ({"topologySpreadConstraints": [{}]}, "spec.topologySpreadConstraints[0]"),
        ({"volumes": [{"persistentVolumeClaim": {}}]}, "spec.volumes[0]"),
        ({"containers": [{"ports": [{"hostPort": "80"}]}]}, "spec.containers[0].ports[0]"),
    ],
)
def test_the_field_that_is_wrong_is_named(spec, path):
    for source in (shown(**spec), json.dumps(shown(**spec)).encode()):
        with pytest.raises(WireError, match="Pod shop/a: ") as raised:
            decoding.pod(source)
        assert raised.value.path.startswith(path)
        assert "\n" not in str(raised.value)


def container(name="c", **requests):
    return {"name": name, "resources": {"requests": requests}}


def report(name="c", allocated=None, actual=None):
    given = {"name": name}
    if allocated:
        given["allocatedResources"] = allocated
    if actual:
        given["resources"] = {"requests": actual}
    return given


def resize(reason):
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


def requests(containers, statuses, conditions=(), **more):
    status = {"containerStatuses": statuses, "conditions": list(conditions)}
    return read(containers=containers, status={**status, **more.pop("status", {})}, **more).requests


def test_a_resize_under_way_counts_the_greater():
    asked = [container(cpu="1", memory="3Gi")]
    grown = requests(asked, [report(allocated={"cpu": "2", "memory": "1Gi"}, actual={"cpu": "3"})])
    assert (grown.cpu, grown.memory) == (3000, 3 * Gi)
    assert requests(asked, [report("another", {"cpu": "2"})]).cpu == 1000
    assert requests(asked, [report(allocated={"cpu": "2"})], resize("Deferred")).cpu == 2000


def test_an_infeasible_resize_counts_only_what_is_there():
    asked = [container(cpu="8")]
    held = [report(allocated={"cpu": "1"}, actual={"cpu": "2"})]
    assert requests(asked, held, resize("Infeasible")).cpu == 2000
    assert requests(asked, held, resize("Deferred")).cpu == 8000
    assert requests(asked, [], resize("Infeasible")).cpu == 8000


def test_each_container_by_itself():
    asked = [container("a", cpu="1"), container("b", cpu="2")]
    held = [report("b", {"cpu": "1"}), report("a", {"cpu": "2"})]
    assert requests(asked, held).cpu == 4000


def test_a_sidecar_is_resized_too_and_another_init_container_never():
    init = [{**container("s", cpu="1"), "restartPolicy": "Always"}, container("i", cpu="1")]
    status = {"initContainerStatuses": [report("s", {"cpu": "3"}), report("i", {"cpu": "50"})]}
    given = requests([container(cpu="1")], [], initContainers=init, status=status)
    assert given.cpu == 4000


def test_pod_level_requests_are_resized_without_the_overhead():
    status = {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "4"}}}
    pod_level = {"resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}}
    assert requests([container(cpu="1")], [], **pod_level).cpu == 3250
    assert requests([container(cpu="1")], [], **pod_level, status=status).cpu == 5000
    assert requests([container(cpu="1")], [], status=status).cpu == 1000


def test_what_is_as_it_was_asked_for_is_the_same_class():
    asked = [container(cpu="1")]
    running = [report(allocated={"cpu": "1"}, actual={"cpu": "1"})]
    pending = read(containers=asked)
    placed = read(containers=asked, status={"containerStatuses": running})
    assert pending.pod_class is placed.pod_class


def other(kind, shown):
    return decoding.SURROUNDINGS[kind].reader.value(shown)


def test_namespaces_claims_volumes_and_storage_classes():
    going = {"metadata": {"name": "x", "deletionTimestamp": "2026-11-21T22:00:00Z"}}
    assert other(Namespace, going).terminating
    assert other(
        Namespace, {"metadata": {"name": "x"}, "status": {"phase": "Terminating"}}
    ).terminating
    assert other(Namespace, {"metadata": {"name": "x", "labels": {"a": "b"}}}) == Namespace(
        "x", {"a": "b"}
    )
    metadata = {"name": "data", "namespace": "shop"}
    spec = {"accessModes": ["ReadWriteOncePod"], "volumeName": "pv", "storageClassName": "fast"}
    assert other(Claim, {"metadata": metadata, "spec": spec}) == Claim(
        "shop",
        "data",
        "pv",
        once_per_pod=True,
        storage_class="fast",
        access_modes=("ReadWriteOncePod",),
    )
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Block"}
    spec["volumeAttributesClassName"] = "gold"
    node = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    assert other(Claim, {"metadata": {**metadata, **node}, "spec": spec}) == Claim(
        "shop", "data", storage=2**30, block=True, selected_node="n1", attributes_class="gold"
    )
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "shop", "name": "data"},
        "storageClassName": "fast",
        "volumeAttributesClassName": "gold",
    }
    available = {"phase": "Available"}
    read = other(Volume, {"metadata": {"name": "pv"}, "spec": spec, "status": available})
    assert read == Volume(
        "pv",
        capacity=2**30,
        access_modes=("ReadWriteOnce",),
        claim=("shop", "data", ""),
        storage_class="fast",
        attributes_class="gold",
        available=True,
    )
    spec = {"accessModes": ["ReadWriteOncePod"], "volumeName": "pv", "storageClassName": "fast"}
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    assert other(Claim, {"metadata": {**metadata, **bound}, "spec": spec}).bound
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "u", "controller": True}
    owned = {**metadata, "ownerReferences": [owner]}
    assert other(Claim, {"metadata": owned, "spec": spec}).owner == "u"
    lost = {"metadata": metadata, "spec": spec, "status": {"phase": "Lost"}}
    assert other(Claim, lost).lost
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    assert other(Volume, {"metadata": {"name": "pv"}, "spec": spec}) == Volume(
        "pv", (NodeSelectorTerm((Requirement("zone", "In", ("x",)),)),)
    )
    assert other(Volume, {"metadata": {"name": "pv"}, "spec": {}}) == Volume("pv")
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    read = other(Volume, {"metadata": {"name": "pv"}, "spec": {"csi": csi}})
    assert read.csi == CSIVolume("ebs.csi.aws.com", "vol-1")
    del csi["volumeHandle"]
    assert other(Volume, {"metadata": {"name": "pv"}, "spec": {"csi": csi}}).csi is None
    waits = {"metadata": {"name": "w"}, "volumeBindingMode": "WaitForFirstConsumer"}
    assert other(StorageClass, waits) == StorageClass("w", waits_for_consumer=True)
    zones = {"matchLabelExpressions": [{"key": "zone", "values": ["x", "y"]}]}
    topologies = {"provisioner": "p", "allowedTopologies": [zones]}
    assert other(StorageClass, {"metadata": {"name": "w"}, **topologies}) == StorageClass(
        "w",
        provisioner="p",
        topologies=(NodeSelectorTerm((Requirement("zone", "In", ("x", "y")),)),),
    )
    with pytest.raises(WireError, match=r"PersistentVolumeClaim data: metadata.namespace: missing"):
        other(Claim, {"metadata": {"name": "data"}})


def test_storage_capacities_and_their_drivers():
    driver = {"metadata": {"name": "csi"}, "spec": {"storageCapacity": True}}
    assert other(CSIDriver, driver) == CSIDriver("csi", reports_capacity=True)
    assert other(CSIDriver, {"metadata": {"name": "csi"}}) == CSIDriver("csi")
    given = {
        "metadata": {"name": "c", "namespace": "s"},
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"zone": "x"}},
        "capacity": "1Gi",
    }
    segment = (Requirement("zone", "In", ("x",)),)
    assert other(StorageCapacity, given) == StorageCapacity("s", "c", "fast", segment, 2**30)
    with pytest.raises(WireError, match=r"maximumVolumeSize: 'much' is not"):
        other(StorageCapacity, {**given, "maximumVolumeSize": "much"})


def test_csi_nodes():
    drivers = [
        {"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 25}},
        {"name": "none.example.com", "allocatable": {"count": 0}},
        {"name": "nfs.example.com", "allocatable": {}},
        {"name": "s3.example.com", "topologyKeys": None, "allocatable": None},
    ]
    read = other(CSINode, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})
    assert read == CSINode("n1", {"ebs.csi.aws.com": 25, "none.example.com": 0})
    assert read.limit("ebs.csi.aws.com") == 25
    assert read.limit("nfs.example.com") > 10**6
    for spec in (None, {"drivers": None}, {"drivers": []}):
        assert other(CSINode, {"metadata": {"name": "n1"}, "spec": spec}) == CSINode("n1")
    drivers[0]["allocatable"]["count"] = 2**70
    with pytest.raises(WireError, match=r"CSINode n1: spec.drivers\[0\].allocatable.count"):
        other(CSINode, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})

"""What the wire layer makes of the API's JSON."""

import json
import random

import pytest

from kubedsm.kube.client.port import Expired, ServerError
from kubedsm.kube.wire import decoding
from kubedsm.kube.wire.errors import WireError
from kubedsm.kube.wire.schema import List
from kubedsm.model.model import Resources, Taint, Toleration, Wishes, Workload
from kubedsm_lab.bench.watched_pods import watch_line
from support.recorded import API_SERVER, recorded
from support.wire_pods import container, made_pod

Mi = 1024**2


HASH = "5b576d85cf"


def requests_of(**spec):
    return decoding.pod(made_pod(**spec)).requests


def owned(kind, name, **labels):
    return {
        "labels": labels,
        "ownerReferences": [
            {"kind": "Watcher", "name": "not-the-controller", "uid": "x"},
            {"kind": kind, "name": name, "uid": "y", "controller": True},
        ],
    }


def marked(**others):
    mark = {"plan": "plan-1", "replicaSet": f"web-{HASH}", "uid": "y", "target": "n2", "since": "1"}
    return {
        "labels": {"kubedsm.io/migrating": HASH},
        "annotations": {"kubedsm.io/move": json.dumps(mark | others)},
    }


def workload(metadata):
    return decoding.pod(made_pod(metadata=metadata)).workload


def test_reads_a_pod_of_a_web_service():
    line = watch_line(random.Random(3))
    assert 3800 < len(line) < 4600
    shown = json.loads(line)["object"]
    read = decoding.PODS.reader.line(line)
    assert isinstance(read, decoding.Applied)
    metadata = shown["metadata"]
    assert read.identity == decoding.Identity(
        "shop", metadata["name"], metadata["uid"], metadata["resourceVersion"]
    )
    pod = read.object
    assert pod == decoding.pod(shown) == decoding.pod(json.dumps(shown).encode())
    assert (pod.name, pod.uid, pod.namespace) == (metadata["name"], metadata["uid"], "shop")
    assert pod.workload == Workload("shop", "Deployment", "checkout")
    assert pod.requests == Resources(cpu=500, memory=475 * Mi, pods=1)
    assert pod.pod_class.rules.tolerations == (
        Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
        Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
    )
    assert pod.scheduler_name == "kubedsm"
    assert pod.node_name == shown["spec"]["nodeName"]
    assert (pod.phase, pod.ready, pod.terminating, pod.gated) == ("Running", True, False, False)
    assert pod.labels == metadata["labels"]
    assert pod.resource_version == metadata["resourceVersion"]


def test_times_are_seconds_since_the_epoch():
    pod = decoding.pod(made_pod(metadata={"creationTimestamp": "2026-01-01T00:01:00Z"}))
    assert pod.created == 1_767_225_660.0


def test_an_unbound_pod_of_a_dump_with_hardly_anything():
    pod = decoding.pod(
        {"metadata": {"name": "a", "namespace": "shop", "uid": "u1", "labels": None}, "spec": {}}
    )
    assert pod.requests == Resources(pods=1)
    assert pod.scheduler_name == "default-scheduler"
    assert pod.workload == Workload("shop", "Pod", "a")
    assert (pod.node_name, pod.phase, pod.ready, pod.labels) == (None, "Pending", False, {})


def test_state_that_keeps_a_pod_from_being_counted_or_bound():
    pod = decoding.pod(
        made_pod(
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
            schedulingGates=[{"name": "example.com/wait"}],
            status={"conditions": [{"type": "Ready", "status": "False"}]},
        )
    )
    assert (pod.terminating, pod.gated, pod.ready) == (True, True, False)


def test_what_pods_have_in_common_is_held_once():
    def line(uid):
        metadata = {"name": uid, "uid": uid, "resourceVersion": uid, "labels": {"app": "web-1"}}
        pod = made_pod(
            metadata=metadata, nodeName="node-17", schedulerName="kubedsm", status={"phase": "Odd"}
        )
        return decoding.PODS.reader.line(json.dumps({"type": "ADDED", "object": pod}).encode())

    one, other = line("1"), line("2")
    for field in ("namespace", "node_name", "scheduler_name", "phase", "labels"):
        assert getattr(one.object, field) is getattr(other.object, field), field
    assert one.identity.namespace is one.object.namespace is other.identity.namespace
    assert one.object.labels == {"app": "web-1"}


def test_pods_of_a_kind_share_one_class():
    tolerations = [{"key": "edge", "operator": "Exists"}, {"key": "b", "value": "c"}]
    one = decoding.pod(made_pod(tolerations=tolerations, nodeSelector={"a": "1", "b": "2"}))
    two = decoding.pod(
        made_pod(
            metadata={"uid": "u2", "name": "b"},
            tolerations=[*reversed(tolerations), tolerations[0]],
            nodeSelector={"b": "2", "a": "1"},
        )
    )
    assert one.pod_class == two.pod_class
    assert one.pod_class.rules.node_selector == (("a", "1"), ("b", "2"))
    assert decoding.pod(made_pod(priority=5)).pod_class != decoding.pod(made_pod()).pod_class


ONE = container(cpu="1")


def first(*containers, **more):
    return {"initContainers": list(containers), "containers": [ONE], **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container(cpu="100m"), ONE]}, 1100),
        # an init container runs before the others
        (first(container(cpu="300m")), 1000),
        (first(container(cpu="3")), 3000),
        (first(container(cpu="2"), container(cpu="3")), 3000),
        # a sidecar beside those after it, but not those before it
        (first(container("Always", cpu="500m"), container(cpu="3")), 3500),
        (first(container(cpu="3"), container("Always", cpu="500m")), 3000),
        (first(*(container("Always", cpu=cpu) for cpu in ("500m", "250m")), ONE), 1750),
        ({"containers": [ONE], "overhead": {"cpu": "250m"}}, 1250),
        # overhead is on top of whichever is more
        (first(container(cpu="3"), overhead={"cpu": "250m"}), 3250),
        # pod-level requests stand for all containers
        (first(resources={"requests": {"cpu": "2"}}, overhead={"cpu": "250m"}), 2250),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 0),
        ({"containers": [{"resources": {}}, {"resources": None}, {}]}, 0),
        ({"containers": None}, 0),
        ({"containers": [container(cpu="0.0001")]}, 1),
        ({"containers": [container(cpu=2)]}, 2000),
        ({"containers": [container(cpu=0.5)]}, 500),
    ],
)
def test_cpu_is_counted_as_the_kubelet_counts_it(spec, cpu):
    assert requests_of(**spec).cpu == cpu


def test_every_resource_is_counted_and_no_zero_kept():
    requests = requests_of(
        containers=[
            container(**{"memory": "1Gi", "example.com/gpu": "1", "ephemeral-storage": "0"}),
            container(**{"memory": "1M", "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}),
        ],
        resources={"requests": {"ephemeral-storage": "5"}},
    )
    assert requests == Resources(
        memory=1024 * Mi + 1_000_000,
        pods=1,
        other=(("example.com/gpu", 3), ("hugepages-2Mi", 4 * Mi)),
    )


@pytest.mark.parametrize(
    ("metadata", "kind", "name"),
    [
        (owned("ReplicaSet", f"web-{HASH}", **{"pod-template-hash": HASH}), "Deployment", "web"),
        (owned("ReplicaSet", "web", **{"pod-template-hash": HASH}), "ReplicaSet", "web"),
        (owned("ReplicaSet", f"web-{HASH}"), "ReplicaSet", f"web-{HASH}"),
        (owned("StatefulSet", "db"), "StatefulSet", "db"),
        (owned("DaemonSet", "agent"), "DaemonSet", "agent"),
        # of a CronJob: minutes since the epoch, and neither a date nor a number of another length
        (owned("Job", "report-29400000"), "CronJob", "report"),
        (owned("Job", "report-20261127"), "Job", "report-20261127"),
        (owned("Job", "report-294000000"), "Job", "report-294000000"),
        (owned("Job", "report"), "Job", "report"),
        ({}, "Pod", "a"),
        ({"generateName": f"web-{HASH}-"}, "Pod", "a"),
        (marked(), "Deployment", "web"),
        # on its way out: the label is moved, the owner not yet gone
        (owned("ReplicaSet", f"web-{HASH}") | marked(), "Deployment", "web"),
        # the label alone says nothing
        ({"generateName": f"web-{HASH}-", "labels": {"kubedsm.io/migrating": HASH}}, "Pod", "a"),
        (
            owned("ReplicaSet", f"web-{HASH}", **{"kubedsm.io/migrating": HASH}),
            "ReplicaSet",
            f"web-{HASH}",
        ),
    ],
)
def test_whose_pod_it_is(metadata, kind, name):
    assert workload(metadata) == Workload("shop", kind, name)


def detached(metadata):
    return decoding.pod(made_pod(metadata=metadata)).detached


def test_a_pod_is_detached_while_it_carries_the_whole_mark_of_a_move():
    assert detached(marked())
    assert detached(owned("ReplicaSet", f"web-{HASH}") | marked())
    assert not detached({})


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kubedsm.io/migrating": HASH}},
        {"annotations": marked()["annotations"]},
        marked() | {"labels": {"kubedsm.io/migrating": "another"}},
        marked() | {"labels": {"kubedsm.io/migrating": HASH, "pod-template-hash": HASH}},
        marked(replicaSet=f"../../../v1/nodes/web-{HASH}"),
        marked(replicaSet=f"web?x=-{HASH}"),
        marked(replicaSet=None),
        marked(uid=""),
        marked(plan=7),
        marked() | {"annotations": {"kubedsm.io/move": "{"}},
        marked() | {"annotations": {"kubedsm.io/move": "[" * 10_000}},
        owned("ReplicaSet", f"web-{HASH}") | marked(uid="another"),
        owned("StatefulSet", f"web-{HASH}") | marked(),
    ],
)
def test_half_a_mark_or_one_that_does_not_fit_detaches_no_pod(metadata):
    assert not detached(metadata)


def test_reads_a_node():
    shown = {
        "metadata": {"name": "n2", "uid": "u", "labels": {"kubedsm.io/tier": "edge"}},
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "5G", "pods": "110", "a.b/c": "0"},
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "Hostname", "address": "n2"},
            ],
        },
    }
    node = decoding.node(shown)
    assert node == decoding.node(json.dumps(shown).encode())
    assert node.allocatable == Resources(cpu=4000, memory=5 * 10**9, pods=110)
    assert node.taints == (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
    assert node.unschedulable
    assert node.labels == {"kubedsm.io/tier": "edge"}
    assert node.addresses == ("10.0.0.1", "n2")
    assert decoding.node({"metadata": {"name": "new"}}).allocatable == Resources()


def test_images_of_pods_are_named_as_nodes_report_them():
    one = made_pod(
        initContainers=[{"image": "setup@sha256:0a"}],
        containers=[{"image": name} for name in ("web", "local:5000/web", "team/web:2")],
    )
    assert decoding.pod(one).images == (
        "setup@sha256:0a",
        "web:latest",
        "local:5000/web:latest",
        "team/web:2",
    )
    images = [{"names": ["web@sha256:0b", "web:latest"], "sizeBytes": 7}, {"names": None}]
    node = {"metadata": {"name": "n"}, "status": {"images": images}}
    assert decoding.node(node).images == {"web@sha256:0b": 7, "web:latest": 7}


def test_lines_of_every_type():
    metadata = {"name": "n2", "uid": "u", "resourceVersion": "7"}
    deleted = decoding.NODES.reader.line(
        json.dumps({"type": "DELETED", "object": {"metadata": metadata}}).encode()
    )
    assert deleted == decoding.Removed(decoding.Identity("", "n2", "u", "7"))
    bookmark = b'{"object":{"metadata":{"resourceVersion":"9"},"spec":null},"type":"BOOKMARK"}'
    assert decoding.PODS.reader.line(bookmark) == decoding.Bookmark("9")
    for error, status in ((Expired, {"code": 410, "reason": "Expired"}), (ServerError, {})):
        with pytest.raises(error):
            decoding.PODS.reader.line(json.dumps({"type": "ERROR", "object": status}).encode())


def test_a_deleted_pod_may_be_malformed():
    spoilt = made_pod(containers="none")
    line = json.dumps({"type": "DELETED", "object": spoilt}).encode()
    assert decoding.PODS.reader.line(line) == decoding.Removed(
        decoding.Identity("shop", "a", "u1", "")
    )


def test_a_page_of_a_list():
    body = b'{"metadata":{"resourceVersion":"5","continue":"t"},"items":[{},1]}'
    page = decoding.read_json("PodList", body, List)
    metadata = page.metadata
    assert (metadata.resource_version, metadata.continue_, len(page.items)) == ("5", "t", 2)
    body = b'{"metadata":{"resourceVersion":"5"},"items":null}'
    last = decoding.read_json("PodList", body, List)
    assert (last.metadata.continue_, last.items) == (None, None)
    with pytest.raises(
        WireError, match=r"^PodList: metadata: object missing required field `resou"
    ):
        decoding.read_json("PodList", b'{"metadata":{}}', List)


def test_reads_every_object_a_real_api_server_sent():
    pods = nodes = 0
    for exchange in recorded(API_SERVER):
        answer = exchange.get("response")
        if not isinstance(answer, dict):
            answer = {}
        kind = answer.get("kind", "")
        items = answer.get("items", [answer] if kind in ("Pod", "Node") else [])
        for item in items if kind in ("Pod", "PodList") else ():
            pods += decoding.pod(item).name == item["metadata"]["name"]
        for item in items if kind in ("Node", "NodeList") else ():
            nodes += decoding.node(item).allocatable.cpu > 0
        for event in exchange.get("watch") or ():
            if event.get("object", {}).get("kind") == "Pod":
                pods += bool(decoding.PODS.reader.line(json.dumps(event).encode()))
    assert pods > 50
    assert nodes > 4


def wishes(**annotations):
    named = {f"kubedsm.io/{name}": value for name, value in annotations.items()}
    metadata = {"name": "a", "namespace": "shop", "uid": "u", "annotations": named}
    return decoding.pod({"metadata": metadata, "spec": {"containers": []}}).wishes


@pytest.mark.parametrize(
    ("text", "qos"),
    [("0", 0.0), ("1", 1.0), ("0.5", 0.5), (".25", 0.25), ("1.0", 1.0), (" 0.5\n", 0.5)],
)
def test_a_share_is_a_number_between_0_and_1(text, qos):
    assert wishes(qos=text) == Wishes(qos)


@pytest.mark.parametrize(
    "text", ["", "2", "-0.1", "1.1", "nan", "inf", "50%", "half", "1e-1", "\u0660"]
)
def test_another_share_is_ignored_with_the_reason(text):
    said = f"kubedsm.io/qos: {text!r} is not a number between 0 and 1"
    assert wishes(qos=text) == Wishes(None, "", (said,))


@pytest.mark.parametrize("mode", ["surge", "recreate", "off"])
def test_a_mode_is_one_of_the_configurations(mode):
    assert wishes(migration=mode) == Wishes(None, mode)


def test_another_mode_is_ignored_and_the_share_is_not():
    said = "kubedsm.io/migration: 'never' is not surge, recreate or off"
    assert wishes(qos="0.5", migration="never") == Wishes(0.5, "", (said,))


@pytest.mark.parametrize(
    ("text", "rate"), [("0", 0.0), ("120", 120.0), ("0.5", 0.5), (".25 ", 0.25), ("1000000", 1e6)]
)
def test_a_rate_is_a_number_of_requests(text, rate):
    assert wishes(rate=text) == Wishes(rate=rate)
    assert wishes(qos="0.5", rate=text) == Wishes(0.5, rate=rate)


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "1e3", "5/s", "1000001", "9" * 40])
def test_another_rate_is_ignored_with_the_reason(text):
    said = f"kubedsm.io/rate: {text!r} is not a number of requests/s between 0 and 1000000"
    assert wishes(rate=text) == Wishes(ignored=(said,))


def test_demand_is_sites_with_weights():
    assert wishes(demand="munich=1, berlin=3.5").demand == (("berlin", 3.5), ("munich", 1.0))


@pytest.mark.parametrize(
    "text",
    [
        *("", "berlin", "berlin=-1", "berlin=inf", "berlin=nan", "berlin=0", "a=1,a=2", "a=1,,b=1"),
        ",".join(f"s{i}=1" for i in range(65)),
        "a" * 9999,
    ],
)
def test_other_demand_is_ignored_with_the_reason(text):
    found = wishes(demand=text)
    assert found.demand == ()
    [said] = found.ignored
    assert said.startswith("kubedsm.io/demand: ")
    assert said.endswith("is not up to 64 sites with weights, not all 0, such as berlin=3,munich=1")
    assert len(said) < 250


def test_without_them_there_are_none():
    assert wishes() is None
    assert wishes(other="x") is None

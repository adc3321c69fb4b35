import json

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.model.quantities import parse_units
from kubedsm_lab.emulator.cluster_file import load

SHORT = """\
nodes:
- {name: e1, tier: edge, cpu: 4, memory: 4Gi}
- name: c1
  tier: cloud
  cpu: 500m
  memory: 8e9
  pods: 20
  labels: {zone: far}
  taints:
  - {key: dedicated, value: batch, effect: NoSchedule}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: e1
  uid: 6d0b
  resourceVersion: "7"
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {kubedsm.io/tier: edge}
spec: {unschedulable: true}
status:
  capacity: {cpu: "4", memory: 4Gi, pods: "110"}
  allocatable: {cpu: 3900m, memory: 3Gi, pods: "100"}
  nodeInfo: {kubeletVersion: v1.36.0}
"""


@pytest.fixture
def write(tmp_path):
    def writer(text, name="cluster.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return writer


def test_the_short_form(write):
    edge, cloud = load(write(SHORT)).nodes
    assert edge["metadata"]["labels"] == {
        "kubernetes.io/hostname": "e1",
        "kubedsm.io/tier": "edge",
        "nodetype": "edge",
    }
    assert edge["status"]["allocatable"] == {"cpu": "4", "memory": "4Gi", "pods": "110"}
    assert cloud["metadata"]["labels"]["zone"] == "far"
    assert cloud["spec"]["taints"] == [
        {"key": "dedicated", "effect": "NoSchedule", "value": "batch"}
    ]
    assert parse_units(cloud["status"]["allocatable"]["memory"]) == 8 * 10**9


def test_a_node_without_a_tier(write):
    (node,) = load(write("nodes: [{name: n, cpu: 1, memory: 1Gi}]")).nodes
    assert node["metadata"]["labels"] == {"kubernetes.io/hostname": "n"}


def test_a_node_object_keeps_what_it_has_and_loses_what_a_server_sets(write):
    (node,) = load(write(NODE)).nodes
    assert node["metadata"] == {"name": "e1", "labels": {"kubedsm.io/tier": "edge"}}
    assert node["spec"] == {"unschedulable": True}
    assert node["status"]["allocatable"] == {"cpu": "3900m", "memory": "3Gi", "pods": "100"}
    assert node["status"]["nodeInfo"] == {"kubeletVersion": "v1.36.0"}


@pytest.mark.parametrize("kind", ["List", "NodeList"])
def test_a_list_as_json(write, kind):
    item = {
        "metadata": {"name": "e1"},
        "status": {"capacity": {"cpu": 2, "memory": "1Gi", "pods": 5}},
    }
    text = json.dumps({"kind": kind, "apiVersion": "v1", "items": [item]}, indent="\t")
    (node,) = load(write(text, "nodes.json")).nodes
    assert node["kind"] == "Node"
    assert node["status"]["allocatable"] == {"cpu": "2", "memory": "1Gi", "pods": "5"}


def test_several_documents(write):
    text = f"---\n{NODE}---\n{SHORT.replace('e1', 'e2')}---\n"
    assert [n["metadata"]["name"] for n in load(write(text)).nodes] == ["e1", "e2", "c1"]


def short(**changes):
    node = {"name": "e1", "tier": "edge", "cpu": 4, "memory": "4Gi", **changes}
    return json.dumps({"nodes": [{k: v for k, v in node.items() if v is not None}]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes: [", "not YAML: "),
        ("a: b: c", "not YAML: mapping values are not allowed"),
        ("nodes: []\nnodes: []", "nodes: given twice, line 2, column 1"),
        ("", "no node in it"),
        ("nodes: []", "no node in it"),
        ("just text", "neither Node objects nor `nodes:`"),
        ("nodes: 3", "nodes: expected `array`, got `int`"),
        ("nodez: []", "object contains unknown field `nodez`"),
        (short(speed=3), "nodes[0]: object contains unknown field `speed`"),
        (short(cpu=None), "nodes[0]: object missing required field `cpu`"),
        (short(tier="fog"), "nodes[0].tier: 'fog' is not edge or cloud"),
        (short(cpu="4 cores"), "nodes[0].cpu: '4 cores' is not a quantity"),
        (short(memory=-1), "nodes[0].memory: '-1' is negative"),
        (short(pods="many"), "nodes[0].pods: expected `int`, got `str`"),
        (short(name="E1"), 'nodes[0]: metadata.name: Invalid value: "E1": a lowercase'),
        (short(labels={"a": 1}), "nodes[0].labels[...]: expected `str`, got `int`"),
        (short(labels={"nodetype": "fog"}), "nodes[0]: unknown tier 'fog' in label nodetype"),
        (short(labels={"a b": "c"}), 'nodes[0]: metadata.labels: Invalid value: "a b"'),
        (
            short(taints=[{"key": "k", "effect": "Never"}]),
            "nodes[0].taints[0].effect: invalid enum value 'Never'",
        ),
        (f"{NODE}---\n{NODE}", "two nodes are called 'e1'"),
        (f"{NODE}---\nkind: Pod\n", "document 2: kind 'Pod' is not a Node"),
        ("kind: List\nitems: 3", "items: not a list"),
        ("kind: List\nitems: [{kind: Pod}]", "items[0]: kind 'Pod' is not a Node"),
        (NODE.replace("  name: e1\n", ""), "metadata: object missing required field `name`"),
        (NODE.replace("edge", "fog"), "unknown tier 'fog' in label kubedsm.io/tier"),
        (NODE.replace("3900m", "lots"), "status.allocatable.cpu: 'lots' is not a quantity"),
        (NODE.replace("memory: 3Gi, ", ""), "status.allocatable has no memory"),
        (NODE.replace("status:", "stratus:"), "object contains unknown field `stratus`"),
        (NODE.replace("v1\nkind", "v2\nkind"), "apiVersion: invalid enum value 'v2'"),
    ],
)
def test_every_mistake_is_one_line_with_file_place_and_reason(write, text, expected):
    path = write(text)
    with pytest.raises(DocumentError) as raised:
        load(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: {expected}")
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DocumentError, match=r"missing\.yaml: No such file or directory"):
        load(tmp_path / "missing.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DocumentError, match="binary: not UTF-8 text"):
        load(tmp_path / "binary")

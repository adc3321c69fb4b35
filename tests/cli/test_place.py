"""`kubedsm place --from`: the decisions of dumps, and dumps of every broken kind."""

import attrs
import pytest
from rich.console import Group

from kubedsm.cli.placement import explain_unplaced, place_pods, placement_tables
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire import dump as dumps
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate
from kubedsm.optimizer.programming.programme import Status
from support.command_line import kubedsm
from support.dumps import dump_of, node, pod
from support.printed import printed


def place(*items, configuration=None):
    return place_pods(
        dumps.read(dump_of(*items), "dump"), configuration or Configuration()
    ).as_json()


def bindings(placed):
    return {binding["pod"]: binding["node"] for binding in placed["bindings"]}


def test_why_a_pod_fits_nowhere_is_told_for_nodes_that_refuse_it_alike():
    taint = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
    read = dumps.read(
        dump_of(
            *(node(f"e{n}", "edge", cpu=f"{200 + n}m") for n in range(5)),
            node("c1", "cloud", taints=[taint]),
            node("c2", "cloud", cpu="1500m", memory="2500Mi"),
            *(pod(f"web-{n}", memory="2Gi") for n in range(5)),
            pod("bad", cpu="one"),
        ),
        "dump",
    )
    told = printed(Group(*explain_unplaced(place_pods(read, Configuration()))))
    message, *nodes, bad = (line.rstrip() for line in told.splitlines())
    assert message == (
        "shop/web-1, shop/web-2, shop/web-3 and 1 more: 0/7 nodes are available:"
        " 1 Insufficient memory, 1 node(s) had untolerated taint {gpu: only}, 6 Insufficient cpu."
    )
    both = "too little cpu (free 500m of 1 needed), too little memory (free 452Mi of 2Gi needed)"
    assert nodes == [
        "  too little cpu (free 200m to 204m of 1 needed): e0, e1, e2 and 2 more",
        f"  {both}: c2",
        "  node(s) had untolerated taint {gpu: only}: c1",
    ]
    assert bad.startswith("Pod shop/bad: spec.containers[0].resources.requests.cpu: 'one' is not")


def test_every_pod_counts_and_only_ours_that_wait_are_placed():
    read = dumps.read(
        dump_of(
            node("e1", "edge", cpu="2"),
            pod("foreign", node="e1", scheduler="default-scheduler"),
            pod("waiting-elsewhere", scheduler="default-scheduler"),
            pod("leaving", node="e1", deletionTimestamp="2026-01-01T00:00:00Z"),
            pod("ours"),
        ),
        "dump",
    )
    placed = place_pods(read, Configuration())
    assert placed.as_json()["bindings"] == []
    assert placed.foreign == 1
    assert [u["pod"] for u in placed.as_json()["unplaced"]] == ["shop/ours"]
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    failed = pod("failed")
    failed["status"]["phase"] = "Failed"
    leaving = pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z")
    placed = place(node("e1", "edge"), gated, failed, leaving)
    assert placed["bindings"] == placed["unplaced"] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "empty"),
        (b"{", "not JSON: unexpected end of data, line 1, column 2"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"[" * 100_000, "not JSON: "),
        (b"kind: List\nitems:\n- {kind: Node\n  spec: {}\n", "not YAML: "),
        (b"kind: List\nitems:\n- {kind: Node\n  spec: {}\n", ", line 4, column 7"),
        (b"kind: List\nkind: List", "kind: given twice, line 2, column 1"),
        (b"{kind: " + b"9" * 400 + b"}", "not JSON in YAML: "),
        (b"apiVersion: v1\nkind: ConfigMap", "this is a ConfigMap, not a dump of a cluster"),
        (b"suggester: {period: 5s}", "a configuration of KubeDSM (for --config), not a dump of"),
        (b"42", "no Kubernetes object"),
        (b"null", "no Kubernetes object"),
        (b"{}", "neither kind nor items"),
        (b'{"items": 7}', "items is 7"),
    ],
)
def test_what_is_no_dump_is_said_in_one_line_that_names_the_file(text, says):
    with pytest.raises(DocumentError) as caught:
        dumps.read(text, "nodes.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("nodes.json: ")
    assert "\n" not in str(caught.value)


def test_yaml_and_typed_lists_are_read_too():
    text = b"kind: NodeList\nitems:\n- metadata: {name: e1, labels: {nodetype: edge}}\n"
    read = dumps.read(text, "f")
    assert [event.node.name for event in read.events] == ["e1"]
    assert read.remarks == ("no Pod in f: assumed that there is none",)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (
            [pod("web")],
            "no Node in it; make it with `kubectl get nodes,pods -A -o json > dump.json`",
        ),
        ([node("e1", "edge", cpu="much")], "no Node in it can be read (Node e1: "),
        (
            [node("e1", "edge"), pod("a", cpu="one"), pod("b", cpu="one")],
            "no Pod in it can be read (the first of 2: Pod shop/a: ",
        ),
        ([node("e1", "edge"), pod("a", cpu="one"), pod("b")], ""),
        ([node("e1", "edge")], ""),
    ],
)
def test_what_nothing_can_be_decided_on_is_no_dump(items, says):
    found = dumps.read(dump_of(*items), "f").lacking
    assert found.startswith(says)
    assert bool(found) == bool(says)


def test_every_command_refuses_a_dump_without_nodes(tmp_path):
    path = tmp_path / "dump.json"
    path.write_bytes(dump_of(pod("web")))
    for command in (["place"], ["suggest"], ["pack"], ["explain", "web"], ["explain", "--all"]):
        done = kubedsm(*command, "--from", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"kubedsm: error: {path}: no Node in it; ")
        assert done.stderr.count("\n") == 1


def test_what_is_not_proven_is_told_with_the_most_there_could_be():
    dump = dumps.read(dump_of(node("e1", "edge", cpu="2"), pod("web-1")), "dump")
    placement = place_pods(dump, Configuration())
    placed = Certificate("pods placed", Status.FEASIBLE, 188, 203)
    less_sure = attrs.evolve(placement.decision, proof=NO_PROOF, certificates=(placed,))
    placement = attrs.evolve(placement, decision=less_sure)
    told = printed(placement_tables(placement, 1.0))
    assert "not proven optimal" in told
    assert "pods placed: 188 of at most 203 (gap 7.4 %)" in told
    assert placement.as_json()["certificates"] == [placed.as_json()]

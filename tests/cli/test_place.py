"""`kubedsm place`, `suggest` and `pack` on dumps, and dumps of every broken kind."""

import json
import threading

import attrs
import orjson
import pytest
from click.testing import CliRunner
from rich.console import Group

from kubedsm.cli import console, migration_advice
from kubedsm.cli.commands import suggest
from kubedsm.cli.inputs import mirror_of
from kubedsm.cli.migration_advice import advice_tables, advise
from kubedsm.cli.placement import explain_unplaced, place_pods, placement_tables
from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire import dump as dumps
from kubedsm.model.deadline import Deadline
from kubedsm.objective.fragmentation import Fragmentation, Measure, request_mix
from kubedsm.optimizer.programming.in_order import NO_PROOF, Certificate
from kubedsm.optimizer.programming.programme import Status
from support.command_line import kubedsm
from support.dumps import dump_of, node, pod, replica
from support.placement_literal import literal_fragmentation
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
    assert nodes == [
        "  NodeResourcesFit: Insufficient cpu: e0, e1, e2 and 2 more",
        "  NodeResourcesFit: Insufficient cpu, Insufficient memory: c2",
        "  TaintToleration: node(s) had untolerated taint {gpu: only}: c1",
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


@pytest.mark.parametrize("measure", list(Measure))
def test_the_fragmentation_is_that_of_the_edge_with_the_bindings(measure):
    read = dumps.read(dump_of(node("e1", "edge", cpu="3"), pod("a")), "dump")
    placement = place_pods(read, attrs.evolve(Configuration(), fragmentation=measure))
    [(placed, at, _)], shot = placement.decision.bindings, placement.snapshot
    measured = Fragmentation(measure, request_mix(shot))
    left = shot.free[at] - placed.requests
    assert placement.as_json()["score"]["fragmentation"] == literal_fragmentation(
        measured, shot.nodes[at], left
    )


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
        (b"42", "neither a Kubernetes object nor a list of them: 42"),
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


def said_of(*items, configuration=None):
    configuration = configuration or Configuration()
    mirror = mirror_of(dumps.read(dump_of(*items), "dump"), configuration)
    said = advise(mirror.snapshot(), configuration).as_json()
    orjson.dumps(said)
    return said


EDGE, CLOUD = node("e1", "edge", cpu="2"), node("c1", "cloud", cpu="20", memory="80Gi")


def test_a_pod_in_the_cloud_moves_to_an_edge_that_has_room():
    said = said_of(EDGE, CLOUD, replica("web-1", "web", "c1"))
    [move] = said["moves"]
    gain = move.pop("gain")
    assert move == {
        "pod": "shop/web-1",
        "from": "c1",
        "to": "e1",
        "kind": "cloud-to-edge",
        "purpose": f"QoS score {gain:+.3f} per migration",
        "group": 0,
        "mode": "surge",
    }
    assert gain == pytest.approx(1)
    assert said["order"] == [["shop/web-1"]]
    assert said["score"]["before"]["edgeShare"] == {"shop/web": 0.0}
    assert said["score"]["after"]["edgeShare"] == {"shop/web": 1.0}
    assert said["score"]["after"]["qos"] > said["score"]["before"]["qos"]


def test_workloads_of_one_name_have_their_kind():
    twin = replica("web-0", "web", "e1", kind="StatefulSet")
    said = said_of(EDGE, CLOUD, replica("web-1", "web", "c1"), twin)
    shares = {"deployment/shop/web": 0.0, "statefulset/shop/web": 1.0}
    assert said["score"]["before"]["edgeShare"] == shares


def test_what_is_not_proven_or_late_is_told_with_the_most_there_could_be():
    dump = dumps.read(dump_of(EDGE, CLOUD, replica("web-1", "web", "c1")), "dump")
    mirror = mirror_of(dump, Configuration())
    advice = advise(mirror.snapshot(), Configuration())
    worth = Certificate("worth", Status.FEASIBLE, 3_000_000_000, 4_000_000_000, unit=10**9)
    less_sure = attrs.evolve(advice.suggestion, proven=False, certificate=worth)
    advice = attrs.evolve(advice, suggestion=less_sure)
    told = printed(advice_tables(advice, 1.0))
    assert "not proven optimal within the limits" in told
    assert "worth: 3 of at most 4 (gap 25.0 %)" in told
    assert advice.as_json()["certificates"] == [worth.as_json()]
    items = [EDGE, CLOUD, replica("web-1", "web", "c1")]
    mirror = mirror_of(dumps.read(dump_of(*items), "dump"), Configuration())
    advice = advise(mirror.snapshot(), Configuration(), Deadline(lambda: 1.0, 0.0))
    assert not advice.complete
    assert advice.as_json()["complete"] is advice.as_json()["proven"] is False
    assert "Time limit reached" in printed(advice_tables(advice, 1.0))
    advice = advise(mirror.snapshot(), Configuration())
    assert advice.complete
    assert "Time limit reached" not in printed(advice_tables(advice, 1.0))


def test_a_pod_stays_in_the_cloud_for_a_slower_edge_and_a_stateful_one_is_recreated():
    # As the running scheduler says.
    items = node("e1", "edge"), node("c1", "cloud"), replica("web-0", "web", "c1")
    mirror = mirror_of(dumps.read(dump_of(*items), "dump"), Configuration())
    snapshot = mirror.snapshot()
    assert advise(snapshot, Configuration()).suggestion.moves
    measured = attrs.evolve(snapshot.measured, slower=frozenset(snapshot.census.shares))
    advice = advise(attrs.evolve(snapshot, measured=measured), Configuration())
    assert not advice.suggestion.moves
    why = "the edge answers its workload's requests more slowly than the cloud"
    assert advice.as_json()["rejected"] == [{"pod": "shop/web-0", "reason": why}]
    said = said_of(EDGE, CLOUD, replica("db-0", "db", "c1", kind="StatefulSet"))
    assert [move["mode"] for move in said["moves"]] == ["recreate"]


def test_the_budget_option_is_the_deadline_and_progress_is_not_on_stdout(monkeypatch, tmp_path):
    seen = []

    def slow(snapshot, configuration, deadline):
        seen.append(round(deadline.time_left()))
        assert reported.wait(60)
        return advise(snapshot, configuration, deadline)

    def remark(text):
        seen.append(text)
        reported.set()

    reported = threading.Event()
    monkeypatch.setattr(migration_advice, "advise", slow)
    monkeypatch.setattr(console, "PROGRESS_PERIOD", 0.01)
    monkeypatch.setattr(console, "remark", remark)
    dump = tmp_path / "dump.json"
    dump.write_bytes(dump_of(EDGE, CLOUD, replica("web-1", "web", "c1")))
    called = ["--from", str(dump), "-o", "json", "--budget", "7s"]
    done = CliRunner().invoke(suggest, called, catch_exceptions=False)
    assert seen[:2] == [7, "planning migrations: 0.01 s of at most 7 s"]
    assert orjson.loads(done.stdout)["moves"]


def running(name, on, memory="2Gi"):
    return replica(name, name, on, memory=memory)


def waiting(name, memory="3Gi", **spec):
    return replica(name, name, memory=memory, **spec)


@pytest.fixture
def packed(tmp_path):
    def said(*items, configuration="", output="json"):
        dump, config = tmp_path / "dump.json", tmp_path / "config.yaml"
        dump.write_bytes(dump_of(*items))
        config.write_text(configuration or "{}", encoding="utf-8")
        ended = kubedsm("pack", "--from", dump, "--config", config, "-o", output)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout) if output == "json" else ended.stdout

    return said


TWO = [node("c1", "cloud", memory="4Gi"), node("c2", "cloud", memory="4Gi")]
IN_PIECES = [*TWO, running("a", "c1"), running("b", "c2")]


def test_it_says_what_moves_who_gets_a_node_and_how_sure_that_is(packed):
    said = packed(*IN_PIECES, waiting("large"))
    [move] = said["moves"]
    assert move["kind"] == "cloud-to-cloud"
    assert said["order"] == [[move["pod"]]]
    assert said["awaited"] == [{"pod": "shop/large", "node": move["from"]}]
    assert said["placed"] == [{"priority": 0, "before": 2, "after": 3}]
    assert (said["evicted"], said["waiting"]) == ([], [])
    assert said["proven"] is said["placedProven"] is True
    assert [each["goal"] for each in said["certificates"]] == ["placed", "staying"]
    told = packed(*IN_PIECES, waiting("large"), output="text")
    assert "Pods placed: 1, still pending: 0, migrated: 1, evicted: 0." in told


@pytest.mark.parametrize("command", ["place", "suggest"])
def test_commands_that_free_no_capacity_refer_to_this_one(command, tmp_path):
    """Pods of 2, 2 and 3 GiB on two nodes of 4 GiB: one migration places all."""
    dump, line = tmp_path / "dump.json", "Not evaluated: migrations that free capacity for 1 pend"
    dump.write_bytes(dump_of(*IN_PIECES, waiting("large")))
    assert line in kubedsm(command, "--from", dump).stdout
    dump.write_bytes(dump_of(*IN_PIECES))
    assert line not in kubedsm(command, "--from", dump).stdout


def test_it_says_that_nothing_makes_room_and_whether_that_is_proven(packed):
    """4 GiB are free in all, but there are no two ways to put the others."""
    said = packed(*IN_PIECES, waiting("large", memory="5Gi"))
    assert (said["moves"], said["awaited"], said["placedProven"]) == ([], [], True)
    assert said["waiting"] == ["shop/large"]
    told = packed(*IN_PIECES, waiting("large", memory="5Gi"), output="text")
    assert "No migration frees capacity for a pending pod: proven." in told
    assert packed(*IN_PIECES, output="text") == "No pod is pending.\n"


def test_pods_that_are_scheduled_as_they_are_need_no_packing(packed):
    said = packed(*IN_PIECES, waiting("large"), waiting("small", memory="1Gi"))
    assert [each["pod"] for each in said["scheduled"]] == ["shop/small"]
    assert [each["pod"] for each in said["awaited"]] == ["shop/large"]
    told = packed(*TWO, waiting("large"), output="text")
    assert "No migration is needed: all pending pods fit (1)." in told


def test_priority_and_configuration_decide_who_may_be_moved(packed):
    full = [TWO[0], running("a", "c1", memory="4Gi")]
    waits = waiting("large", memory="4Gi", priority=10)
    assert packed(*full, waits)["evicted"] == []
    said = packed(*full, waits, configuration="optimiser: {allowEvictions: true}")
    assert said["evicted"] == ["shop/a"]
    assert said["awaited"] == [{"pod": "shop/large", "node": "c1"}]
    said = packed(*IN_PIECES, waiting("large"), configuration="migration: {mode: 'off'}")
    assert (said["moves"], said["waiting"]) == ([], ["shop/large"])

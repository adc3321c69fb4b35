"""`kubedsm suggest --from`: what is said of dumps, and of pods that must stay."""

import threading

import attrs
import orjson
import pytest
from click.testing import CliRunner

from kubedsm.cli import console, migration_advice
from kubedsm.cli.commands import suggest
from kubedsm.cli.inputs import mirror_of
from kubedsm.cli.migration_advice import advice_tables, advise
from kubedsm.config.settings import Configuration
from kubedsm.kube.wire import dump as dumps
from kubedsm.model.deadline import Deadline
from kubedsm.optimizer.programming.in_order import Certificate
from kubedsm.optimizer.programming.programme import Status
from support.dumps import dump_of, node, pod
from support.printed import printed

HASH = "5b576d85cf"


def running(name, on, workload="web", kind="ReplicaSet", **changes):
    owner = {"kind": kind, "name": f"{workload}-{HASH}", "controller": True}
    made = pod(
        name,
        node=on,
        ownerReferences=[owner],
        labels={"pod-template-hash": HASH},
        annotations=changes.pop("annotations", {}),
    )
    made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    made["spec"] |= changes
    return made


def said_of(*items, configuration=None):
    configuration = configuration or Configuration()
    mirror = mirror_of(dumps.read(dump_of(*items), "dump"), configuration)
    said = advise(mirror.snapshot(), configuration).as_json()
    orjson.dumps(said)
    return said


EDGE, CLOUD = node("e1", "edge", cpu="2"), node("c1", "cloud", cpu="20", memory="80Gi")


def test_a_pod_in_the_cloud_moves_to_an_edge_that_has_room():
    said = said_of(EDGE, CLOUD, running("web-1", "c1"))
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
    twin = running("web-0", "e1", kind="StatefulSet")
    twin["metadata"]["ownerReferences"][0]["name"] = "web"
    said = said_of(EDGE, CLOUD, running("web-1", "c1"), twin)
    shares = {"deployment/shop/web": 0.0, "statefulset/shop/web": 1.0}
    assert said["score"]["before"]["edgeShare"] == shares


def test_what_is_not_proven_or_late_is_told_with_the_most_there_could_be():
    dump = dumps.read(dump_of(EDGE, CLOUD, running("web-1", "c1")), "dump")
    mirror = mirror_of(dump, Configuration())
    advice = advise(mirror.snapshot(), Configuration())
    worth = Certificate("worth", Status.FEASIBLE, 3_000_000_000, 4_000_000_000, unit=10**9)
    less_sure = attrs.evolve(advice.suggestion, proven=False, certificate=worth)
    advice = attrs.evolve(advice, suggestion=less_sure)
    told = printed(advice_tables(advice, 1.0))
    assert "not proven optimal within the limits" in told
    assert "worth: 3 of at most 4 (gap 25.0 %)" in told
    assert advice.as_json()["certificates"] == [worth.as_json()]
    items = [EDGE, CLOUD, running("web-1", "c1")]
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
    items = node("e1", "edge"), node("c1", "cloud"), running("web-0", "c1")
    mirror = mirror_of(dumps.read(dump_of(*items), "dump"), Configuration())
    snapshot = mirror.snapshot()
    assert advise(snapshot, Configuration()).suggestion.moves
    measured = attrs.evolve(snapshot.measured, slower=frozenset(snapshot.census.shares))
    advice = advise(attrs.evolve(snapshot, measured=measured), Configuration())
    assert not advice.suggestion.moves
    why = "the edge answers its workload's requests more slowly than the cloud"
    assert advice.as_json()["rejected"] == [{"pod": "shop/web-0", "reason": why}]
    said = said_of(EDGE, CLOUD, running("db-0", "c1", workload="db", kind="StatefulSet"))
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
    dump.write_bytes(dump_of(EDGE, CLOUD, running("web-1", "c1")))
    called = ["--from", str(dump), "-o", "json", "--budget", "7s"]
    done = CliRunner().invoke(suggest, called, catch_exceptions=False)
    assert seen[:2] == [7, "planning migrations: 0.01 s of at most 7 s"]
    assert orjson.loads(done.stdout)["moves"]

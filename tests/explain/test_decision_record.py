"""What the running scheduler remembers of its decisions, and how it explains them."""

import asyncio

import attrs
import msgspec

from kubedsm.config.settings import Configuration, load
from kubedsm.explain import decision_record as record_module
from kubedsm.explain.decision import explain_decision
from kubedsm.explain.decision_record import DecisionRecord, Kind
from kubedsm.model.model import Node as CoreNode
from kubedsm.model.model import NodeName, Resources, Tier, Uid
from kubedsm.model.snapshot import Snapshot
from kubedsm.optimizer.placing.decision import Binding, Decision
from kubedsm_lab.emulator.api.resources import NODES, PODS, SERVICES
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.asked import as_sent
from support.pods import made_pod
from support.worlds import CLOUD, EDGE, emulated

MOVING = load(
    """
suggester: {period: 1s}
migration: {cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "test",
)


def explanations(world, name):
    decisions = world.runtime.decisions
    recalled = [decisions.recall(uid, full) for uid, full in decisions.find_pods(name).items()]
    return [as_sent(decisions.explain(each)) for each in recalled if each]


async def explained_pending(world):
    said = await world.runtime.planner.solve(world.runtime.decisions.pending())
    return msgspec.json.decode(said)["pending"]


def newest(world):
    return next(world.runtime.decisions.record.newest_first())


def name_of(pod):
    return f"default/{pod['metadata']['name']}"


async def test_a_batch_is_noted_with_what_was_chosen_and_what_it_gained():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("web", 5)
        world.deploy("huge", 1, cpu="64")
        await world.until_bound(5, 2)
        said = as_sent(newest(world).facts())
        assert said["kind"] == "batch"
        assert said["at"].startswith("2026-01-01T00:00:00.")
        assert said["at"].endswith("Z")
        assert sorted(p["node"] or "none" for p in said["pods"]) == ["c1", *["e1"] * 4, "none"]
        [unplaced] = [p for p in said["pods"] if p["node"] is None]
        assert unplaced["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert said["qos"]["before"] < said["qos"]["after"]
        assert said["proven"] is True
        assert said["moves"] == []
        [line, *_] = explain_decision(newest(world), None, []).lines
        assert line[-1] == (
            " scheduled 5 new pods, 4 to the edge and 1 to the cloud, and found no node for 1 new"
            " pod."
        )


async def test_nodes_are_explained_as_they_were_when_it_was_decided():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        await world.bring_up("web", 5, within=2)
        await asyncio.sleep(2)
        share = "edge share of default/web 0/5 -> 4/5, target 100%"
        messages = {e["message"].partition(": ")[2] for e in world.events("Scheduled")}
        assert messages == {
            f"cloud node; {share}; 1 of 2 nodes feasible, 1 Insufficient cpu",
            f"edge node; {share}; 2 of 2 nodes feasible",
        }
        [cloud_pod] = [p for p in world.pods() if p["spec"]["nodeName"] == "c1"]
        world.cordon("c1")
        world.runtime.configuration.replace('services: {"*": {qos: 0.2}}', "test", 0.0)
        await asyncio.sleep(5)
        [said] = explanations(world, cloud_pod["metadata"]["name"])
        cloud, edge = said["nodes"]
        assert (said["pod"], said["chosen"], said["bound"]) == (name_of(cloud_pod), "c1", True)
        # The rest of its batch took the edge; the cloud node was not cordoned yet.
        assert (edge["feasible"], edge["reasons"]) == (False, ["Insufficient cpu"])
        assert edge["change"] == "free 1 cpu on the node"
        assert cloud["feasible"]
        assert said["nodesAsOf"] == "decision"
        assert said["decidedAt"] < "2026-01-01T00:00:02"
        assert said["summary"] in messages
        edge_pod = next(p for p in world.pods() if p["spec"]["nodeName"] == "e1")
        [said] = explanations(world, edge_pod["metadata"]["name"])
        assert said["reason"][-1] == " targets 5 of its 5 pods at the edge (100%) and had 0"


async def test_a_waiting_pod_is_explained_and_noted_once_however_often_it_is_tried():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(300)
        entries = list(world.runtime.decisions.record.newest_first())
        assert len(entries) == 1
        [said] = explanations(world, name_of(world.pods()[0]))
        assert (said["chosen"], said["bound"]) == (None, False)
        assert said["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        assert [n["change"] for n in said["nodes"]] == [
            "use a larger node, or request at most 20 cpu",
            "use a larger node, or request at most 4 cpu",
        ]
        [pending] = await explained_pending(world)
        assert pending["nodesAsOf"] == "now"
        assert pending["nodes"] == said["nodes"]
        assert pending["decidedAt"] == said["decidedAt"]


async def test_of_what_is_not_kept_any_more_the_choice_is_still_known(monkeypatch):
    monkeypatch.setattr(record_module, "SNAPSHOTS", 1)
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        await world.bring_up("web", 1, within=2)
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(1)
        [pod] = world.pods("web")
        [said] = explanations(world, name_of(pod))
        assert (said["chosen"], said["nodes"], said["nodesAsOf"]) == ("e1", [], None)
        assert (bool(said["decidedAt"]), said["gone"]) == (True, False)
        world.api.delete(PODS, "default", pod["metadata"]["name"], grace_seconds=0)
        await asyncio.sleep(1)
        [said] = explanations(world, name_of(pod))
        assert (said["chosen"], said["gone"]) == ("e1", True)


async def test_pods_of_another_scheduler_or_nothing_was_decided_about_are_told_as_such():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        world.deploy("gated", 1, schedulingGates=[{"name": "example.com/wait"}])
        world.deploy("theirs", 1, schedulerName="default-scheduler")
        world.deploy("huge", 1, cpu="64")
        await asyncio.sleep(1)
        decisions = world.runtime.decisions
        [(theirs, _)] = decisions.find_pods(name_of(world.pods("theirs")[0])).items()
        [(huge, _)] = decisions.find_pods(name_of(world.pods("huge")[0])).items()
        said = decisions.facts_of_pod(theirs, "theirs")()
        assert (said.left_to, said.chosen, said.nodes_as_of) == ("default-scheduler", None, "now")
        assert "kubedsm in Deployment default/theirs" in said.opt_in
        assert decisions.facts_of_pod(huge, "huge")().left_to is None
        waiting = {each["pod"].split("-")[0]: each for each in await explained_pending(world)}
        assert all(each["chosen"] is None for each in waiting.values())
        assert waiting["default/huge"]["leftTo"] is None
        assert waiting["default/theirs"]["leftTo"] == "default-scheduler"
        gated = waiting["default/gated"]
        assert (gated["nodesAsOf"], gated["decidedAt"]) == ("now", None)
        assert "scheduling gates" in gated["message"]
        assert explanations(world, gated["pod"]) == []


async def test_a_move_is_noted_with_its_end_and_explains_the_replacement():
    async with emulated(CLOUD, configuration=MOVING) as world, world.scheduler():
        await world.bring_up("web", 1, within=3)
        await asyncio.sleep(2)
        [old] = world.pods()
        world.api.create(NODES, EDGE)
        await world.until(lambda: world.placed("web") == {"e1": 1}, 30)
        await world.until(lambda: world.events("Migrated"), 5)
        [new] = world.pods()
        entry = newest(world)
        [move] = as_sent(entry.facts())["moves"]
        assert entry.kind is Kind.SUGGESTION
        assert (move["pod"], move["replacement"]) == (name_of(old), name_of(new))
        assert (move["from"], move["to"], move["kind"]) == ("c1", "e1", "cloud-to-edge")
        assert (move["outcome"], move["reason"]) == ("completed", None)
        assert move["gain"] > 0
        [of_new] = explanations(world, name_of(new))
        assert (of_new["chosen"], of_new["moves"]) == ("e1", [move])
        assert of_new["summary"].startswith(
            f"in place of {name_of(old)} on c1: cloud-to-edge, QoS score +"
        )
        [edge] = [n for n in of_new["nodes"] if n["node"] == "e1"]
        assert edge["feasible"]
        [of_old] = explanations(world, name_of(old))
        assert (of_old["chosen"], of_old["bound"], of_old["moves"]) == ("c1", False, [move])
        await world.until(lambda: len(world.events("Scheduled")) == 2, 5)
        [event] = [
            e
            for e in world.events("Scheduled")
            if e["involvedObject"]["uid"] == new["metadata"]["uid"]
        ]
        assert event["message"].endswith(of_new["summary"])


async def test_moves_that_fail_or_are_only_proposed_say_so():
    async with emulated(CLOUD, configuration=MOVING) as world, world.scheduler():
        service = {
            "metadata": {"name": "pinned", "namespace": "default"},
            "spec": {"selector": {"pod-template-hash": "x"}, "ports": [{"port": 80}]},
        }
        world.api.create(SERVICES, service, namespace="default")
        await world.bring_up("web", 1, within=3)
        await asyncio.sleep(2)
        world.api.create(NODES, EDGE)
        await world.until(lambda: world.events("MigrationFailed"), 30)
        [move] = newest(world).moves
        assert move.outcome == "failed"
        assert "selects by pod-template-hash" in move.reason
    proposing = load("suggester: {period: 1s, mode: suggest}", "test")
    async with emulated(CLOUD, configuration=proposing) as world, world.scheduler():
        await world.bring_up("web", 1, within=3)
        await asyncio.sleep(2)
        world.api.create(NODES, EDGE)
        await asyncio.sleep(30)
        entries = list(world.runtime.decisions.record.newest_first())
        assert [e.kind for e in entries] == [Kind.SUGGESTION, Kind.BATCH]
        assert [m.outcome for m in entries[0].moves] == ["proposed"]


def snapshot_with(number):
    node_ = CoreNode(NodeName("e1"), {}, Resources(cpu=10**6), tier=Tier.EDGE)
    pod = made_pod(f"web-{number}", uid=f"u{number}", cpu=1000)
    return Snapshot({node_.name: node_}, {pod.uid: pod}, {node_.name: node_.allocatable}, {}), pod


def note(record, number, placed=True):
    snapshot, pod = snapshot_with(number)
    bindings = (Binding(pod, NodeName("e1"), Tier.EDGE),) if placed else ()
    messages = {} if placed else {pod.uid: "no room"}
    record.batch(snapshot, Decision(bindings), messages, Configuration())


async def test_it_is_bounded_and_large_snapshots_are_fewer(monkeypatch):
    monkeypatch.setattr(record_module, "ENTRIES", 20)
    monkeypatch.setattr(record_module, "SNAPSHOTS", 5)
    record = DecisionRecord(VirtualClock())
    for number in range(30):
        note(record, number)
    entries = list(record.newest_first())
    assert [e.number for e in entries] == list(range(30, 10, -1))
    assert [record.basis(e) is not None for e in entries] == [True] * 5 + [False] * 15
    assert record.find_choice(Uid("u9")) is None
    assert record.find_choice(Uid("u10")).node == "e1"
    note(record, 10)  # in place of the first decision about it, which is forgotten
    assert record.find_choice(Uid("u10")).node == "e1"
    monkeypatch.setattr(record_module, "SNAPSHOTS", 256)
    monkeypatch.setattr(record_module, "SNAPSHOT_OBJECTS", 6)
    record = DecisionRecord(VirtualClock())
    for number in range(10):
        note(record, number)
    kept = [e.number for e in record.newest_first() if record.basis(e) is not None]
    assert kept == [10, 9, 8]
    monkeypatch.setattr(record_module, "SNAPSHOT_OBJECTS", 1)
    note(record, 10)
    assert [e.number for e in record.newest_first() if record.basis(e) is not None] == [11]


async def test_a_try_in_vain_replaces_the_last_one_and_nothing_else():
    record = DecisionRecord(VirtualClock())
    note(record, 1, placed=False)
    note(record, 2, placed=False)
    note(record, 1, placed=False)
    assert [e.pods[0].uid for e in record.newest_first()] == ["u1", "u2"]
    note(record, 1)
    note(record, 2)
    assert [e.pods[0].node for e in record.newest_first()] == ["e1", "e1", None, None]
    assert record.find_choice(Uid("u1")).node == "e1"


async def test_a_decision_that_ran_out_of_time_says_so():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        await world.bring_up("web", 1, within=5)
        for late in (False, True):
            entry = attrs.evolve(newest(world), out_of_time=late)
            lines = ["".join(map(str, line)) for line in explain_decision(entry, None, []).lines]
            told = "Cut short: the time limit passed first"
            assert any(line.startswith(told) for line in lines) is late

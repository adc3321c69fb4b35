"""What is written on pods, when, and what becomes of it if it cannot be."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import attrs
import orjson
import pytest
from structlog.testing import capture_logs

from kubedsm.events.event_recorder import (
    BURST,
    BURST_GAP,
    BURST_WAIT,
    CHANGED,
    EACH,
    SAME,
    EventRecorder,
)
from kubedsm.events.event_writer import EventWriter
from kubedsm.execution.bind_calls import tier_marks
from kubedsm.execution.placement_manager import PlacementManager
from kubedsm.explain.listener import Listener
from kubedsm.kube.client.port import OutcomeUnknown, Response, Unreachable
from kubedsm.kube.wire.decoding import ConfigMap, Identity
from kubedsm.model.events import Change, NodeApplied, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import Node, NodeName, Resources, Tier
from kubedsm.optimizer.placing.decision import Binding
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.answering_cluster import refusal
from support.handles import plan_runner
from support.pods import made_pod

E1 = NodeName("e1")


@attrs.define
class Paper:
    """Takes down what is written; `answer` says what becomes of a request, None for success."""

    answer: object = lambda request: None
    latency: float = 0.01
    #: text of each condition written, reason and text of each Event, and name and count of each
    #: that was written once more
    conditions: list = attrs.field(factory=list)
    events: list = attrs.field(factory=list)
    counts: list = attrs.field(factory=list)
    tries: Counter = attrs.field(factory=Counter)

    async def request(self, request, *, timeout):
        kind = request.path.split("/")[-1]
        self.tries[kind] += 1
        outcome = self.answer(request)
        await asyncio.sleep(self.latency)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            return outcome
        if kind == "status":
            [condition] = request.body["status"]["conditions"]
            name = request.path.split("/")[-2]
            self.conditions.append((name, condition["reason"], condition["message"]))
        elif kind == "events":
            name = request.body["regarding"]["name"]
            self.events.append((name, request.body["reason"], request.body["note"]))
            return Response(201, orjson.dumps({"metadata": {"name": f"e{len(self.events)}"}}))
        elif "series" in request.body:
            self.counts.append((kind, request.body["series"]["count"]))
        return Response(200, b"{}")


@attrs.define
class Scene:
    paper: Paper
    mirror: ClusterMirror
    manager: PlacementManager
    recorder: EventRecorder
    clock: VirtualClock

    def add(self, *pods):
        for each in pods:
            self.mirror.apply(PodApplied(each))

    def delete(self, gone):
        self.mirror.apply(PodDeleted(gone.uid, gone.namespace, gone.name))
        self.recorder.forget(Change(pod_before=gone))


@attrs.frozen
class SlowClock(VirtualClock):
    """Clock of which a second takes two seconds of the event loop's."""

    def monotonic(self):
        return super().monotonic() / 2


@asynccontextmanager
async def recording(answer=lambda request: None, clock=None):
    clock, paper, mirror = clock or VirtualClock(), Paper(answer), ClusterMirror()
    mirror.apply(
        NodeApplied(Node(E1, {"kubedsm.io/tier": "edge"}, Resources(10**6, 2**40, pods=10**6)))
    )
    parts = plan_runner(paper, mirror, clock)
    manager = parts.manager
    recorder = EventRecorder(
        mirror,
        parts.followed.keys(),
        lambda: not parts.binds.none_under_way.is_set(),
        parts.supervisor,
        EventWriter(paper, clock, parts.throttle, "test", Listener()),
        lambda pod: "",
    )
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in (manager, recorder)]
        await asyncio.sleep(0)
        yield Scene(paper, mirror, manager, recorder, clock)
        for task in running:
            task.cancel()


A, B = made_pod("a"), made_pod("b")


async def test_of_any_number_of_waiting_pods_each_is_told():
    async with recording() as scene:
        pods = [made_pod(f"p{number}") for number in range(3_000)]
        scene.add(*pods)
        for each in pods:
            scene.recorder.record_unschedulable(each, "no room")
        await asyncio.sleep(6_000 * EACH)
        assert {name for name, _, _ in scene.paper.conditions} == {each.name for each in pods}
        assert len(scene.paper.events) == 3_000


async def test_only_the_newest_is_said_and_nothing_twice_in_a_row():
    async with recording() as scene:
        scene.add(A)
        for text in ("one", "two", "two", "three"):
            scene.recorder.record_unschedulable(A, text)
        await asyncio.sleep(1)
        for text in ("three", "four", "three"):
            scene.recorder.record_unschedulable(A, text)
        await asyncio.sleep(1)
        assert scene.paper.conditions == [("a", "Unschedulable", "three")]


async def test_what_comes_while_the_older_is_written_is_written_after_it():
    async with recording() as scene:
        scene.add(A)
        scene.paper.latency = 5.0
        scene.recorder.record_unschedulable(A, "one")
        await asyncio.sleep(0.005)
        scene.paper.latency = 0.01
        scene.recorder.record_unschedulable(A, "two")
        await asyncio.sleep(10 + CHANGED)
        assert [text for _, _, text in scene.paper.conditions] == ["one", "two"]


@pytest.mark.parametrize("outcome", [Unreachable("refused"), OutcomeUnknown("?"), refusal(503)])
async def test_a_condition_is_tried_again_and_an_event_is_lost_and_counted(outcome):
    failing = True
    async with recording(lambda request: outcome if failing else None) as scene:
        scene.add(A, B)
        scene.recorder.record_unschedulable(A, "no room")
        scene.recorder.record_bind(B, E1)
        await asyncio.sleep(4)
        failing = False
        await asyncio.sleep(20)
        assert scene.paper.conditions == [("a", "Unschedulable", "no room")]
        assert [reason for _, reason, _ in scene.paper.events] == ["FailedScheduling"]
        assert scene.recorder.lost == 1


async def test_tries_of_a_condition_come_to_an_end_and_its_event_is_written():
    async with recording(lambda r: refusal(503) if r.path.endswith("status") else None) as scene:
        scene.add(A)
        scene.recorder.record_unschedulable(A, "no room")
        await asyncio.sleep(1000)
        assert scene.paper.tries == {"status": 5, "events": 1}
        assert scene.paper.events == [("a", "FailedScheduling", "no room")]


async def test_the_outcome_is_written_after_any_number_of_events_about_the_same_pod():
    async with recording() as scene:
        scene.add(A)
        for proposal in range(40):
            scene.recorder.record_unschedulable(A, f"0/{proposal} nodes")
            scene.recorder.record_event("MigrationProposed", A, f"proposal {proposal}")
            await asyncio.sleep(CHANGED + 1)
        scene.recorder.record_bind(A, E1)
        scene.recorder.record_migration(A, "migrated", completed=True)
        await asyncio.sleep(5)
        assert [reason for _, reason, _ in scene.paper.events[-2:]] == ["Scheduled", "Migrated"]


@pytest.mark.parametrize("status", [403, 404, 409, 422])
async def test_what_another_try_would_not_change_is_not_tried_again(status):
    async with recording(lambda request: refusal(status)) as scene:
        scene.add(A)
        scene.recorder.record_unschedulable(A, "no room")
        await asyncio.sleep(100)
        assert scene.paper.tries["status"] == 1


async def test_without_the_right_to_conditions_each_pod_has_its_event_and_the_log_one_line():
    pods = [made_pod(f"p{number}") for number in range(50)]
    forbidden = refusal(403, 'User "kubedsm" cannot patch resource "pods/status"')
    async with recording(lambda r: forbidden if r.path.endswith("/status") else None) as scene:
        scene.add(*pods)
        with capture_logs() as logs:
            for each in pods:
                scene.recorder.record_unschedulable(each, "no room")
            await asyncio.sleep(CHANGED)
    assert scene.paper.tries == {"status": 50, "events": 50}
    assert scene.recorder.lost == 0
    [line] = logs
    assert (line["event"], line["log_level"]) == ("condition not written", "warning")
    assert 'cannot patch resource "pods/status"' in line["error"]


async def test_the_mark_of_a_tier_is_tried_until_an_outage_ends():
    failing = True
    metadata = {"name": "a", "namespace": "shop", "uid": "a"}
    alone = orjson.dumps({"metadata": metadata, "spec": {"containers": []}})

    def answer(request):
        if failing:
            return refusal(503)
        return Response(200, alone) if request.method == "GET" else None

    async with recording(answer) as scene:
        scene.add(attrs.evolve(A, node_name=E1))
        scene.recorder.update_tier_labels(A, *tier_marks(A, Tier.EDGE))
        await asyncio.sleep(600)
        reads, failing = scene.paper.tries["a"], False
        assert reads < 20
        await asyncio.sleep(70)
        # The reads failed; then another, and the write.
        assert scene.paper.tries == {"a": reads + 2}


async def test_a_pod_that_was_bound_or_is_being_bound_is_not_said_to_wait():
    async with recording() as scene:
        scene.add(A, attrs.evolve(B, node_name=E1))
        scene.manager.place([Binding(A, E1, Tier.EDGE)])
        scene.recorder.record_unschedulable(A, "no room")
        scene.recorder.record_unschedulable(B, "no room")
        await asyncio.sleep(5)
        assert scene.paper.tries["status"] == 0


async def test_of_a_pod_that_is_gone_only_its_end_is_told():
    async with recording() as scene:
        scene.add(A, B)
        scene.recorder.record_unschedulable(A, "no room")
        scene.recorder.record_migration(B, "Moved to e1", completed=True)
        scene.recorder.record_event("MigrationProposed", B, "would be moved")
        scene.recorder.record_bind(B, E1)
        scene.recorder.record_migration(B, "Moved to e1", completed=True)
        scene.delete(A)
        scene.delete(B)
        await asyncio.sleep(5)
        assert scene.paper.events == [("b", "Migrated", "Moved to e1")]
        assert scene.paper.conditions == []
        # Nothing failed, and the log has no cause.
        assert scene.recorder.lost == 0


async def test_a_write_waits_for_a_bind_call_but_not_for_long():
    async with recording() as scene:
        scene.add(A, B)
        scene.paper.latency = 2 * BURST_WAIT
        scene.manager.place([Binding(A, E1, Tier.EDGE)])
        await asyncio.sleep(0.01)
        scene.recorder.record_unschedulable(B, "no room")
        await asyncio.sleep(BURST_WAIT / 2)
        assert scene.paper.tries == {"binding": 1}
        await asyncio.sleep(BURST_WAIT)
        assert scene.paper.tries == {"binding": 1, "status": 1}


async def tried_each_second(scene, seconds, text="no room"):
    for second in range(seconds):
        scene.recorder.record_unschedulable(A, text.format(second))
        await asyncio.sleep(1)


async def test_that_a_pod_still_waits_is_counted_from_time_to_time():
    async with recording() as scene:
        scene.add(A)
        await tried_each_second(scene, 620)
        assert scene.paper.conditions == [("a", "Unschedulable", "no room")]
        assert scene.paper.events == [("a", "FailedScheduling", "no room")]
        assert [name for name, _ in scene.paper.counts] == ["e1", "e1"]
        (_, first), (_, second) = scene.paper.counts
        assert first == pytest.approx(SAME, abs=2)
        assert second == pytest.approx(2 * SAME, abs=2)


async def test_postponed_events_follow_the_clock_and_not_the_event_loops():
    async with recording(clock=SlowClock()) as scene:
        scene.add(A)
        await tried_each_second(scene, 610)
        assert len(scene.paper.counts) == 1


async def test_another_number_is_no_other_event_and_shown_now_and_then():
    async with recording() as scene:
        scene.add(A)
        await tried_each_second(scene, 300, "0/9 nodes: {} Insufficient cpu.")
        assert len(scene.paper.events) == 1
        assert len(scene.paper.conditions) == pytest.approx(300 / CHANGED, abs=1)
        assert [name for name, _ in scene.paper.counts] == ["e1"] * (
            len(scene.paper.conditions) - 1
        )


async def test_an_event_that_is_gone_is_written_anew():
    async with recording(lambda r: refusal(404) if "series" in (r.body or {}) else None) as scene:
        scene.add(A)
        for _ in range(2):
            scene.recorder.record_unschedulable(A, "no room")
            await asyncio.sleep(SAME)
        await asyncio.sleep(1)
        assert len(scene.paper.events) == 2
        assert scene.recorder.lost == 0


async def test_writes_keep_to_a_rate():
    async with recording() as scene:
        scene.paper.latency = 0.0
        pods = [made_pod(f"p{number}") for number in range(3 * BURST)]
        scene.add(*pods)
        for each in pods:
            scene.recorder.record_bind(each, E1)
        await asyncio.sleep(BURST_GAP + 0.5)
        assert len(scene.paper.events) == pytest.approx(BURST + 0.5 / EACH, abs=5)
        await asyncio.sleep(3 * BURST * EACH)
        assert len(scene.paper.events) == 3 * BURST


async def test_a_condition_with_another_text_has_the_time_of_its_transition():
    """Alerts on pods that are unschedulable for long measure from there."""
    times = []

    def answer(request):
        if request.path.endswith("/status"):
            times.append(request.body["status"]["conditions"][0]["lastTransitionTime"])

    async with recording(answer) as scene:
        scene.add(A)
        for text in ("one", "two"):
            scene.recorder.record_unschedulable(A, text)
            await asyncio.sleep(2 * CHANGED)
        assert len(times) == 2
        assert times[0] == times[1]
        scene.delete(A)
        scene.add(A)
        scene.recorder.record_unschedulable(A, "three")
        await asyncio.sleep(1)
        assert times[2] > times[1]


async def test_what_is_said_again_about_a_configuration_is_counted():
    about = ConfigMap(Identity("kubedsm", "kubedsm", "c", "1"), {})
    async with recording() as scene:
        for _ in range(3):
            scene.recorder.record_event("ConfigurationRefused", about, "no such field")
            await asyncio.sleep(1)
    assert scene.paper.events == [("kubedsm", "ConfigurationRefused", "no such field")]
    assert scene.paper.counts == [("e1", 2), ("e1", 3)]

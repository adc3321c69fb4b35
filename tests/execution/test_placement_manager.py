"""How binds end, each outcome alone, against a server whose every answer is scripted."""

import asyncio
from contextlib import asynccontextmanager

import attrs
import orjson
import pytest

from kubedsm.execution.limits import Limits
from kubedsm.kube.client.port import TIMEOUT, OutcomeUnknown, Response, Unreachable
from kubedsm.model.events import Change, NodeApplied, NodeDeleted, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror, ReservationError
from kubedsm.model.model import Node, NodeName, Resources, Tier, Uid, Workload
from kubedsm.optimizer.placing.decision import Binding
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.replay.virtual_time import VirtualClock
from plans.events import CallRefused
from support.handles import plan_runner
from support.pods import made_pod

POD = made_pod("web-1", uid="u1", cpu=1000, resource_version="5")
EDGE = Node(NodeName("n2"), {"kubedsm.io/tier": "edge"}, Resources(4000, 2**30, 10))
LIMITS = Limits(binds_in_flight=2, bind_deadline=10.0)


def live_pod(node=None, uid="u1", version="9"):
    body = {
        "metadata": {"namespace": "shop", "name": "web-1", "uid": uid, "resourceVersion": version},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "nodeName": node},
    }
    return Response(200, orjson.dumps(body))


class ScriptedCluster:
    """Answers binds and reads in turn; the last answer goes on for ever."""

    def __init__(self, binds, reads=()):
        self.binds, self.reads = list(binds), list(reads)
        self.requests = []

    async def request(self, request, *, timeout):
        assert timeout == TIMEOUT
        self.requests.append(request)
        script = self.binds if request.method == "POST" else self.reads
        answer = script.pop(0) if len(script) > 1 else script[0]
        await asyncio.sleep(0.5)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stream(self, request, *, timeout):
        raise AssertionError("nobody watches here")


def bound_to(pod, node):
    return PodApplied(attrs.evolve(pod, node_name=NodeName(node), resource_version="6"))


class Scene:
    """A manager of plans for pods that wait on a cluster with one node."""

    def __init__(self, cluster, pods=(POD,), node=EDGE, clock=None):
        self.cluster, self.pods, self.mirror, self.settled = cluster, pods, ClusterMirror(), []
        self.mirror.apply(NodeApplied(node))
        for pod in pods:
            self.mirror.apply(PodApplied(pod))
        parts = plan_runner(cluster, self.mirror, clock or VirtualClock(), self.settle, LIMITS)
        self.manager, self.binds = parts.manager, parts.binds

    def settle(self, pod, step):
        self.settled.append((pod and pod.name, step.state.value, step.reason))

    def see(self, event):
        self.manager.observe(self.mirror.apply(event))
        self.mirror.check_invariants()

    def place(self, *numbers):
        chosen = [self.pods[number] for number in numbers] if numbers else self.pods
        self.manager.place([Binding(pod, EDGE.name, Tier.EDGE) for pod in chosen])

    @asynccontextmanager
    async def running(self):
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.manager.run())
            await asyncio.sleep(0)
            yield self
            running.cancel()

    @property
    def held(self):
        return self.mirror.snapshot().free["n2"].cpu == 3000


def several(count):
    return [attrs.evolve(POD, uid=Uid(f"u{n}"), name=f"web-{n}") for n in range(count)]


@asynccontextmanager
async def binding(cluster, **more):
    async with Scene(cluster, **more).running() as scene:
        scene.place()
        yield scene


CREATED = Response(201, b"{}")


async def test_a_success_is_no_success_before_the_watch_shows_it():
    async with binding(ScriptedCluster([CREATED])) as scene:
        await asyncio.sleep(5)
        assert scene.held
        assert scene.settled == []
        assert not scene.manager.quiet.is_set()
        scene.see(bound_to(POD, "n2"))
        assert scene.settled == [("web-1", "done", "")]
        assert scene.held
        assert scene.manager.quiet.is_set()


@pytest.mark.parametrize(
    "answer", [answer(403, "Forbidden"), answer(429, "TooManyRequests"), Unreachable("refused")]
)
async def test_a_refused_bind_gives_its_room_back_at_once(answer):
    async with binding(ScriptedCluster([answer])) as scene:
        await asyncio.sleep(1)
        assert [state for _, state, _ in scene.settled] == ["failed"]
        assert not scene.held


@pytest.mark.parametrize(
    "answer", [OutcomeUnknown("timed out"), answer(500, "InternalError"), answer(409, "Conflict")]
)
async def test_a_bind_that_may_have_been_applied_is_read_live(answer):
    cluster = ScriptedCluster([answer], [live_pod(node="n2")])
    async with binding(cluster) as scene:
        await asyncio.sleep(0.9)
        assert scene.held
        assert scene.settled == []
        await asyncio.sleep(1)
        assert scene.settled == [("web-1", "done", "")]
        assert scene.held
        assert scene.mirror.pod(Uid("u1")).node_name == "n2"


async def test_after_an_error_of_our_own_the_pod_is_read_live(caught):
    cluster = ScriptedCluster([ZeroDivisionError()], [live_pod(node="n2")])
    async with binding(cluster) as scene:
        await asyncio.sleep(2)
        assert scene.settled == [("web-1", "done", "")]
    assert [type(error) for error in caught] == [ZeroDivisionError]
    caught.clear()


async def test_the_room_stays_held_while_it_is_unknown():
    reads = [Unreachable("refused"), Unreachable("refused"), live_pod(node="n2")]
    async with binding(ScriptedCluster([OutcomeUnknown("reset")], reads)) as scene:
        await asyncio.sleep(15)
        assert scene.held
        assert scene.settled == []
        await asyncio.sleep(10)
        assert scene.settled == [("web-1", "done", "")]


class StoppedClock(VirtualClock):
    """Clock of a machine that is suspended from the second second to the 40th."""

    def monotonic(self):
        now = super().monotonic()
        return min(now, 2.0) + max(0.0, now - 40.0)


async def test_a_deadline_passes_by_the_clock_and_not_by_the_event_loops():
    cluster = ScriptedCluster([CREATED], [live_pod(node="n2")])
    async with binding(cluster, clock=StoppedClock()) as scene:
        await asyncio.sleep(47)
        assert len(cluster.requests) == 1
        await asyncio.sleep(3)
        assert scene.settled == [("web-1", "done", "")]


async def test_binds_that_wait_for_slow_ones_before_them_do_not_fail():
    cluster = ScriptedCluster([CREATED], [Unreachable("busy")])
    answer_soon = cluster.request

    async def answer_late(request, *, timeout):
        await asyncio.sleep(2.4)
        return await answer_soon(request, timeout=timeout)

    cluster.request = answer_late
    pods = several(12)
    node = attrs.evolve(EDGE, allocatable=Resources(40_000, 2**30, 100))
    async with Scene(cluster, pods, node).running() as scene:
        scene.place()
        # Two at a time, 2.9 s each: the last calls begin after the deadline of a bind, 10 s.
        await asyncio.sleep(18)
        assert sum(request.method == "POST" for request in cluster.requests) == 12
        assert scene.settled == []


async def test_a_pod_that_is_another_one_by_now_is_gone():
    async with binding(ScriptedCluster([OutcomeUnknown("reset")], [live_pod(uid="u2")])) as scene:
        await asyncio.sleep(2)
        assert [state for _, state, _ in scene.settled] == ["failed"]
        assert not scene.held


async def test_a_pod_that_a_server_does_not_find_is_gone_when_the_watch_says_so():
    cluster = ScriptedCluster([OutcomeUnknown("reset")], [answer(404, "NotFound")])
    async with binding(cluster) as scene:
        await asyncio.sleep(20)
        assert scene.held
        scene.see(PodDeleted(Uid("u1"), "shop", "web-1"))
        assert scene.manager.quiet.is_set()
        # Whoever counts the binds of its batch hears of it, too.
        assert [(pod, state) for pod, state, _ in scene.settled] == [(None, "failed")]


async def test_a_read_from_before_the_deletion_does_not_bring_the_pod_back():
    cluster = ScriptedCluster([OutcomeUnknown("reset")], [live_pod(node="n2")])
    async with binding(cluster) as scene:
        await asyncio.sleep(0.75)
        scene.see(PodDeleted(Uid("u1"), "shop", "web-1"))
        await asyncio.sleep(2)
        assert scene.mirror.pod(Uid("u1")) is None
        assert scene.manager.quiet.is_set()


async def test_a_pod_bound_elsewhere_by_somebody_else_frees_the_node():
    async with binding(ScriptedCluster([CREATED])) as scene:
        scene.see(bound_to(POD, "n7"))
        assert scene.settled == [("web-1", "failed", "the pod is on node n7")]
        assert not scene.held


async def test_a_bind_that_is_settled_before_its_turn_is_not_sent():
    async with Scene(ScriptedCluster([CREATED]), several(4)).running() as scene:
        scene.place()
        await asyncio.sleep(0.2)
        # Two are in flight, and two wait for their turn: one is bound by somebody else, one goes.
        scene.see(bound_to(scene.pods[2], "n7"))
        scene.see(PodDeleted(Uid("u3"), "shop", "web-3"))
        await asyncio.sleep(3)
    assert [r.path.split("/")[-2] for r in scene.cluster.requests] == ["web-0", "web-1"]


async def test_no_bind_is_sent_to_a_node_that_goes_while_its_pod_waits_for_its_turn():
    async with Scene(ScriptedCluster([CREATED]), several(3)).running() as scene:
        scene.place()
        await asyncio.sleep(0.2)
        scene.see(NodeDeleted(EDGE.name))
        await asyncio.sleep(1)
        assert scene.settled == [("web-2", "failed", "node n2 is gone")]
    assert len(scene.cluster.requests) == 2


async def test_a_bind_that_cannot_be_carried_out_leaves_the_others_of_its_batch_alone(caught):
    scene = Scene(ScriptedCluster([CREATED]), several(3))
    scene.manager._run_step = lambda plan_id, step, _: step
    scene.manager._spawn = lambda step: 1 / (step.pod != "u1")
    scene.place()
    assert scene.settled == [("web-1", "failed", "internal error of the scheduler")]
    # It is nobody's any more, while the others are still waited for.
    assert [scene.manager.follows(pod.uid) for pod in scene.pods] == [True, False, True]
    assert scene.manager.under_way == 2
    for number in (0, 2):
        scene.see(bound_to(scene.pods[number], "n2"))
    assert [name for name, *_ in scene.settled] == ["web-1", "web-0", "web-2"]
    assert scene.manager.quiet.is_set()
    assert [type(error) for error in caught] == [ZeroDivisionError]
    caught.clear()


@pytest.mark.parametrize("detached", [False, True])
async def test_only_a_pod_that_its_owner_lets_go_is_lost_by_our_label(detached):
    # Its owner is unknown, so nothing contradicts.
    async with Scene(ScriptedCluster([CREATED], [live_pod()])).running() as scene:
        before = attrs.evolve(POD, uid=Uid("u0"), detached=detached)
        bare = Workload("shop", "Pod", "web-0")  # given back, it has no owner until it is adopted
        labels = {"kubedsm.io/tier": "edge"}
        after = attrs.evolve(before, detached=False, workload=bare, labels=labels)
        scene.binds.observe(Change(pod_before=before, pod_after=after))
        scene.place()
        await asyncio.sleep(2)
    [bind] = [each for each in scene.cluster.requests if each.method == "POST"]
    assert ("labels" in bind.body["metadata"]) is detached


async def test_a_bind_is_asked_for_as_soon_as_another_is_answered():
    async with Scene(ScriptedCluster([CREATED]), several(4)).running() as scene:
        scene.place(0, 1, 2)
        await asyncio.sleep(0.6)  # each is answered after half a second; two go at once
        assert len(scene.cluster.requests) == 3
        assert not scene.binds.none_under_way.is_set()
        scene.place(3)
        await asyncio.sleep(0.2)
        assert len(scene.cluster.requests) == 4
        await asyncio.sleep(1)
        assert scene.binds.none_under_way.is_set()


async def test_placements_for_which_there_is_no_room_hold_none():
    scene = Scene(ScriptedCluster([CREATED]), several(5))
    with pytest.raises(ReservationError):
        scene.place()
    assert scene.mirror.snapshot().free["n2"] == EDGE.allocatable
    assert scene.manager.quiet.is_set()


async def test_what_follows_from_an_event_is_told_after_it():
    scene, order = Scene(ScriptedCluster([CREATED])), []

    def ask(plan_id):
        scene.manager.report(plan_id, CallRefused(0, "no"))
        order.append("asked")

    scene.manager._run_step = lambda plan_id, *_: plan_id
    scene.manager._spawn = ask
    scene.manager._on_bound = lambda pod, step: order.append(step.reason)
    scene.place()
    assert order == ["asked", "no"]

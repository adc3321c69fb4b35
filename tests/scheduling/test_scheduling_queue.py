"""The scheduling queue: order, back-off, and which pods are tried after a change at what cost."""

import asyncio
import random
from itertools import pairwise

import attrs
import pytest

from kubedsm.app.cluster_reflectors import EventHandler
from kubedsm.model.events import (
    Change,
    Freed,
    KindKnown,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
)
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import (
    ClaimReference,
    Node,
    NodeName,
    Resources,
    SchedulingRules,
    Uid,
    Workload,
)
from kubedsm.model.surroundings import Claim, StorageClass, Volume
from kubedsm.plugins.plugins import PLUGINS
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.scheduling_queue import (
    BACK_OFF,
    FLUSH_INTERVAL,
    FLUSH_LIMIT,
    MAX_RETRY_DELAY,
    REQUEUED_BY_SUCCESS,
    RETRY_INTERVAL,
    SchedulingQueue,
)
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.pods import made_pod

FIT = frozenset({"NodeResourcesFit"})


def pod(name, priority=0, created=0.0, cpu=100, **labels):
    return made_pod(name, priority=priority, cpu=cpu, created=created, labels=labels)


A, B = pod("a"), pod("b")


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def queue(clock):
    return SchedulingQueue(clock, random.Random(1))


async def test_the_highest_priority_comes_out_first_then_the_oldest(queue):
    for each in (
        pod("young", created=9.0),
        pod("urgent", priority=10, created=8.0),
        pod("b", created=3.0),
        pod("a", created=3.0),
        pod("lowly", priority=-1),
    ):
        queue.add(each)
    assert queue.pop(1) == ["urgent"]
    assert queue.pop(2) == ["a", "b"]
    assert queue.pop(9) == ["young", "lowly"]
    assert queue.pop(9) == []


async def test_a_pod_is_served_once_and_as_it_is_now(queue):
    queue.add(A)
    queue.add(pod("b", priority=1))
    queue.add(pod("a", priority=2))
    assert queue.pop(9) == ["a", "b"]


async def test_a_failed_bind_backs_off_longer_each_time(queue, clock):
    waited = []
    for _ in range(6):
        started = clock.monotonic()
        queue.back_off(A)
        assert len(queue) == 0
        await queue.wait_active()
        queue.pop(1)
        waited.append(clock.monotonic() - started)
    for seconds, longest in zip(waited, (1, 2, 4, 8, 10, 10), strict=True):
        assert 0.8 * longest <= seconds <= longest


async def test_a_bound_pod_starts_its_back_off_anew(queue, clock):
    for _ in range(5):
        queue.back_off(A)
    queue.forget("a")
    queue.back_off(A)
    started = clock.monotonic()
    await queue.wait_active()
    assert clock.monotonic() - started <= 1


async def test_an_unschedulable_pod_waits_for_help(queue):
    queue.add_unschedulable(A, FIT)
    queue.add_unschedulable(B, FIT)
    assert len(queue) == 0
    queue.reconsider()
    assert queue.pop(9) == ["a", "b"]


@pytest.mark.parametrize(
    ("rules", "now", "retried"),
    [
        (FIT, pod("a"), False),
        (FIT, pod("a", cpu=50), True),
        (FIT, pod("a", app="x"), False),
        ({"InterPodAffinity"}, pod("a", app="x"), True),
        ({"PodTopologySpread"}, pod("a", app="x"), True),
        ({"InterPodAffinity"}, pod("a"), False),
    ],
)
async def test_a_change_of_the_pod_itself_may_help(queue, rules, now, retried):
    queue.add_unschedulable(A, frozenset(rules))
    queue.update(now)
    assert len(queue) == retried


async def test_a_pod_that_is_not_awaited_is_not_taken_in(queue):
    queue.update(A)
    assert A.uid not in queue
    queue.add_unschedulable(A, FIT)
    queue.forget(A.uid)
    queue.reconsider()
    assert A.uid not in queue
    assert len(queue) == 0


async def test_a_held_pod_is_tried_when_room_comes_free_and_held_so_long_in_all(queue, clock):
    freed = Change(freed=Freed(NodeName("n1"), Resources(cpu=1)))
    assert queue.can_await_capacity(A.uid, 3.0)
    queue.await_capacity(A)
    await asyncio.sleep(2.0)
    assert len(queue) == 0
    queue.help(freed, ClusterMirror())
    assert queue.pop(9) == ["a"]
    assert queue.can_await_capacity(A.uid, 3.0)
    queue.await_capacity(A)
    await queue.wait_active()
    assert clock.monotonic() == pytest.approx(3.0)
    assert queue.pop(9) == ["a"]
    assert not queue.can_await_capacity(A.uid, 3.0)


async def test_a_pod_that_asks_for_something_else_is_tried_at_once(queue):
    queue.back_off(A)
    smaller = pod("a", cpu=50)
    queue.observe(Change(pod_before=A, pod_after=A), ClusterMirror())
    assert len(queue) == 0
    queue.observe(Change(pod_before=A, pod_after=smaller), ClusterMirror())
    assert queue.pop(9) == ["a"]


async def test_help_is_no_use_to_a_pod_that_backs_off(queue):
    queue.back_off(A)
    queue.reconsider()
    assert len(queue) == 0
    assert "a" in queue


async def ready_after(queue, clock, count):
    """Pop that many one by one; the seconds after which each was ready."""
    started, seconds = clock.monotonic(), []
    for _ in range(count):
        await queue.wait_active()
        queue.pop(1)
        seconds.append(clock.monotonic() - started)
    return seconds


async def test_pods_whose_binds_fail_together_are_spread_over_a_fifth_of_their_back_off(
    queue, clock
):
    for number in range(100):
        queue.back_off(pod(f"p{number}"))
    seconds = await ready_after(queue, clock, 100)
    assert (seconds[0], seconds[-1]) == pytest.approx((0.8, 1.0), abs=0.02)


async def test_pods_whose_binds_fail_by_one_cause_take_turns(queue, clock):
    for number in range(5):
        queue.back_off(pod(f"p{number}"), "403 no")
    seconds = await ready_after(queue, clock, 5)
    assert [round(later - earlier) for earlier, later in pairwise(seconds)] == [RETRY_INTERVAL] * 4


async def test_no_pod_waits_for_ever(queue, clock):
    for number in range(1000):
        queue.back_off(pod(f"p{number}"), "403 no")
    await clock.sleep(MAX_RETRY_DELAY + 1)
    await queue.wait_active()
    assert len(queue) == 1000


@pytest.mark.parametrize("left", [["p0", "p299"], ["p298", "p299"], ["p7"]])
@pytest.mark.parametrize("last_first", [False, True])
async def test_no_pod_waits_for_the_turns_of_deleted_pods(queue, clock, left, last_first):
    names = [f"p{number}" for number in range(300)]
    for name in names:
        queue.back_off(pod(name), "403 no")
    for name in sorted(set(names) - set(left), key=names.index, reverse=last_first):
        queue.forget(Uid(name))
    for _ in range(5):
        tried = clock.monotonic()
        await queue.wait_active()
        [uid] = queue.pop(1)
        assert clock.monotonic() - tried <= BACK_OFF.most + RETRY_INTERVAL
        queue.back_off(pod(uid), "403 no")


async def test_another_cause_or_namespace_is_no_reason_to_wait(queue, clock):
    for number in range(50):
        queue.back_off(pod(f"p{number}"), "403 no")
    queue.back_off(A, "422 no")
    queue.back_off(attrs.evolve(B, namespace="other"), "403 no")
    await clock.sleep(1)
    await queue.wait_active()
    assert set(queue.pop(99)) >= {"a", "b"}


async def test_a_success_brings_forward_those_that_failed_by_its_cause(queue, clock):
    for number in range(30):
        queue.back_off(pod(f"p{number}"), "403 no")
    for _ in range(3):
        queue.back_off(A, "422 no")
    await queue.wait_active()
    [first] = queue.pop(1)
    queue.end_failures(first)
    queue.forget(first)
    assert len(queue) == REQUEUED_BY_SUCCESS
    assert A.uid not in queue.pop(99)


def rejected(queue, mirror, name):
    """The pod is bound, rejected by the kubelet of its node, and replaced by the next."""
    bound = attrs.evolve(pod(name), node_name=NodeName("n"))
    queue.observe(Change(pod_before=bound, pod_after=attrs.evolve(bound, phase="Failed")), mirror)
    queue.observe(Change(pod_after=pod(f"{name}x")), mirror)


async def test_a_pod_waits_longer_after_each_rejection_of_its_workload(queue, clock):
    mirror, waited = ClusterMirror(), []
    for number in range(6):
        started, name = clock.monotonic(), "a" + number * "x"
        rejected(queue, mirror, name)
        await queue.wait_active()
        assert queue.pop(9) == [f"{name}x"]
        waited.append(clock.monotonic() - started)
    assert waited == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize("after", ["another ran", "a minute"])
async def test_a_rejection_counts_until_a_pod_of_the_workload_runs_or_a_minute_has_passed(
    queue, clock, after
):
    mirror = ClusterMirror()
    for _ in range(5):
        rejected(queue, mirror, "a")
    if after == "another ran":
        bound = attrs.evolve(pod("b"), node_name=NodeName("n"))
        queue.observe(
            Change(pod_before=bound, pod_after=attrs.evolve(bound, phase="Running")), mirror
        )
        queue.observe(Change(pod_after=pod("c")), mirror)
        assert queue.pop(9) == ["c"]
    else:
        await clock.sleep(FLUSH_INTERVAL)
        rejected(queue, mirror, "d")
        assert "dx" not in queue.pop(9)
        await clock.sleep(1.0)
        assert "dx" in queue.pop(9)


async def test_another_workload_does_not_wait_after_a_rejection(queue):
    mirror = ClusterMirror()
    rejected(queue, mirror, "a")
    other = attrs.evolve(pod("z"), workload=Workload("default", "Deployment", "other"))
    queue.observe(Change(pod_after=other), mirror)
    assert queue.pop(9) == ["z"]


PODS, CLASSES = 300, 3


def scene_pod(name, *, node=None, **fields):
    scheduler = "kubedsm" if node is None else "other"
    return made_pod(name, scheduler_name=scheduler, node_name=node, **fields)


def node(name, cpu=8):
    return Node(NodeName(name), {"kubedsm.io/tier": "edge"}, Resources(cpu, pods=110))


class CountingMirror(ClusterMirror):
    """Counts how often a hint looked at a node; a hint about room looks at one, once."""

    asked = 0

    def node(self, name):
        self.asked += 1
        return super().node(name)


@attrs.define
class Scene:
    clock: VirtualClock
    queue: SchedulingQueue
    mirror: CountingMirror
    handler: EventHandler

    def tell(self, *events):
        for event in events:
            self.handler.handle(event)

    def reject(self, *pods, rules=FIT):
        for each in pods:
            self.queue.add_unschedulable(each, rules)

    def asleep(self, *pods, rules=FIT):
        """Have these pods wait, and every node reject them."""
        self.tell(*map(PodApplied, pods))
        self.queue.pop(len(pods))
        self.reject(*pods, rules=rules)
        self.mirror.asked = 0

    def remove(self, gone):
        self.tell(PodDeleted(gone.uid, gone.namespace, gone.name))

    def popped(self, most=256):
        return self.queue.pop(most)


@pytest.fixture
def scene():
    """A node that is full: of a pod of six cores, and two of one."""
    clock, mirror = VirtualClock(), CountingMirror()
    queue = SchedulingQueue(clock, random.Random(0))
    scene = Scene(clock, queue, mirror, EventHandler(mirror, queue, Supervisor(clock, queue._rng)))
    mirror._on_released = queue.help
    scene.tell(NodeApplied(node("n1")), PodApplied(BIG), PodApplied(SMALL), PodApplied(SECOND))
    return scene


BIG = scene_pod("big", cpu=6, node=NodeName("n1"))
SMALL, SECOND = scene_pod("small", node=NodeName("n1")), scene_pod("second", node=NodeName("n1"))


def crowd(count=PODS, **fields):
    """Pods alike, the last one made the oldest."""
    return [scene_pod(f"p{n:03}", created=1000.0 - n, **fields) for n in range(count)]


async def test_a_hint_is_asked_once_for_each_kind_of_pods(scene):
    kinds = [scene_pod(f"p{n}", cpu=3 + n % CLASSES) for n in range(PODS)]
    scene.asleep(*kinds)
    scene.remove(SMALL)
    assert scene.mirror.asked == CLASSES
    assert len(scene.queue) == 0


async def test_as_many_are_tried_as_there_is_room_for_and_those_first_that_are_served_first(scene):
    pods = crowd()
    scene.asleep(*pods)
    oldest_first = [each.uid for each in reversed(pods)]
    scene.remove(BIG)
    assert scene.popped() == oldest_first[:6]


async def test_twice_as_many_are_tried_until_one_is_rejected(scene):
    pods = crowd()
    scene.asleep(*pods)
    scene.remove(SMALL)
    sizes = [len(scene.popped()) for _ in range(5)]
    assert sizes == [1, 2, 4, 8, 16]
    scene.tell(PodApplied(attrs.evolve(pods[-1], node_name=NodeName("n1"))))
    scene.reject(pods[150])
    assert len(scene.queue) == 0
    assert scene.popped() == []
    scene.remove(SECOND)
    assert len(scene.popped()) == 1


async def test_a_node_that_rejects_when_it_comes_is_remembered_by_its_rule(scene):
    scene.asleep(*crowd())
    scene.tell(NodeApplied(attrs.evolve(node("n2"), unschedulable=True)))
    assert len(scene.queue) == 0
    scene.tell(NodeApplied(node("n2")))
    assert len(scene.popped()) == 8
    assert scene.queue.count_by_plugin().keys() == {"NodeResourcesFit", "NodeUnschedulable"}
    scene.tell(NodeDeleted(NodeName("n2")))


async def test_in_any_case_some_of_each_kind_are_tried_after_a_while(scene):
    scene.asleep(*crowd())
    started = scene.clock.monotonic()
    await scene.queue.wait_active()
    assert scene.clock.monotonic() - started == pytest.approx(FLUSH_INTERVAL)
    assert len(scene.popped()) == FLUSH_LIMIT


async def test_a_pod_whose_back_off_is_over_is_served_though_others_keep_coming(scene):
    waited = scene_pod("waited", created=1.0)
    scene.queue.back_off(waited)
    for number in range(20):
        scene.queue.add(scene_pod(f"new-{number}", created=5.0))
        await scene.queue.wait_active()
        if scene.popped(1) == ["waited"]:
            return
        scene.queue.add(scene_pod("more", created=5.0))
        await scene.clock.sleep(0.1)
    pytest.fail("it is not served")


MOUNTING = {"rules": SchedulingRules(claims=(ClaimReference("shop", "data"),))}
CLAIM = Claim("shop", "data", "pv", storage_class="fast")
STORAGE = {
    "its claim is bound": attrs.evolve(CLAIM, bound=True),
    "its volume changes": Volume("pv", labels={"topology.kubernetes.io/zone": "x"}),
    "the class of its claim is added": StorageClass("fast", waits_for_consumer=True),
}


@pytest.mark.parametrize("rule", [plugin.name for plugin in PLUGINS if "claims" in plugin.demands])
@pytest.mark.parametrize("changed", STORAGE.values(), ids=STORAGE)
async def test_a_pod_is_tried_when_its_storage_changes_and_another_is_not(scene, rule, changed):
    waiting, other = scene_pod("waiting", **MOUNTING), scene_pod("other")
    scene.tell(*map(KindKnown, (Claim, Volume, StorageClass)))
    scene.tell(*map(SurroundingApplied, (CLAIM, Volume("pv"))))
    scene.asleep(waiting, other, rules=frozenset({rule}))
    scene.tell(SurroundingApplied(changed))
    assert scene.popped() == [waiting.uid]

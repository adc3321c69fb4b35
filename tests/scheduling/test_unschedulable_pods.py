"""Which unschedulable pods are tried after a change, how many at once, and what that costs."""

import random

import attrs
import pytest

from kubedsm.app.cluster_reflectors import EventHandler
from kubedsm.model.events import (
    KindKnown,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
    SurroundingApplied,
)
from kubedsm.model.mirror import ClusterMirror
from kubedsm.model.model import ClaimReference, Node, NodeName, Resources, SchedulingRules
from kubedsm.model.surroundings import Claim, StorageClass, Volume
from kubedsm.plugins.plugins import PLUGINS
from kubedsm.process.supervisor import Supervisor
from kubedsm.scheduling.scheduling_queue import FLUSH_INTERVAL, FLUSH_LIMIT, SchedulingQueue
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.pods import made_pod

FIT = frozenset({"NodeResourcesFit"})
PODS, CLASSES = 300, 3


def pod(name, *, node=None, **fields):
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


BIG = pod("big", cpu=6, node=NodeName("n1"))
SMALL, SECOND = pod("small", node=NodeName("n1")), pod("second", node=NodeName("n1"))


def crowd(count=PODS, **fields):
    """Pods alike, the last one made the oldest."""
    return [pod(f"p{n:03}", created=1000.0 - n, **fields) for n in range(count)]


async def test_a_hint_is_asked_once_for_each_kind_of_pods(scene):
    kinds = [pod(f"p{n}", cpu=3 + n % CLASSES) for n in range(PODS)]
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
    waited = pod("waited", created=1.0)
    scene.queue.back_off(waited)
    for number in range(20):
        scene.queue.add(pod(f"new-{number}", created=5.0))
        await scene.queue.wait_active()
        if scene.popped(1) == ["waited"]:
            return
        scene.queue.add(pod("more", created=5.0))
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
    waiting, other = pod("waiting", **MOUNTING), pod("other")
    scene.tell(*map(KindKnown, (Claim, Volume, StorageClass)))
    scene.tell(*map(SurroundingApplied, (CLAIM, Volume("pv"))))
    scene.asleep(waiting, other, rules=frozenset({rule}))
    scene.tell(SurroundingApplied(changed))
    assert scene.popped() == [waiting.uid]

"""Which promises a soak finds broken, each by what breaks it, and what it finds to be left."""

import asyncio
import json
from collections import Counter

import attrs
import pytest

from kubedsm.kube.client.port import Forbidden
from kubedsm.model.events import NodeApplied, PodApplied, PodDeleted
from kubedsm.model.model import MIGRATING_LABEL, Node, NodeName, Resources, Uid
from kubedsm_lab.bench.api import APPS, CORE, Api, deployment
from kubedsm_lab.bench.processes import LogCount, MemorySample
from kubedsm_lab.bench.soak.leftovers import LeftoverCheck, Leftovers
from kubedsm_lab.bench.soak.pod_watch import PodWatch, Wait
from kubedsm_lab.bench.soak.tenants import ODD_NAMESPACE
from kubedsm_lab.bench.soak.verdict import SoakResult
from kubedsm_lab.emulator.api.resources import NAMESPACES
from kubedsm_lab.emulator.front import EmulatedFront
from kubedsm_lab.emulator.paper import pod_spec
from support.fixed_clock import FixedClock
from support.pods import made_pod
from support.rights import ADMIN_TOKEN, install
from support.worlds import CLOUD, EDGE, emulated

#: 100 calm seconds, then 500 with the odd tenant; one pod, one look at the memory a second
GOOD = SoakResult(
    started=0.0,
    odd_since=100.0,
    unharmed_since=600.0,
    ended=600.0,
    workloads=300,
    namespaces_deleted=5,
    waits=tuple(Wait(float(at), 0.02, bound=True) for at in range(600)),
    events=9000,
    amiss=(),
    left=Leftovers(),
    most_odd=90,
    asked_odd=90,
    replicas=1,
    harm=Counter(),
    leaders=1,
    ends=0,
    log=LogCount(moves=[(float(at), "completed") for at in range(0, 600, 20)]),
    memory=tuple(MemorySample(float(at), float(at), 100_000_000) for at in range(600)),
    pods=tuple((float(at), 100 + at % 60) for at in range(600)),
    seconds_to_stop=0.5,
)
#: two of them, one killed each 25 seconds until 100 before the end
HARMED = attrs.evolve(
    GOOD,
    unharmed_since=500.0,
    replicas=2,
    harm=Counter({"leaders killed": 12, "standbys killed": 4}),
    leaders=12,
    memory=tuple(MemorySample(float(at), float(at % 25), 100_000_000) for at in range(600)),
)


def broken(result):
    return {each.name for each in result.guarantees() if not each.kept}


def slow(since, until, seconds):
    return tuple(
        attrs.evolve(w, seconds=seconds) if since <= w.created < until else w for w in GOOD.waits
    )


def grown(since, by, good=GOOD, age=0):
    return tuple(
        attrs.evolve(look, resident=round(look.resident * by))
        if look.at >= since and look.age >= age
        else look
        for look in good.memory
    )


def of_pods(a_pod, leak):
    """Memory of GOOD with 200 more pods for its last 150 s, and `leak` more bytes for 250 s."""
    pods = tuple((at, number + 200 * (at >= 450)) for at, number in GOOD.pods)
    memory = tuple(
        attrs.evolve(look, resident=look.resident + a_pod * number + leak * (at >= 350))
        for look, (at, number) in zip(GOOD.memory, pods, strict=True)
    )
    return {"pods": pods, "memory": memory}


def test_a_good_soak_keeps_them_all():
    assert broken(GOOD) == set()
    assert GOOD.kept
    figures = GOOD.report().figures
    assert figures["guarantees"]["bound"]["measured"] == "0 wait"
    json.dumps(figures)


@pytest.mark.parametrize(
    ("good", "broken_guarantees", "changes"),
    [
        (GOOD, {"ends"}, {"ends": 1}),
        (GOOD, {"ends"}, {"log": attrs.evolve(GOOD.log, gave_way=1)}),
        (GOOD, {"usual"}, {"waits": slow(100, 600, 0.8)}),
        (GOOD, {"usual", "even"}, {"waits": slow(500, 600, 0.8)}),
        (GOOD, {"usual"}, {"waits": slow(300, 310, 9.0)}),
        (GOOD, {"usual", "even"}, {"waits": GOOD.waits[:100]}),
        (GOOD, set(), {"waits": slow(100, 600, 0.05)}),
        (GOOD, {"never"}, {"amiss": ("e0 holds more than it has",)}),
        (GOOD, {"bound"}, {"left": Leftovers(waiting=1)}),
        (GOOD, {"marks"}, {"left": Leftovers(marked=("shop/web-1",))}),
        (GOOD, {"replicas"}, {"left": Leftovers(replicas=("shop/web: 3 pods, not 2",))}),
        (GOOD, {"room"}, {"left": Leftovers(room=("e0",))}),
        (GOOD, {"work"}, {"left": Leftovers(under_way=("kubedsm_plans_in_progress 1",))}),
        (GOOD, {"processes"}, {"left": Leftovers(processes=1)}),
        (GOOD, {"multiply"}, {"most_odd": 200}),
        (GOOD, {"memory"}, {"memory": grown(400, 1.11)}),
        (GOOD, set(), {"memory": grown(400, 1.09)}),
        (GOOD, set(), {"memory": grown(150, 1.5)}),
        (GOOD, {"memory"}, {"memory": ()}),
        (GOOD, set(), of_pods(a_pod=100_000, leak=0)),
        (GOOD, {"memory"}, of_pods(a_pod=100_000, leak=25_000_000)),
        (GOOD, {"stops"}, {"seconds_to_stop": 20.0}),
        (GOOD, {"moves"}, {"log": LogCount(moves=GOOD.log.moves[:6])}),
        (GOOD, {"moves"}, {"log": LogCount(moves=[])}),
        (HARMED, set(), {}),
        (HARMED, {"ends"}, {"ends": 1}),
        (HARMED, set(), {"log": attrs.evolve(GOOD.log, gave_way=3)}),
        (HARMED, set(), {"waits": slow(100, 519, 6.0)}),
        (HARMED, {"even"}, {"waits": slow(420, 500, 6.0)}),
        (HARMED, {"usual"}, {"waits": slow(520, 600, 0.8)}),
        (HARMED, {"memory"}, {"memory": grown(400, 1.11, HARMED)}),
        (HARMED, set(), {"memory": grown(400, 2, HARMED, age=20)}),
        (HARMED, {"memory"}, {"memory": grown(200, 1.11, HARMED)}),
    ],
)
def test_a_change_breaks_its_guarantees(good, broken_guarantees, changes):
    result = attrs.evolve(good, **changes)
    assert broken(result) == broken_guarantees
    assert result.kept == (not broken_guarantees)


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        (b'{"event": "synced", "level": "info"}', True),
        (b'{"event": "bind refused", "level": "warning"}', True),
        (b'{"event": "internal error", "level": "error"}', False),
        (b'{"event": "internal error", "level": "critical"}', False),
        (b'{"event": "odd", "level": "warning", "exception": []}', False),
        (b"Traceback (most recent call last):\n", False),
        (b"  + Exception Group Traceback (most recent call last):\n", False),
        (b"kubedsm: error: connection refused\n", False),
        (b"kubedsm: error: not leading any more: the lease a/b is held by c now\n", True),
        (b"kubedsm: no Node in dump.json\n", True),
        (b"[]\n", True),
        (b"\xff\n", True),
    ],
)
def test_what_in_a_log_counts_as_caught(line, is_kept):
    log = LogCount()
    log.read_line(line, 1.0)
    result = attrs.evolve(HARMED, log=attrs.evolve(log, moves=GOOD.log.moves))
    assert broken(result) == (set() if is_kept else {"caught"})


def pod(uid, node=None, namespace="shop", **more):
    requests = Resources(cpu=100)
    return PodApplied(made_pod(uid, namespace=namespace, requests=requests, node_name=node, **more))


def watched(*events):
    """What was seen that must never be, on a node that has room for two pods."""
    watch = PodWatch(FixedClock())
    watch.handle(NodeApplied(Node("n1", {}, Resources(cpu=200, pods=9))))
    watch.handle(NodeApplied(Node("n2", {}, Resources(cpu=200, pods=9))))
    for event in events:
        watch.handle(event)
    return watch.amiss


def test_a_node_must_never_hold_more_than_it_has_and_a_pod_is_bound_once():
    two = pod("a", node="n1"), pod("b", node="n1")
    assert watched(*two, pod("c", node="n2")) == []
    assert watched(*two, pod("c", node="n1")) == ["n1 holds more than it has: shop/c came"]
    assert watched(*two, PodDeleted(Uid("a"), "shop", "a"), pod("c", node="n1")) == []
    assert watched(*two, pod("b", node="n1", phase="Failed"), pod("c", node="n1")) == []
    leaving = pod("b", node="n1", terminating=True)
    assert len(watched(*two, leaving, pod("c", node="n1"))) == 1
    assert watched(pod("a"), pod("a", node="n1"), pod("a", node="n1", phase="Running")) == []
    [said] = watched(pod("a"), pod("a", node="n1"), pod("a", node="n2"))
    assert said == "shop/a was bound to n1, then to n2"


@pytest.mark.parametrize(
    ("others", "amiss"),
    [
        ([{"ready": True}], 0),
        ([{}], 1),
        ([{"terminating": True, "ready": True}, {}], 1),
        ([{"labels": {"app": "another"}}], 0),
        ([], 0),
    ],
)
def test_no_last_ready_pod_is_moved_away(others, amiss):
    labels = {"app": "web"}
    moved = {"labels": labels, "ready": True, "detached": True, "node": "n1"}
    beside = [pod(str(n), **({"labels": labels} | other)) for n, other in enumerate(others)]
    gone = PodDeleted(Uid("moved"), "shop", "moved")
    assert len(watched(pod("moved", **moved), *beside, gone)) == amiss
    assert watched(pod("moved", **moved | {"detached": False}), *beside, gone) == []


def test_waits_are_from_the_first_sight_of_a_pod_until_it_is_bound_or_goes():
    clock = FixedClock()
    watch = PodWatch(clock)

    def see(now, event):
        clock.seconds = now
        watch.handle(event)

    see(0, pod("bound"))
    see(0, pod("deleted"))
    see(0, pod("terminating"))
    see(0, pod("foreign", scheduler_name="default-scheduler"))
    see(0, pod("left"))
    for uid in ("one", "two"):
        see(0, pod(uid, namespace=ODD_NAMESPACE))
    see(1, pod("bound"))
    see(2, pod("bound", node="n1"))
    see(3, pod("bound", node="n1", phase="Running"))
    see(4, PodDeleted(Uid("deleted"), "shop", "deleted"))
    see(5, pod("terminating", terminating=True))
    see(6, PodDeleted(Uid("terminating"), "shop", "terminating"))
    see(6, PodDeleted(Uid("one"), ODD_NAMESPACE, "one"))
    assert watch.waits == [Wait(0, 2, True), Wait(0, 4, False), Wait(0, 5, False)]
    assert (watch.waiting, watch.most_odd) == (1, 2)


NODES = tuple(sorted(each["metadata"]["name"] for each in (EDGE, CLOUD)))


async def tenant(world):
    """Of a namespace with a Deployment of two pods, and what is asked of the API server."""
    api = Api(EmulatedFront(world.cluster.routes, world.clock, latency=0.01))
    await api.create_namespace("shop")
    await api.create("shop", "deployments", deployment("web", 2, pod_spec({"cpu": "100m"})), APPS)
    await asyncio.sleep(5)
    return api


def left_in(world, api):
    return LeftoverCheck(api, PodWatch(world.clock), (), world.clock).find()


async def test_of_a_scheduler_that_leaves_nothing_but_room_held_for_nobody_that_is_left():
    async with emulated(EDGE, CLOUD) as world, world.scheduler():
        assert await left_in(world, await tenant(world)) == Leftovers()
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        api = await tenant(world)
        runtime.mirror.reserve("nobody", NodeName(NODES[1]), Resources(cpu=1))
        assert await left_in(world, api) == Leftovers(room=NODES[1:])


async def test_marks_and_pods_that_nobody_asked_for_are_left():
    async with emulated(EDGE, CLOUD) as world:
        api = await tenant(world)
        labels = {"app": "web", MIGRATING_LABEL: "1"}
        detached = {"metadata": {"name": "old", "labels": labels}, "spec": pod_spec({"cpu": "1m"})}
        await api.create("shop", "pods", detached)
        left = await left_in(world, api)
        assert left.marked == ("shop/old",)
        assert left.replicas == ("shop/web: 3 pods, not 2",)
        assert left.room == NODES
        assert "shop" not in str(await api.get(f"{CORE}/namespaces"))


async def test_a_missing_right_is_an_error_and_a_namespace_that_ends_is_none():
    async with emulated(CLOUD, admin_token=ADMIN_TOKEN) as world:
        token = install(world.cluster)
        admin, account = (
            Api(EmulatedFront(world.cluster.routes, world.clock, token=each))
            for each in (ADMIN_TOKEN, token)
        )
        kept = {"metadata": {"name": "old", "finalizers": ["example.com/keep"]}}
        world.api.create(NAMESPACES, kept)
        made = {"metadata": {"name": "s"}}
        assert await admin.create("old", "configmaps", made)
        assert not await admin.create("old", "configmaps", made)
        with pytest.raises(Forbidden):
            await account.create("old", "configmaps", made)
        await admin.delete_namespace("old")
        assert not await admin.create("old", "configmaps", {"metadata": {"name": "t"}})

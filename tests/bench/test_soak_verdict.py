"""Which promises a soak finds broken: each by what breaks it, and none by what does not."""

import json

import attrs
import pytest

from kubedsm.bench.soak.processes import LogCount
from kubedsm.bench.soak.run import PodWatch
from kubedsm.bench.soak.tenants import ODD_NAMESPACE
from kubedsm.bench.soak.verdict import SoakResult, Wait
from kubedsm.core.world.events import PodApplied, PodDeleted
from kubedsm.core.world.model import Pod, PodClass, Resources, SchedulingRules, Uid, Workload

#: 100 calm seconds, then 500 with the odd tenant; one pod, one look at the memory a second
GOOD = SoakResult(
    started=0.0,
    odd_since=100.0,
    ended=600.0,
    workloads=300,
    namespaces_deleted=5,
    waits=tuple(Wait(float(at), 0.02, bound=True) for at in range(600)),
    left_waiting=0,
    left_marked=(),
    most_odd=90,
    asked_odd=90,
    scheduler_ends=0,
    log=LogCount(moves=[(float(at), "completed") for at in range(0, 600, 20)]),
    memory=tuple((float(at), 100_000_000) for at in range(600)),
    seconds_to_stop=0.5,
)


def broken(result):
    return {promise.name for promise in result.promises if not promise.kept}


def slow(since, until, seconds):
    return tuple(
        attrs.evolve(w, seconds=seconds) if since <= w.created < until else w for w in GOOD.waits
    )


def grown(since, by):
    return tuple((at, round(size * by) if at >= since else size) for at, size in GOOD.memory)


def test_a_good_soak_keeps_them_all():
    assert broken(GOOD) == set()
    assert GOOD.kept
    assert GOOD.as_json()["promises"]["bound"]["measured"] == "0 wait"
    json.dumps(GOOD.as_json())


@pytest.mark.parametrize(
    ("promises", "changes"),
    [
        ({"ends"}, {"scheduler_ends": 1}),
        ({"usual"}, {"waits": slow(100, 600, 0.8)}),
        ({"usual", "even"}, {"waits": slow(500, 600, 0.8)}),
        ({"usual"}, {"waits": slow(300, 310, 9.0)}),
        ({"usual", "even"}, {"waits": GOOD.waits[:100]}),
        (set(), {"waits": slow(100, 600, 0.05)}),
        ({"bound"}, {"left_waiting": 1}),
        ({"marks"}, {"left_marked": ("shop/web-1",)}),
        ({"multiply"}, {"most_odd": 200}),
        ({"memory"}, {"memory": grown(400, 1.11)}),
        (set(), {"memory": grown(400, 1.09)}),
        (set(), {"memory": grown(150, 1.5)}),
        ({"memory"}, {"memory": ()}),
        ({"stops"}, {"seconds_to_stop": 20.0}),
        ({"moves"}, {"log": LogCount(moves=GOOD.log.moves[:6])}),
    ],
)
def test_what_breaks_a_promise(promises, changes):
    result = attrs.evolve(GOOD, **changes)
    assert broken(result) == promises
    assert result.kept == (not promises)


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        (b'{"event": "synced", "level": "info"}', True),
        (b'{"event": "bind refused", "level": "warning"}', True),
        (b'{"event": "caught", "level": "error"}', False),
        (b'{"event": "caught", "level": "critical"}', False),
        (b'{"event": "odd", "level": "warning", "exception": []}', False),
        (b"Traceback (most recent call last):\n", False),
        (b"  + Exception Group Traceback (most recent call last):\n", False),
        (b"kubedsm: error: connection refused\n", False),
        (b"kubedsm: no Node in dump.json\n", True),
        (b"[]\n", True),
        (b"\xff\n", True),
    ],
)
def test_what_in_a_log_counts_as_caught(line, is_kept):
    log = LogCount()
    log.take(line, 1.0)
    result = attrs.evolve(GOOD, log=attrs.evolve(log, moves=GOOD.log.moves))
    assert broken(result) == (set() if is_kept else {"caught"})


class SetClock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def pod(uid, node=None, namespace="shop", **more):
    requests = PodClass(Resources(cpu=100), SchedulingRules())
    workload = Workload(namespace, "Deployment", "web")
    pod = Pod(Uid(uid), namespace, uid, workload, requests, "kubedsm", node_name=node)
    return PodApplied(attrs.evolve(pod, **more))


def test_waits_are_from_the_first_sight_of_a_pod_until_it_is_bound_or_goes():
    clock = SetClock()
    watch = PodWatch(clock)

    def see(now, event):
        clock.now = now
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

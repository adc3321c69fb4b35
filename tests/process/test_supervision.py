"""What fails costs what it concerns, and nothing else; and each cause is said once a period."""

import asyncio
import random
from itertools import pairwise

import pytest
import structlog
from structlog.testing import capture_logs

from kubedsm.app.cluster_reflectors import EventHandler
from kubedsm.config.settings import Configuration, load
from kubedsm.events.event_recorder import EventRecorder
from kubedsm.execution.migration_calls import MigrationCalls
from kubedsm.model.events import NodeApplied, PodApplied, PodDeleted
from kubedsm.model.mirror import ClusterMirror
from kubedsm.process.log_throttle import MOST_CAUSES, PERIOD, LogThrottle, cause_of
from kubedsm.process.supervisor import WORKED_AFTER, Supervisor
from kubedsm.scheduling.scheduling_queue import SchedulingQueue
from kubedsm_lab.emulator.api.resources import NODES
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.fixed_clock import FixedClock
from support.rule_instances import pod, zoned
from support.tenants import moved, served
from support.worlds import CLOUD, EDGE, emulated, scheduled

BUSY = load("suggester: {period: 1s}\nmigration: {cooldown: 1s, drainDelay: 1s}", "test")


class BrokenError(Exception):
    pass


class Policy:
    """The configured policy, but for the pods of one app and for suggestions about them."""

    def __init__(self, odd, configuration):
        self._odd, self._policy = odd, configuration.policy

    def place(self, snapshot, pods, *rest):
        if any(self._odd in pod.name for pod in pods):
            raise BrokenError("place")
        return self._policy.place(snapshot, pods, *rest)

    def suggest(self, snapshot, *rest):
        if any(self._odd in pod.name for pod in snapshot.pods.values()):
            raise BrokenError("suggest")
        return self._policy.suggest(snapshot, *rest)


def expected(caught):
    """Take what was caught, all of it on purpose, so that the test does not fail by it."""
    assert caught
    assert all(isinstance(error, BrokenError) for error in caught)
    errors = list(caught)
    caught.clear()
    return errors


async def test_a_decision_that_fails_puts_off_only_the_pods_it_fails_for(caught):
    async with scheduled(emulated(EDGE, CLOUD), policy=Policy("odd", Configuration())) as world:
        for app in ("a", "odd", "b"):
            world.deploy(app, 2)
        await world.until_bound(4, 1)
        await served(world)
        await asyncio.sleep(30)
        assert world.placed("odd") == {None: 2}
        [message] = {event["message"] for event in world.events("FailedScheduling")}
        assert "internal error of the scheduler" in message
        # 1, 2, 4, 8, 10, 10 seconds of back-off, up to a fifth less by chance.
        assert len(expected(caught)) <= 2 * 9


async def test_suggestions_that_fail_keep_no_batch_waiting_and_are_tried_again(caught):
    policy = Policy("nobody", BUSY)
    async with emulated(CLOUD, configuration=BUSY) as world, world.scheduler(policy=policy):
        await world.bring_up("web", 1, within=2)
        policy._odd = "web"
        await served(world)
        await asyncio.sleep(60)
        assert len(expected(caught)) < 10
        policy._odd = "nobody"
        caught.clear()
        await moved(world, seconds=120)


@pytest.mark.parametrize("step", ["check", "detach", "evict", "restore"])
async def test_a_step_that_fails_takes_its_own_move_back_and_no_other(step, caught, monkeypatch):
    odd = ["web"]

    def failing(works):
        def fails(self, *args):
            if any(name in str(arg) for arg in args for name in odd):
                raise BrokenError(step)
            return works(self, *args)

        return fails

    # To restore is asked for when something else is lost.
    for name in {"restore": ("restore", "evict")}.get(step, (step,)):
        monkeypatch.setattr(MigrationCalls, name, failing(getattr(MigrationCalls, name)))
    async with emulated(CLOUD, configuration=BUSY) as world, world.scheduler() as runtime:
        await world.bring_up("web", 1, within=2)
        await asyncio.sleep(2)
        world.api.create(NODES, EDGE)
        if step != "check":
            # Long before the deadline of 60 s: nobody waits for a call that has failed.
            await world.until(lambda: world.events("MigrationFailed"), 20)
        await moved(world, seconds=150)
        await served(world)
        await asyncio.sleep(90)
        expected(caught)
        assert runtime.supervisor.caught.total() < 100
        odd.clear()
        await world.until(lambda: world.placed("web") == {"e1": 1}, 900)
        await world.until(lambda: not runtime.mirror._reservations, 60)
        caught.clear()


@pytest.mark.parametrize(
    ("owner", "method", "part"),
    [(ClusterMirror, "apply", "event"), (EventRecorder, "_write", "recorder")],
    ids=["event", "note"],
)
async def test_an_object_that_cannot_be_taken_in_is_the_only_one(
    owner, method, part, caught, monkeypatch
):
    works = getattr(owner, method)

    def fails(self, it):
        if "odd" in str(it):
            raise BrokenError(method)
        return works(self, it)

    monkeypatch.setattr(owner, method, fails)
    async with emulated(EDGE, CLOUD) as world, world.scheduler() as runtime:
        world.deploy("odd", 1)
        world.deploy("web", 3)
        await world.until(lambda: sum(n for at, n in world.placed("web").items() if at) == 3, 2)
        await served(world, seconds=60)
        expected(caught)
        assert set(runtime.supervisor.caught) == {part}


async def test_what_fails_for_some_is_halved_until_only_they_are_left(caught):
    done = []

    def action(numbers):
        if {3, 6} & set(numbers):
            raise BrokenError(str(numbers))
        done.extend(numbers)

    supervisor = Supervisor(VirtualClock(epoch=0.0), random.Random(0))
    caught_of = supervisor.caught
    supervisor._throttle.count_suppressed = lambda *_: 0
    assert supervisor.isolate_failures("part", action, list(range(1, 9))) == [3, 6]
    assert sorted(done) == [1, 2, 4, 5, 7, 8]
    assert caught_of == {"part": 2}
    expected(caught)


async def test_what_hears_of_an_event_and_fails_keeps_no_other_from_hearing(caught):
    of_pods, of_gone, of_others = [], [], []

    def fails(change):
        raise BrokenError("hears")

    clock, rng = VirtualClock(), random.Random(0)
    queue = SchedulingQueue(clock, rng)
    handler = EventHandler(
        ClusterMirror(),
        queue,
        Supervisor(clock, rng),
        on_pod=(fails, of_pods.append),
        on_gone=(fails, of_gone.append),
        on_other=(fails, of_others.append),
    )
    one = pod("a")
    handler.handle(PodApplied(one))
    assert [change.pod_after for change in of_pods] == [one]
    assert one.uid in queue
    handler.handle(NodeApplied(zoned("n1")))
    assert [change.node_after.name for change in of_others] == ["n1"]
    handler.handle(PodDeleted(one.uid, one.namespace, one.name))
    assert [change.pod_before for change in of_gone] == [one]
    assert one.uid not in queue
    assert len(of_pods) == 1
    assert len(of_others) == 1
    assert len(expected(caught)) == 3


async def test_a_loop_that_fails_again_and_again_is_named_until_it_works(caught):
    supervisor, breaks = Supervisor(VirtualClock(), random.Random(0)), True

    async def loop():
        while True:
            await asyncio.sleep(0.5)
            if breaks:
                raise BrokenError

    kept = asyncio.create_task(supervisor.keep("loop", loop))
    await asyncio.sleep(0.4)
    assert (supervisor.list_parts(), supervisor.list_failing()) == ({"loop"}, {})
    await asyncio.sleep(200)
    assert supervisor.list_failing()["loop"] == pytest.approx(200.1 - 0.2)
    breaks = False
    await asyncio.sleep(100)
    assert supervisor.list_failing() == {}
    kept.cancel()
    await asyncio.wait([kept])
    assert supervisor.list_parts() == set()
    expected(caught)


async def test_a_loop_that_has_worked_for_a_while_is_begun_anew_soon(caught):
    clock, began = VirtualClock(), []
    supervisor = Supervisor(clock, random.Random(0))

    async def loop():
        began.append(clock.monotonic())
        await asyncio.sleep(WORKED_AFTER)
        raise BrokenError

    keeping = asyncio.create_task(supervisor.keep("part", loop))
    await asyncio.sleep(9 * WORKED_AFTER)
    assert max(b - a - WORKED_AFTER for a, b in pairwise(began)) < 2
    assert max(supervisor.list_failing().values()) < 2 * WORKED_AFTER
    keeping.cancel()
    await asyncio.wait([keeping])
    expected(caught)


log = structlog.get_logger()


def test_names_numbers_and_times_are_no_causes():
    one = cause_of('403 Forbidden: pods "web-a" is forbidden at 10:02: 5 of 4', "web-a")
    other = cause_of('403 Forbidden: pods "api" is forbidden at 11:40: 6 of 4', "api")
    assert one == other


def test_a_right_that_is_missing_is_one_cause_whatever_it_was_missing_for():
    said = '403 Forbidden: deployments.apps "{}" is forbidden: User "u" cannot {} resource "d"'
    one, other = cause_of(said.format("web", "get")), cause_of(said.format("api", "get"))
    assert one == other
    assert one != cause_of(said.format("web", "list"))


def test_another_status_or_another_word_is_another_cause():
    causes = {"403 Forbidden: quota", "422 Forbidden: quota", "403 Forbidden: webhook"}
    assert {cause_of(cause) for cause in causes} == causes


def test_a_name_that_is_part_of_a_word_is_no_name():
    assert cause_of("403 pods are refused", "a", "pod") == "403 pods are refused"


def test_a_cause_is_said_at_once_and_then_once_a_period_with_a_count():
    clock = FixedClock()
    throttle = LogThrottle(clock)
    with capture_logs() as lines:
        for second in range(int(2 * PERIOD) + 1):
            clock.seconds = float(second)
            throttle.log(log.warning, "refused", "403 no", pod=f"shop/web-{second}")
    assert [line.get("more") for line in lines] == [None, PERIOD - 1, PERIOD - 1]
    assert lines[0] == {
        "event": "refused",
        "log_level": "warning",
        "pod": "shop/web-0",
        "error": "403 no",
    }


def test_what_never_repeats_itself_is_bounded_too():
    clock = FixedClock()
    throttle = LogThrottle(clock)
    with capture_logs() as lines:
        for number in range(10_000):
            clock.seconds = number / 100
            throttle.log(log.warning, "refused", "403 " + "x" * (number % 1000))
    assert len(lines) <= 2 * MOST_CAUSES + 2
    assert len(throttle._lines) <= MOST_CAUSES + 1

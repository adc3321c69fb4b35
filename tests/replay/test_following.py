"""A cluster recorded by its watches, against its own store, and what loadgen measured of it."""

import asyncio
import json
import random
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import attrs
import orjson
import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.config.settings import load
from kubedsm.kube.client.port import Unreachable
from kubedsm.model.model import Tier, Tiers
from kubedsm_lab.chaos.faults import answer
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS, NODES
from kubedsm_lab.emulator.front import Delivery, EmulatedFront, RequestFault
from kubedsm_lab.replay import following
from kubedsm_lab.replay.following import Plan, follow_cluster, read_load_report, record_until_end
from kubedsm_lab.replay.measures import ResponseTimes, lost_pod_seconds, pending_seconds
from kubedsm_lab.replay.recording import TimelineRecorder
from kubedsm_lab.replay.sightings import READERS
from loadgen.arrivals import Arrival
from loadgen.measures import Outcome, RequestRecorder
from support.move_scenes import CONFIGURATION, LARGE_CLOUD, SMALL_EDGE, open_edge, quiet
from support.worlds import emulated, scheduled

SERVICES = ("web", "shop")
RECREATE = load(
    """
suggester: {period: 1s}
migration: {mode: recreate, price: 0s, cooldown: 1s, drainDelay: 1s, deadline: 10s}
""",
    "test",
)


class Outage:
    """While it lasts nothing is answered, and watches break; those before it have expired then."""

    def __init__(self):
        self.lasts = False
        self._expired = set()

    def on_request(self, request):
        if self.lasts:
            self._expired.add(request.path)
            return RequestFault(Unreachable("connection refused"))
        if "watch" in request.query and request.path in self._expired:
            self._expired.remove(request.path)
            return RequestFault(answer(410, "Expired"))
        return None

    def on_line(self, request, line):
        return Delivery((), end="broken") if self.lasts else None


@asynccontextmanager
async def both(world, faults=None):
    """A recorder told by the store, and one by watches that take no time; and what is reported."""
    by_store, by_watch = (TimelineRecorder(SERVICES, Tiers()) for _ in range(2))
    for there in world.api.list(NODES):
        by_store.take(READERS["Node"].value(there), 0.0)
    world.api.store.subscribe(lambda c: by_store.notice(c, world.clock.monotonic()))
    front = EmulatedFront(world.cluster.routes, world.clock, faults=faults)
    said = []
    async with follow_cluster(front, by_watch, world.clock, random.Random(1), said.append):
        yield by_store, by_watch, said


async def busy(world):
    """Two services: made, moved to an edge that comes later, scaled, and one of them deleted."""
    world.deploy("web", 2)
    world.deploy("shop", 1)
    await world.until_bound(3, 5)
    await asyncio.sleep(2)
    open_edge(world)
    await world.until(lambda: world.placed()["e1"] == 2, 60)
    await quiet(world)
    world.scale("web", 4)
    await asyncio.sleep(5)
    world.scale("web", 2)
    world.api.delete(DEPLOYMENTS, "default", "shop")
    await asyncio.sleep(20)


@pytest.mark.parametrize("configuration", [CONFIGURATION, RECREATE], ids=["surge", "recreate"])
async def test_watches_tell_what_the_store_tells(configuration):
    async with (
        emulated(LARGE_CLOUD, configuration=configuration) as world,
        both(world) as (by_store, by_watch, said),
        world.scheduler(),
    ):
        await busy(world)
        end = world.clock.monotonic()
        told, seen = (recorder.record(5.0, end) for recorder in (by_store, by_watch))
        assert seen == told
        assert said == []
    assert {life.tier for life in seen.timeline.lives} == {Tier.EDGE, Tier.CLOUD}
    assert len(seen.timeline.moves) >= 2
    recreates = configuration is RECREATE
    assert (lost_pod_seconds(seen.timeline) > 0) is recreates
    assert [number for _, number in seen.timeline.replicas["web"]] == [2, 4, 2]
    assert seen.timeline.replicas["shop"][-1][1] == 0
    assert by_watch.emulated


def ranking(record):
    """What is there at the end: who serves where since when, and how many are wanted."""
    timeline = record.timeline
    there = [
        (life.service, life.node, life.tier, bool(life.served) and life.served[-1][1])
        for life in timeline.lives
        if life.gone is None
    ]
    wanted = {name: steps[-1][1] for name, steps in timeline.replicas.items()}
    return sorted(there), wanted, timeline.levels()[-1].shares


async def test_a_list_tells_what_was_missed_while_the_watches_were_lost():
    outage = Outage()
    async with (
        emulated(LARGE_CLOUD, SMALL_EDGE, configuration=CONFIGURATION) as world,
        both(world, outage) as (by_store, by_watch, said),
        world.scheduler(),
    ):
        world.deploy("web", 3)
        world.deploy("shop", 2)
        await world.until_bound(5, 5)
        await asyncio.sleep(5)
        outage.lasts = True
        world.scale("web", 1)
        world.scale("shop", 4)
        await asyncio.sleep(30)
        before = ranking(by_watch.record(0.0, world.clock.monotonic()))
        outage.lasts = False
        await asyncio.sleep(60)
        end = world.clock.monotonic()
        told, seen = (ranking(recorder.record(0.0, end)) for recorder in (by_store, by_watch))
    assert before != seen
    assert seen == told
    assert [line for line in said if "Pod watch: connection refused" in line] != []
    assert "Pod watch: works again" in said


PLAN = Plan(30.0)


@asynccontextmanager
async def settled():
    async with scheduled(emulated(LARGE_CLOUD, SMALL_EDGE, configuration=CONFIGURATION)) as world:
        world.deploy("web", 3)
        world.deploy("shop", 1)
        await world.until_bound(4, 5)
        await asyncio.sleep(5)
        yield world


async def record(world, plan, stop=None, said=None, recorder=None):
    """The record, and how load fared."""
    front = EmulatedFront(world.cluster.routes, world.clock)
    say, stop = (said if said is not None else []).append, stop or asyncio.Event()
    recorder = recorder or TimelineRecorder(SERVICES, Tiers())
    async with follow_cluster(front, recorder, world.clock, random.Random(1), say):
        return await record_until_end(recorder, plan, stop, world.clock, say)


def load_report(path, began, seconds, **services):
    """As loadgen writes it: seconds since the epoch, and by service who gave the one answer."""

    def service(name, requests):
        latency = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 40.0)
        served = {name: {"answered": 1, "mean": 40.0}}
        return {"requests": requests, "answered": 1, "latencyMs": latency, "servedBy": served}

    named = {name: service(by, 2) for name, by in services.items()}
    when = datetime.fromtimestamp(began, UTC).isoformat()
    total = service("", 2 * len(named)) | {"answered": len(named)}
    report = {"began": when, "seconds": seconds, "services": named, "total": total}
    path.write_bytes(orjson.dumps(report))


async def test_it_ends_when_it_was_to():
    async with settled() as world:
        began = world.clock.monotonic()
        recorder = TimelineRecorder(SERVICES, Tiers())
        seen, answers = await record(world, PLAN, recorder=recorder)
        assert world.clock.monotonic() - began == pytest.approx(30, abs=0.1)
    timeline = seen.timeline
    assert timeline.end == pytest.approx(30, abs=0.1)
    assert {name: share.total for name, share in timeline.levels()[-1].shares.items()} == {
        "web": 3,
        "shop": 1,
    }
    assert answers.overall.mean is None
    assert recorder.schedulers == {"kubedsm"}
    assert recorder.emulated
    # They had nodes when they were first seen: nothing is known of how long they waited.
    assert pending_seconds(timeline) == []


async def test_it_begins_and_ends_with_the_load_of_which_there_is_a_report(tmp_path):
    """Load comes 5 s late and lasts for 30 s, and its report is written 4 s after that."""
    path = tmp_path / "load.json"
    plan = attrs.evolve(PLAN, load_report=path)
    async with settled() as world:
        one = world.pods("web")[0]
        pod, there = one["metadata"]["name"], one["spec"]["nodeName"]
        began = world.clock.wall() + 5
        loop = asyncio.get_running_loop()
        loop.call_later(2, world.scale, "shop", 2)
        loop.call_later(37, world.scale, "shop", 3)
        loop.call_later(39, partial(load_report, path, began, 30, web=pod, shop="c1"))
        seen, answers = await record(world, plan)
    timeline = seen.timeline
    assert timeline.end == pytest.approx(30, abs=0.1)
    assert timeline.replicas["shop"][1:] == (
        (pytest.approx(-3, abs=0.1), 2), (pytest.approx(32, abs=0.1), 3)
    )  # fmt: skip
    assert max(life.created for life in timeline.lives) < 30
    tier = Tier.EDGE if there == "e1" else Tier.CLOUD
    assert answers.by_tier == {"web": {tier: 40}, "shop": {Tier.CLOUD: 40}}
    assert answers.responses["web"].p95 == 40
    assert answers.unanswered == 2


@pytest.mark.parametrize(
    ("before", "recorded"), [(1.5, None), (12, "18.0 s of 30.0 s"), (-18, "12.9 s of 30.0 s")]
)
async def test_load_outside_the_recording_is_told_and_has_no_response_times(
    before, recorded, tmp_path
):
    """Load of 30 s begins seconds before the recording, which is stopped 30 s later."""
    path, said, stop = tmp_path / "load.json", [], asyncio.Event()
    plan = attrs.evolve(PLAN, load_report=path)
    async with settled() as world:
        began, loop = world.clock.wall() - before, asyncio.get_running_loop()
        loop.call_later(29.9, stop.set)
        loop.call_later(30, partial(load_report, path, began, 30, web="e1"))
        seen, answers = await record(world, plan, stop, said)
    assert (answers.overall.mean is None) is (recorded is not None)
    told = [f"{path}: {recorded} of load were recorded; no response times"] if recorded else []
    assert said == told
    assert seen.timeline.end == pytest.approx(30 - abs(before), abs=1)


@pytest.mark.parametrize("there", [False, True], ids=["none", "of another time"])
async def test_without_a_report_of_this_load_there_are_no_response_times(there, tmp_path):
    path, said = tmp_path / "load.json", []
    async with settled() as world:
        if there:
            load_report(path, world.clock.wall() - 3600, 30, web="e1")
        began = world.clock.monotonic()
        seen, answers = await record(world, attrs.evolve(PLAN, load_report=path), said=said)
        waited = world.clock.monotonic() - began
    assert answers.overall.mean is None
    reason = "is of load at another time" if there else "No such file or directory"
    assert said[-1] == f"{path}: {reason}; no response times"
    assert there or waited == pytest.approx(30 + following.PATIENCE, abs=2)
    assert len(seen.timeline.lives) == 4


BEGAN = "2026-01-01T00:00:10.500+00:00"


@pytest.fixture
def written(tmp_path):
    """What loadgen's own recorder makes of some requests, changed as a test wants it."""
    recorder = RequestRecorder(["a", "b", "silent"])
    ends = [
        *[("a", 0.1, 200, "e1")] * 2, ("a", 0.4, 200, "e2"),
        ("a", 0.5, 200, "c1"), ("a", 2.0, 503, "c1"), ("b", 0.2, 200, ""),
    ]  # fmt: skip
    for service, latency, status, by in ends:
        arrival = Arrival(1.0, service)
        recorder.offer(arrival, 1.0)
        recorder.begin(arrival, 1.0)
        recorder.end(Outcome(arrival, 1.0 + latency, status, served_by=by))
    report = {"began": BEGAN} | recorder.results(10.0, interrupted=False).as_json()

    def write(**changes):
        path = tmp_path / "load.json"
        path.write_text(json.dumps(report | changes))
        return path

    return write


def tier(name):
    return {"e": Tier.EDGE, "c": Tier.CLOUD}.get(name[:1])


def test_times_are_by_service_in_all_and_by_tier(written):
    load = read_load_report(written())
    assert (load.start, load.end) == (1767225610.5, 1767225620.5)
    answers = load.answers(tier)
    assert answers.responses == {
        "a": ResponseTimes(275, 500),
        "b": ResponseTimes(200, 200),
    }
    assert answers.overall == ResponseTimes(260, 500)
    assert answers.unanswered == 1
    assert answers.by_tier == {"a": {Tier.EDGE: 200, Tier.CLOUD: 500}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"began": "yesterday"}, "began: invalid RFC3339 encoded datetime"),
        ({"began": "2026-01-01T00:00:00"}, "began: no time zone"),
        ({"seconds": None}, "seconds: expected `float`, got `null`"),
        ({"services": {"a": {}}}, "services[...]: object missing required field `requests`"),
    ],
)
def test_what_is_no_such_report_is_refused_in_one_line(changes, reason, written):
    path = written(**changes)
    with pytest.raises(DocumentError) as refused:
        read_load_report(path)
    assert str(refused.value) == f"{path}: {reason}"

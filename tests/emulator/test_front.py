"""The cluster in this process: its failures, watches, and latencies of a real control plane."""

import asyncio
import random

import attrs
import orjson
import pytest

from kubedsm.kube.client.port import (
    ApiStatusError,
    Conflict,
    OutcomeUnknown,
    Request,
    Response,
    ServerError,
    Unreachable,
)
from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.pacing import CREATION, DELIVERY
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, PODS, REPLICA_SETS
from kubedsm_lab.emulator.front import Delivery, EmulatedFront, RequestFault
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes
from kubedsm_lab.emulator.paper import workload
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.actor_world import NS, emulated, pod_spec
from support.api_cases import pod, watching

TOKEN = "right"  # noqa: S105 - nobody's
PATH = "/api/v1/namespaces/default/pods"
CREATE = Request("POST", PATH, body=pod())
WATCH = Request("GET", PATH, query={"watch": "1"})


@attrs.define
class Script:
    """Faults by number of request and of line, both counted from 0."""

    requests: dict[int, RequestFault] = attrs.field(factory=dict)
    lines: dict[int, Delivery] = attrs.field(factory=dict)
    sent: list[Request] = attrs.field(factory=list)
    seen: int = 0

    def on_request(self, request):
        self.sent.append(request)
        return self.requests.get(len(self.sent) - 1)

    def on_line(self, request, line):
        assert request == WATCH
        assert not line.endswith(b"\n")
        self.seen += 1
        return self.lines.get(self.seen - 1)


@pytest.fixture
async def api():
    return ApiServer(VirtualClock(), random.Random(0))


def front(api, **options):
    return EmulatedFront(Routes(api), VirtualClock(), **options)


async def test_a_watch_that_is_refused_raises(api):
    with pytest.raises(ApiStatusError) as refused:
        async with front(api).stream(
            Request("GET", PATH, query={"watch": "1", "fieldSelector": "x=1"}), timeout=1
        ):
            pass
    assert refused.value.message == "field label not supported: x"
    routes = Routes(api, Access.enforced(api, TOKEN))
    with pytest.raises(ApiStatusError, match="401"):
        async with EmulatedFront(routes, VirtualClock(), token=TOKEN * 2).stream(WATCH, timeout=1):
            pass
    async with EmulatedFront(routes, VirtualClock(), token=TOKEN).stream(WATCH, timeout=1):
        pass


@pytest.mark.parametrize(("applied", "left"), [(False, 0), (True, 1)])
async def test_a_request_lost_on_its_way_there_or_back(api, applied, left):
    faults = Script({0: RequestFault(OutcomeUnknown("reset"), applied=applied)})
    with pytest.raises(OutcomeUnknown, match="reset"):
        await front(api, faults=faults).request(CREATE, timeout=1)
    assert len(api.list(PODS)) == left


async def test_an_answer_that_is_not_the_api_servers(api):
    html = Response(503, b"<html>overloaded</html>")
    faults = Script({0: RequestFault(html), 1: RequestFault(html), 2: RequestFault(html, True)})
    cluster = front(api, faults=faults)
    assert await cluster.request(CREATE, timeout=1) == html
    with pytest.raises(ServerError, match="overloaded"):
        async with cluster.stream(WATCH, timeout=1):
            pass
    assert await cluster.request(CREATE, timeout=1) == html
    assert len(api.list(PODS)) == 1


async def test_a_watch_that_cannot_be_opened(api):
    conflict = Conflict(409, "Conflict", "no")
    faults = Script({0: RequestFault(Unreachable("no")), 1: RequestFault(conflict, applied=True)})
    cluster = front(api, faults=faults)
    for error in (Unreachable, Conflict):
        with pytest.raises(error):
            async with cluster.stream(WATCH, timeout=1):
                pass


async def names(cluster):
    """Of the pods a watch shows within ten seconds."""
    found = []
    async with cluster.stream(WATCH, timeout=1) as lines:
        try:
            async with asyncio.timeout(10):
                async for line in lines:
                    try:
                        found.append(orjson.loads(line)["object"]["metadata"]["name"])
                    except orjson.JSONDecodeError:
                        found.append("?")
        except TimeoutError:
            pass
    return found


@pytest.mark.parametrize(
    ("delivery", "expected"),
    [
        (Delivery(()), ["a", "c"]),
        (Delivery((b'{"object":{"metadata":{"name":"x"}}}',) * 2), ["a", "x", "x", "c"]),
        (Delivery((b'{"object":',)), ["a", "?", "c"]),
        (Delivery((), end="closed"), ["a"]),
        (Delivery((), delay=20), ["a"]),
    ],
)
async def test_what_may_happen_to_a_line(api, delivery, expected):
    for name in "abc":
        api.create(PODS, pod(name))
    assert await names(front(api, faults=Script(lines={1: delivery}))) == expected


async def test_a_broken_watch_raises_after_its_lines(api):
    api.create(PODS, pod())
    faults = Script(lines={0: Delivery((b"{",), end="broken")})
    async with front(api, faults=faults).stream(WATCH, timeout=1) as lines:
        assert await anext(lines) == b"{"
        with pytest.raises(OutcomeUnknown, match="broke"):
            await anext(lines)


async def test_latency_is_there_and_back(api):
    cluster = front(api, latency=0.2)
    loop = asyncio.get_running_loop()
    applied = []
    api.store.subscribe(lambda _: applied.append(loop.time()))
    await cluster.request(CREATE, timeout=1)
    assert (applied, loop.time()) == ([0.1], 0.2)


async def test_an_answer_that_comes_too_late(api):
    with pytest.raises(OutcomeUnknown, match="no answer within 1 s"):
        await front(api, latency=1.5).request(CREATE, timeout=1)
    assert len(api.list(PODS)) == 1
    with pytest.raises(OutcomeUnknown):
        async with front(api, latency=3).stream(WATCH, timeout=1):
            pass


async def test_leaving_a_selection_is_a_deletion(routes, api):
    stream = watching(routes, labelSelector="app=web")
    merge = "application/merge-patch+json"
    api.create(PODS, pod("a"))
    api.create(PODS, pod("other", metadata={"labels": {"app": "api"}}))
    for app in ("api", "db", "web"):
        patch = {"metadata": {"labels": {"app": app}}}
        api.patch(PODS, "default", "a", patch, merge)
    lines = [orjson.loads(await anext(stream)) for _ in range(stream.waiting)]
    assert [line["type"] for line in lines] == ["ADDED", "DELETED", "ADDED"]
    # as it last was in the selection, at the revision at which it left
    left = lines[1]["object"]["metadata"]
    assert left["labels"]["app"] == "web"
    assert int(left["resourceVersion"]) > int(lines[0]["object"]["metadata"]["resourceVersion"])


async def test_a_reader_that_does_not_keep_up_loses_its_watch(routes, api):
    stream = watching(routes, "/api/v1/namespaces/default/configmaps")
    api.create(CONFIGMAPS, {"metadata": {"name": "c"}})
    for turn in range(10_100):
        api.update(
            CONFIGMAPS,
            {"metadata": {"name": "c", "namespace": "default"}, "data": {"turn": str(turn)}},
        )
    assert len([line async for line in stream]) == 10_001


async def test_bookmarks_tell_how_far_the_rest_of_the_world_has_come(routes, api):
    stream = watching(routes, allowWatchBookmarks="true", timeoutSeconds="150")
    asyncio.get_running_loop().call_later(70, api.create, PODS, pod())
    events = [orjson.loads(line) async for line in stream]
    assert [event["type"] for event in events] == ["BOOKMARK", "ADDED", "BOOKMARK"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == [api.store.revision - 1, api.store.revision, api.store.revision]


async def test_a_reader_that_gives_up_misses_nothing(routes, api):
    """asyncio.wait_for cancels a read; the next one goes on where it was."""
    stream = watching(routes)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), 1)
    api.create(PODS, pod())
    assert orjson.loads(await anext(stream))["type"] == "ADDED"


def make_replica_set(world, replicas):
    body = workload("web", replicas, pod_spec(), "ReplicaSet")
    world.api.create(REPLICA_SETS, body, namespace=NS)


async def record_creations(replicas, seed=1):
    """Return the times at which the pods of a new ReplicaSet were created, in seconds."""
    times = []
    async with emulated(paced=True, seed=seed) as world:
        began = asyncio.get_running_loop().time()

        def note(change):
            if change.resource is PODS and change.type == "ADDED":
                times.append(asyncio.get_running_loop().time() - began)

        world.api.store.subscribe(note)
        make_replica_set(world, replicas)
        await asyncio.sleep(10)
        assert len(world.pods("web")) == replicas
    return times


@pytest.mark.parametrize("seed", range(5))
async def test_a_replica_set_creates_one_pod_then_two_then_four(seed):
    times = await record_creations(10, seed)
    start = 0.0
    for first, last in ((0, 1), (1, 3), (3, 7), (7, 10)):
        batch = times[first:last]
        assert all(CREATION[0] <= time - start <= CREATION[1] + 1e-3 for time in batch)
        start = max(batch)


async def test_watch_events_arrive_late_and_in_order_also_after_the_watch_has_ended():
    clock = VirtualClock()
    api = ApiServer(clock, random.Random(0))
    routes = Routes(api, pacing=random.Random(1))
    stream = routes.handle(
        ApiRequest("GET", "/api/v1/pods", {"watch": "1", "timeoutSeconds": "10"})
    )
    loop = asyncio.get_running_loop()
    created = [9.0, 9.01, 9.02, 9.99, 9.995]
    for number, moment in enumerate(created):
        loop.call_later(moment, api.create, PODS, pod(name=f"p{number}"))
    names, delays = [], []
    async for line in stream:
        delays.append(loop.time() - created[len(names)])
        names.append(orjson.loads(line)["object"]["metadata"]["name"])
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert all(DELIVERY[0] <= delay <= DELIVERY[1] + 1e-3 for delay in delays)
    assert loop.time() > 10.0

"""A reflector against a scripted API server, in virtual time."""

import asyncio
import contextlib
import itertools
import json
import random

import attrs
import pytest

from kubedsm.clock import VirtualClock
from kubedsm.cluster.client.port import (
    Expired,
    Forbidden,
    OutcomeUnknown,
    Request,
    Response,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from kubedsm.cluster.watching.reflector import (
    SILENT_STREAMS,
    STALE_LISTS,
    Reflector,
    ReflectorStatistics,
)
from kubedsm.cluster.watching.watched import NODES, PODS
from kubedsm.core.world.events import (
    HistoryRewound,
    NodeApplied,
    NodeDeleted,
    PodApplied,
    PodDeleted,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

FOREVER = 1e9
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def pod(name, version, uid=None, **spec):
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": spec,
    }


def node(name, version, uid):
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


def listed(version, *items, more=""):
    body = {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}
    return Response(200, json.dumps(body).encode())


def line(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version):
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return line("BOOKMARK", {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}})


@attrs.frozen
class Stream:
    """What a watch does in turn: say a line, pause for seconds, raise; then the server ends it."""

    steps: tuple = ()
    opens_after: float = 0.0
    refusal: Exception | None = None


def stream(*steps):
    return Stream(steps)


@attrs.frozen
class Asked:
    at: float
    query: dict

    @property
    def watches(self):
        return "watch" in self.query

    @property
    def version(self):
        return self.query["resourceVersion"]


class ScriptedCluster:
    """Answers the nth request with the nth step, whatever it asks for; then says no more."""

    def __init__(self, clock, steps):
        self.clock = clock
        self.steps = list(steps)
        self.asked = []

    def _next(self, request, *, watches):
        self.asked.append(Asked(self.clock.monotonic(), dict(request.query)))
        step = self.steps.pop(0) if self.steps else stream(FOREVER)
        assert watches == ("watch" in request.query)
        if isinstance(step, Exception):
            raise step
        assert isinstance(step, Stream) == watches, f"{request} is not what the script expects"
        return step

    async def request(self, request: Request, *, timeout: float) -> Response:
        assert timeout > 0
        return self._next(request, watches=False)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, *, timeout: float):
        assert timeout > 0
        step = self._next(request, watches=True)
        await self.clock.sleep(step.opens_after)
        if step.refusal is not None:
            raise step.refusal
        yield self._lines(step)

    async def _lines(self, script):
        for step in script.steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await self.clock.sleep(step)


@attrs.frozen
class Played:
    told: list
    reports: list
    asked: list
    statistics: ReflectorStatistics
    #: how many events had been told when it was synced, for each time it was
    synced: list

    @property
    def watches(self):
        return [asked for asked in self.asked if asked.watches]

    @property
    def lists(self):
        return [asked for asked in self.asked if not asked.watches]


def told(event):
    """+ for a pod or node applied, - for one deleted."""
    match event:
        case PodApplied(pod):
            return f"+{pod.name}@{pod.resource_version}"
        case PodDeleted(uid, _, name):
            return f"-{name}:{uid}"
        case HistoryRewound():
            return "rewound"
        case NodeApplied(applied):
            return f"+{applied.name}"
        case NodeDeleted(name):
            return f"-{name}"


async def play(*steps, seconds=200.0, watched=PODS, seed=1):
    clock = VirtualClock()
    cluster = ScriptedCluster(clock, steps)
    events, reports, synced = [], [], []
    reflector = Reflector(
        cluster,
        watched,
        clock,
        random.Random(seed),
        events.append,
        lambda: synced.append(len(events)),
        reports.append,
    )
    running = asyncio.create_task(reflector.run())
    await asyncio.wait([running], timeout=seconds)
    if running.done():
        running.result()
    statistics, reported = reflector.statistics, list(reports)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return Played([told(event) for event in events], reported, cluster.asked, statistics, synced)


async def test_lists_in_pages_then_watches_from_the_lists_version():
    played = await play(
        listed(10, pod("a", 3), pod("b", 4), more="token"),
        listed(10, pod("c", 5)),
        stream(line("ADDED", pod("d", 11)), line("MODIFIED", pod("a", 12)), FOREVER),
        seconds=1,
    )
    assert played.told == ["+a@3", "+b@4", "+c@5", "+d@11", "+a@12"]
    first, second, watch = played.asked
    assert first.query == {"limit": "500"}
    assert second.query == {"limit": "500", "continue": "token"}
    assert watch.version == "10"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch.query["timeoutSeconds"]) <= 600
    assert played.synced == [3]
    assert played.statistics == ReflectorStatistics(
        synced=True,
        objects=4,
        relists=0,
        reconnects=0,
        malformed=0,
        last_line_at=played.asked[-1].at,
        trouble="",
    )


async def test_watch_timeouts_are_spread():
    spans = {
        (await play(listed(1), seconds=1, seed=seed)).watches[0].query["timeoutSeconds"]
        for seed in range(8)
    }
    assert len(spans) > 4


async def test_is_not_synced_before_the_last_page():
    played = await play(listed(10, pod("a", 3), more="token"), Unreachable("refused"), seconds=0.5)
    assert played.told == ["+a@3"]
    assert played.synced == []
    assert not played.statistics.synced


async def test_an_expired_continue_token_starts_the_list_over_at_once():
    gone = Response(410, json.dumps(EXPIRED).encode())
    played = await play(
        listed(10, pod("a", 3), more="token"), gone, listed(20, pod("b", 15)), seconds=0.1
    )
    assert [asked.query.get("continue") for asked in played.lists] == [None, "token", None]
    assert played.told == ["+a@3", "+b@15", "-a:uid-a"]
    assert played.reports == []


async def test_goes_on_from_the_last_event_or_bookmark():
    played = await play(
        listed(10),
        stream(line("ADDED", pod("a", 11)), 6.0),
        stream(bookmark(40), 6.0),
        stream(FOREVER),
        seconds=60,
    )
    assert [watch.version for watch in played.watches] == ["10", "11", "40"]
    assert len(played.lists) == 1


async def test_a_stream_that_ends_in_time_is_followed_by_another_at_once():
    played = await play(listed(10), stream(6.0), stream(FOREVER), seconds=10)
    assert [round(watch.at, 3) for watch in played.watches] == [0.0, 6.0]
    assert played.statistics.reconnects == 1


async def test_streams_that_end_as_they_begin_are_not_reopened_in_a_hot_loop():
    played = await play(listed(10), *[stream(bookmark(10))] * 50, seconds=60)
    assert 4 <= len(played.watches) <= 9


@pytest.mark.parametrize("how", ["event", "status"])
async def test_expired_versions_lead_to_a_list_that_tells_what_is_gone(how):
    expired = line("ERROR", EXPIRED)
    refusal = _refusal(410, "Expired")
    played = await play(
        listed(10, pod("a", 3), pod("b", 4), pod("c", 5)),
        stream(expired) if how == "event" else refusal,
        listed(90, pod("a", 3), pod("c", 80, "other"), pod("d", 70)),
        seconds=0.1,
    )
    assert played.told == [
        "+a@3", "+b@4", "+c@5",
        "-c:uid-c", "+c@80", "+d@70", "-b:uid-b",
    ]  # fmt: skip
    assert played.statistics.relists == 1
    assert played.statistics.objects == 3
    assert [watch.version for watch in played.watches] == ["10", "90"]
    assert played.synced == [3]


async def test_expiring_again_and_again_is_slowed_down():
    cycle = [listed(10, pod("a", 3)), stream(line("ERROR", EXPIRED))]
    played = await play(*cycle * 40, seconds=60)
    assert 5 <= len(played.lists) <= 10
    assert len(played.reports) == 1
    assert "410" in played.reports[0]


def _refusal(status, reason, causes=()):
    kinds = {401: Unauthorized, 403: Forbidden, 429: TooManyRequests}
    if status == 410:
        return Expired(status, reason, "too old")
    return kinds.get(status, ServerError)(status, reason, "no", causes)


@pytest.mark.parametrize(
    "failure",
    [
        _refusal(429, "TooManyRequests"),
        _refusal(500, "InternalError"),
        _refusal(503, "ServiceUnavailable"),
        Unreachable("connection refused"),
        OutcomeUnknown("reset"),
    ],
    ids=lambda failure: str(failure).partition(":")[0],
)
async def test_failures_keep_the_version_and_back_off(failure):
    played = await play(
        listed(10, pod("a", 3)),
        stream(line("MODIFIED", pod("a", 12)), FOREVER),
        *[failure] * 9,
        seconds=350,
    )
    assert len(played.lists) == 1
    retries = played.watches[1:]
    assert {watch.version for watch in retries} == {"12"}
    waits = [after.at - before.at for before, after in itertools.pairwise(retries)]
    bases = (0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30)
    assert len(waits) >= 7
    for base, wait in zip(bases, waits, strict=False):
        assert base <= wait <= base * 1.5 + 1e-6
    assert len({round(wait / base, 3) for base, wait in zip(bases, waits, strict=False)}) > 3, (
        "no jitter"
    )
    assert played.reports[0] == f"Pod watch: {failure}; trying again"
    assert played.reports[1:] in ([], ["Pod watch: works again"])


async def test_a_server_that_is_slow_to_refuse_does_not_count_as_working():
    refused = Stream(opens_after=30.0, refusal=OutcomeUnknown("no answer within 30 s"))
    played = await play(listed(10), *[refused] * 4, seconds=150)
    assert played.reports == ["Pod watch: no answer within 30 s; trying again"]
    waits = [b.at - a.at - 30 for a, b in itertools.pairwise(played.watches)]
    assert waits[2] > waits[1] > waits[0]


async def test_backs_off_anew_after_a_stream_that_worked():
    refused = Unreachable("connection refused")
    played = await play(
        listed(10), refused, refused, refused, refused, stream(30.0), refused, stream(FOREVER),
        seconds=100,
    )  # fmt: skip
    assert played.watches[-1].at - played.watches[-2].at <= 1.2


async def test_a_broken_stream_goes_on_where_it_was():
    played = await play(
        listed(10),
        stream(line("ADDED", pod("a", 11)), 20.0, OutcomeUnknown("reset")),
        stream(line("MODIFIED", pod("a", 12)), FOREVER),
        seconds=30,
    )
    assert played.told == ["+a@11", "+a@12"]
    assert played.watches[-1].version == "11"
    assert played.reports == ["Pod watch: reset; trying again", "Pod watch: works again"]


@pytest.mark.parametrize(("status", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
async def test_being_locked_out_is_reported_once_and_tried_again(status, reason):
    body = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": "no"})
    locked_out = [Response(status, body.encode())] * 6
    played = await play(*locked_out, listed(10, pod("a", 3)), stream(bookmark(10), FOREVER))
    assert played.reports == [
        f"Pod watch: {status} {reason}: no; trying again",
        "Pod watch: works again",
    ]
    assert played.told == ["+a@3"]
    assert played.synced == [1]
    assert played.statistics.trouble == ""


async def test_a_change_of_trouble_is_reported():
    played = await play(
        Unreachable("refused"), _refusal(503, "ServiceUnavailable"), Unreachable("refused"),
        Unreachable("refused, too"), seconds=8,
    )  # fmt: skip
    assert len(played.reports) == 3
    assert played.statistics.trouble == "refused, too"


async def test_a_silent_stream_is_left_within_75_seconds():
    played = await play(
        listed(10),
        stream(20.0, bookmark(20), 60.0, bookmark(30), FOREVER),
        stream(FOREVER),
        seconds=180,
    )
    assert [watch.version for watch in played.watches] == ["10", "30"]
    assert 74.0 <= played.watches[1].at - 80.0 <= 75.0
    assert played.statistics.last_line_at == 80.0
    assert played.reports == []


async def test_many_silent_streams_lead_to_another_list():
    played = await play(
        listed(10, pod("a", 3)),
        *[stream(FOREVER)] * SILENT_STREAMS,
        listed(10, pod("a", 3)),
        seconds=75 * SILENT_STREAMS + 10,
    )
    assert len(played.lists) == 2
    assert played.told == ["+a@3"]


async def test_streams_that_say_something_do_not_lead_to_another_list():
    silent, heard = stream(FOREVER), stream(bookmark(10), 6.0)
    rounds = [*[silent] * (SILENT_STREAMS - 1), heard]
    played = await play(listed(10), *rounds * 3, seconds=75 * SILENT_STREAMS * 3)
    assert len(played.watches) >= len(rounds) * 2
    assert len(played.lists) == 1


async def test_an_object_that_cannot_be_read_is_reported_and_skipped():
    broken = pod("bad", 11, containers=[{"resources": {"requests": {"cpu": "1x"}}}])
    played = await play(
        listed(10, pod("a", 3), broken, pod("b", 4)),
        stream(
            line("MODIFIED", broken),
            b'{"type": "ADDED", "object": {"metadata"',
            line("ADDED", {"metadata": 7}),
            line("ADDED", pod("c", 12)),
            FOREVER,
        ),
        seconds=1,
    )
    assert played.told == ["+a@3", "+b@4", "+c@12"]
    assert len(played.watches) == 1
    assert played.statistics.malformed == 4
    assert len(played.reports) == 3, "the same object is reported once"
    assert played.reports[0].startswith(
        "Pod skipped: Pod shop/bad: spec.containers[0].resources.requests.cpu: '1x'"
    )


async def test_an_object_that_became_unreadable_is_not_told_as_deleted():
    broken = pod("a", 50, priority="high")
    renamed = pod("b", 51, "other", priority="high")
    played = await play(
        listed(10, pod("a", 3), pod("b", 4)),
        stream(line("ERROR", EXPIRED)),
        listed(60, broken, renamed),
        seconds=1,
    )
    assert played.told == ["+a@3", "+b@4", "-b:uid-b"]


async def test_nothing_is_deleted_for_a_list_with_a_nameless_object():
    played = await play(
        listed(10, pod("a", 3)),
        stream(line("ERROR", EXPIRED)),
        listed(60, {"spec": {}}),
        seconds=1,
    )
    assert played.told == ["+a@3"]


async def test_an_answer_that_is_no_list_is_tried_again():
    page = Response(200, b"<html><body>Please log in</body></html>")
    played = await play(page, page, listed(10, pod("a", 3)), seconds=10)
    assert played.told == ["+a@3"]
    assert played.reports[0].startswith("Pod watch: PodList: not JSON")


async def test_replays_and_duplicates_change_nothing():
    played = await play(
        listed(10, pod("a", 9)),
        stream(
            line("ADDED", pod("a", 9)),
            line("MODIFIED", pod("a", 12)),
            line("MODIFIED", pod("a", 11)),
            line("MODIFIED", pod("a", 12)),
            line("DELETED", pod("a", 13)),
            line("DELETED", pod("a", 13)),
            line("ADDED", pod("a", 9)),
            line("MODIFIED", pod("a", 12)),
            line("DELETED", pod("stranger", 14)),
            FOREVER,
        ),
        seconds=1,
    )
    assert played.told == ["+a@9", "+a@12", "-a:uid-a"]
    assert played.statistics.objects == 0


async def test_versions_that_are_no_numbers_are_not_ordered():
    played = await play(
        listed("x", pod("a", "m")),
        stream(line("MODIFIED", pod("a", "b")), line("MODIFIED", pod("a", "b")), FOREVER),
        seconds=1,
    )
    assert played.told == ["+a@m", "+a@b"]


async def test_numbers_are_compared_as_numbers():
    played = await play(
        listed(9, pod("a", 9)), stream(line("MODIFIED", pod("a", 10)), FOREVER), seconds=1
    )
    assert played.told == ["+a@9", "+a@10"]


async def test_a_name_with_another_uid_is_another_pod():
    played = await play(
        listed(10, pod("a", 3, "one")),
        stream(
            line("MODIFIED", pod("a", 15, "two")),
            line("MODIFIED", pod("a", 14, "one")),
            line("DELETED", pod("a", 16, "one")),
            FOREVER,
        ),
        seconds=1,
    )
    assert played.told == ["+a@3", "-a:one", "+a@15"]


async def test_a_later_pod_of_that_name_was_deleted_unseen():
    played = await play(
        listed(10, pod("a", 3, "one")),
        stream(line("DELETED", pod("a", 20, "two")), FOREVER),
        seconds=1,
    )
    assert played.told == ["+a@3", "-a:one"]


async def test_a_version_never_goes_back():
    played = await play(
        listed(100),
        stream(bookmark(120), bookmark(0), bookmark(90), 6.0),
        stream(FOREVER),
        seconds=10,
    )
    assert played.watches[-1].version == "120"


async def test_a_list_from_the_past_is_not_believed():
    stale = listed(50, pod("a", 3))
    played = await play(
        listed(100, pod("a", 3), pod("b", 60)),
        stream(line("ERROR", EXPIRED)),
        stale,
        listed(110, pod("a", 3), pod("b", 60)),
        seconds=10,
    )
    assert played.told == ["+a@3", "+b@60"]
    assert len(played.lists) == 3
    assert played.reports[0] == ("Pod watch: a list at version 50 after 100 was seen; trying again")


async def test_a_cluster_restored_from_a_backup_is_believed_in_the_end():
    stale = listed(50, pod("a", 3), pod("c", 40))
    played = await play(
        listed(100, pod("a", 70), pod("b", 60)),
        stream(line("ERROR", EXPIRED)),
        *[stale] * STALE_LISTS,
        stream(line("MODIFIED", pod("a", 51)), FOREVER),
        seconds=60,
    )
    restored = ["rewound", "+a@3", "+c@40", "-b:uid-b"]
    assert played.told == ["+a@70", "+b@60", *restored, "+a@51"]
    assert played.watches[-1].version == "50"


async def test_a_restored_cluster_that_wrote_more_since_than_was_undone_is_believed_at_once():
    played = await play(
        listed(100, pod("a", 70), pod("b", 60)),
        stream(line("ERROR", EXPIRED)),
        listed(200, pod("a", 3), pod("b", 150)),
        stream(FOREVER),
        seconds=10,
    )
    assert played.told == ["+a@70", "+b@60", "rewound", "+a@3", "+b@150"]


async def test_a_list_that_broke_off_still_says_which_lists_are_from_the_past():
    played = await play(
        listed(100, pod("a", 70)),
        stream(line("ERROR", EXPIRED)),
        listed(200, pod("a", 180), more="token"),
        Unreachable("refused"),
        listed(150, pod("a", 140)),
        listed(200, pod("a", 180)),
        seconds=30,
    )
    assert played.told == ["+a@70", "+a@180"]


async def test_a_version_from_the_future_leads_to_another_list():
    too_large = _refusal(504, "Timeout", (("ResourceVersionTooLarge", "Too large"),))
    played = await play(listed(10), too_large, listed(12), seconds=5)
    assert [watch.version for watch in played.watches] == ["10", "12"]


async def test_nodes_come_and_go():
    played = await play(
        listed(10, node("n2", 3, "one"), node("n3", 4, "two")),
        stream(
            line("DELETED", node("n3", 11, "two")),
            line("ADDED", node("n2", 12, "three")),
            FOREVER,
        ),
        watched=NODES,
        seconds=1,
    )
    assert played.told == ["+n2", "+n3", "-n3", "-n2", "+n2"]


async def test_what_the_consumer_raises_is_not_hidden():
    clock = VirtualClock()

    def consume(_event):
        raise LookupError("a bug")

    reflector = Reflector(
        ScriptedCluster(clock, [listed(10, pod("a", 3))]),
        PODS, clock, random.Random(1), consume, list, list,
    )  # fmt: skip
    with pytest.raises(LookupError):
        await reflector.run()

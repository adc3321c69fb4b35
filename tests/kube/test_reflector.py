"""A reflector against a scripted API server, in virtual time."""

import itertools
import json
import random

import pytest

from kubedsm.kube.client.port import OutcomeUnknown, Response, Unreachable
from kubedsm.kube.watching.reflector import SILENT_STREAMS, Reflector, ReflectorStatistics
from kubedsm.kube.wire.decoding import PODS
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.scripted_cluster import (
    EXPIRED,
    FOREVER,
    ScriptedCluster,
    Stream,
    bookmark,
    line,
    listed,
    play,
    pod,
    refusal,
    stream,
)


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
        trouble="",
    )


async def test_watch_timeouts_are_spread():
    spans = {
        (await play(listed(1), seconds=1, seed=seed)).watches[0].query["timeoutSeconds"]
        for seed in range(8)
    }
    assert len(spans) > 4


async def test_an_expired_continue_token_starts_the_list_over_at_once():
    gone = Response(410, json.dumps(EXPIRED).encode())
    played = await play(
        listed(10, pod("a", 3), more="token"), gone, listed(20, pod("b", 15)), seconds=0.1
    )
    assert [asked.query.get("continue") for asked in played.lists] == [None, "token", None]
    assert played.told == ["+a@3", "+b@15", "-a:uid-a"]
    assert played.reports == []


async def test_a_stream_that_ends_goes_on_from_the_last_event_or_bookmark_at_once():
    played = await play(
        listed(10),
        stream(line("ADDED", pod("a", 11)), 6.0),
        stream(bookmark(40), 6.0),
        stream(FOREVER),
        seconds=60,
    )
    assert [watch.version for watch in played.watches] == ["10", "11", "40"]
    # A stream that ends in time is followed by another one at once.
    assert [round(watch.at, 3) for watch in played.watches] == [0.0, 6.0, 12.0]
    assert played.statistics.reconnects == 2
    assert len(played.lists) == 1


async def test_streams_that_end_as_they_begin_are_not_reopened_in_a_hot_loop():
    played = await play(listed(10), *[stream(bookmark(10))] * 50, seconds=60)
    assert 4 <= len(played.watches) <= 9


@pytest.mark.parametrize("how", ["event", "status"])
async def test_expired_versions_lead_to_a_list_that_tells_what_is_gone(how):
    expired = line("ERROR", EXPIRED)
    played = await play(
        listed(10, pod("a", 3), pod("b", 4), pod("c", 5)),
        stream(expired) if how == "event" else refusal(410, "Expired"),
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


@pytest.mark.parametrize(
    "failure",
    [
        refusal(429, "TooManyRequests"),
        refusal(500, "InternalError"),
        refusal(503, "ServiceUnavailable"),
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


async def test_what_may_be_listed_and_not_watched_is_listed_again_and_again_until_it_may():
    forbidden = Stream((), refusal=refusal(403, "Forbidden"))
    played = await play(
        listed(10, pod("a", 3)), forbidden,
        listed(12, pod("a", 3), pod("b", 11)), forbidden,
        listed(14, pod("b", 11)), stream(line("ADDED", pod("c", 15)), FOREVER),
    )  # fmt: skip
    assert played.told == ["+a@3", "+b@11", "-a:uid-a", "+c@15"]
    assert played.reports == [
        "Pod watch: 403 Forbidden: no; trying again",
        "Pod watch: works again",
    ]


async def test_a_silent_stream_is_left_within_75_seconds():
    played = await play(
        listed(10),
        stream(20.0, bookmark(20), 60.0, bookmark(30), FOREVER),
        stream(FOREVER),
        seconds=180,
    )
    assert [watch.version for watch in played.watches] == ["10", "30"]
    assert 74.0 <= played.watches[1].at - 80.0 <= 75.0
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
            line("ADDED", pod("c", 12)),
            FOREVER,
        ),
        seconds=1,
    )
    assert played.told == ["+a@3", "+b@4", "+c@12"]
    assert len(played.watches) == 1
    assert played.statistics.malformed == 2
    assert len(played.reports) == 1, "the same object is reported once"
    assert played.reports[0].startswith(
        "Pod skipped: Pod shop/bad: spec.containers[0].resources.requests.cpu: '1x'"
    )


BROKEN = {"code": 500, "reason": "InternalError", "message": "revision unreadable"}


@pytest.mark.parametrize(
    "broken",
    [
        b'{"type": "ADDED", "object": {"metadata"',
        line("ADDED", {"metadata": 7}),
        # client-go lists again, too
        line("ERROR", BROKEN),
    ],
)
async def test_a_line_that_names_no_object_may_be_any_change_and_leads_to_another_list(broken):
    played = await play(
        listed(10, pod("a", 3)),
        stream(broken, line("ADDED", pod("c", 12)), FOREVER),
        listed(13, pod("a", 3), pod("b", 11), pod("c", 12)),
        stream(FOREVER),
        seconds=3,
    )
    assert played.told == ["+a@3", "+b@11", "+c@12"]
    assert len(played.lists) == 2
    assert played.reports[0].startswith(("Pod watch: Pod: ", "Pod watch: 500 InternalError: "))


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


async def test_a_refused_page_is_read_again_when_the_server_asks_for_it():
    """As client-go does; not the whole list again, and not beyond the list's time-out."""
    first, busy = listed(10, pod("a", 3), more="token"), Response(429, b"try again later", 5.0)
    played = await play(first, busy, busy, listed(10, pod("b", 4)), seconds=11)
    assert [(each.at, each.query.get("continue")) for each in played.lists] == [
        (0.0, None), (0.0, "token"), (5.0, "token"), (10.0, "token"),
    ]  # fmt: skip
    assert (played.told, played.reports) == (["+a@3", "+b@4"], [])
    played = await play(first, Response(503, b"maintenance", 3600.0), seconds=1)
    assert "503" in played.reports[0]


@pytest.mark.parametrize(("seconds", "least"), [(0.5, 0.8), (20.0, 20.0), (3600.0, 30.0)])
async def test_a_refused_watch_is_opened_again_when_the_server_asks_for_it(seconds, least):
    busy = refusal(429, "TooManyRequests")
    busy.retry_after = seconds
    refused, opened = (await play(listed(10), busy, seconds=60)).watches
    assert least <= opened.at - refused.at <= 1.5 * least


async def test_an_answer_that_is_no_list_is_tried_again():
    page = Response(200, b"<html><body>Please log in</body></html>")
    played = await play(page, page, listed(10, pod("a", 3)), seconds=10)
    assert played.told == ["+a@3"]
    assert played.reports[0].startswith("Pod watch: answered 200 with no JSON object")


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

"""What a reflector believes: replays, later pods of the same name, lists from the past."""

import asyncio
import random

import pytest

from kubedsm.kube.client.port import Unreachable
from kubedsm.kube.watching.reflector import STALE_LISTS, Reflector
from kubedsm.kube.wire.decoding import PODS, SURROUNDINGS
from kubedsm.model.surroundings import Claim
from kubedsm_lab.replay.virtual_time import VirtualClock
from support.scripted_cluster import (
    EXPIRED,
    FOREVER,
    ScriptedCluster,
    bookmark,
    line,
    listed,
    play,
    pod,
    refusal,
    stream,
)


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
    too_large = refusal(504, "Timeout", (("ResourceVersionTooLarge", "Too large"),))
    played = await play(listed(10), too_large, listed(12), seconds=5)
    assert [watch.version for watch in played.watches] == ["10", "12"]


async def test_a_watch_begins_where_the_first_page_was_taken():
    later = pod("a", 15)
    played = await play(
        listed(10, pod("a", 9), more="token"),
        listed(20, pod("b", 8)),
        stream(line("MODIFIED", later), FOREVER),
        seconds=1,
    )
    assert [watch.version for watch in played.watches] == ["10"]
    assert played.told == ["+a@9", "+b@8", "+a@15"]


async def test_a_list_that_breaks_off_deletes_nothing():
    played = await play(
        listed(10, pod("a", 8), pod("b", 9)),
        stream(line("ERROR", EXPIRED)),
        listed(20, pod("a", 8), more="token"),
        Unreachable("refused"),
        listed(20, pod("a", 8), pod("b", 9)),
        seconds=20,
    )
    assert played.told == ["+a@8", "+b@9"]


async def test_the_late_end_of_a_predecessor_leaves_its_successor_alone():
    played = await play(
        listed(10, pod("a", 9, uid="later")),
        stream(line("DELETED", pod("a", 5, uid="earlier")), FOREVER),
        seconds=1,
    )
    assert played.told == ["+a@9"]


async def test_what_was_deleted_is_there_again_in_a_restored_cluster_of_higher_versions():
    """As `etcdutl snapshot restore --bump-revision` leaves it."""
    played = await play(
        listed(10, pod("a", 9)),
        stream(line("DELETED", pod("a", 11)), line("ERROR", EXPIRED)),
        listed(1000, pod("a", 9)),
        seconds=10,
    )
    assert played.told == ["+a@9", "-a:uid-a", "rewound", "+a@9"]


async def test_a_rewound_history_is_told_of_claims_too():
    """The mirror compares their versions, and pods may be listed later."""
    played = await play(
        listed(100, pod("c", 70)),
        stream(line("ERROR", EXPIRED)),
        listed(200, pod("c", 3)),
        watched=SURROUNDINGS[Claim],
        seconds=10,
    )
    assert played.told == ["+c@70", "rewound", "+c@3"]


async def test_who_asks_for_a_list_waits_for_one_that_is_begun_afterwards():
    class Slow(ScriptedCluster):
        async def request(self, request, *, timeout):
            answer = await super().request(request, timeout=timeout)
            await asyncio.sleep(1.0)
            return answer

    clock = VirtualClock()
    cluster = Slow(clock, [listed(10), listed(11)])
    reflector = Reflector(cluster, PODS, clock, random.Random(1), nothing, lambda: None, nothing)
    running = asyncio.create_task(reflector.run())
    await asyncio.sleep(0.5)
    await reflector.list_anew()
    assert clock.monotonic() == pytest.approx(2.0)
    running.cancel()
    await asyncio.wait([running])


def nothing(_):
    pass

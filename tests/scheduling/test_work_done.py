"""The line of a batch counts what was bound, and the end what was done in all."""

import asyncio

from structlog.testing import capture_logs

from support.faults import OUTCOMES
from support.move_scenes import AtRequest
from support.worlds import CLOUD, EDGE, emulated

PLAIN = {"pods", "unplaced", "late", "proven", "milliseconds", "event", "log_level", "bound"}


def is_bind(request):
    return request.path.endswith("/binding")


def lines(logs):
    return [log for log in logs if log["event"] == "batch"]


async def test_the_line_of_a_batch_counts_what_was_seen_bound_and_names_it_for_those_who_ask():
    refused = AtRequest(is_bind, lambda: None, n=2, fault=OUTCOMES["403"])
    with capture_logs() as logs:
        async with emulated(EDGE, CLOUD) as world, world.scheduler(refused):
            world.deploy("web", 3)
            await world.until_bound(3, 10)
            await asyncio.sleep(1)
            assert world.runtime.summary()["bound"] == 3
    first, second = lines(logs)
    assert (first["pods"], first["bound"], first["failed"]) == (3, 2, 1)
    assert (second["pods"], second["bound"]) == (1, 1)
    assert second.keys() == PLAIN
    named = [log for log in logs if log["event"] == "batch pods"]
    assert [log["log_level"] for log in named] == ["debug", "debug"]
    assert len(named[0]["bound"]) == 2
    assert named[1]["bound"][0] == named[0]["failed"][0]
    assert named[1]["bound"][0].endswith(" on e1")

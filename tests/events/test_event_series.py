"""Which Events are the same again, combined, or too many."""

import asyncio

import pytest

from kubedsm.events.event_writer import BURST, COMBINED, REFILL, SIMILAR, WITHIN, EventSeries
from kubedsm.process.backoff import TokenBucket
from kubedsm_lab.emulator.api.resources import DEPLOYMENTS
from kubedsm_lab.emulator.paper import node
from support.faults import OUTCOMES
from support.move_scenes import AtRequest, name, on_cloud, open_edge, quiet


@pytest.fixture
def series():
    return EventSeries()


def test_the_same_is_counted_and_what_differs_is_another(series):
    first = series.count_occurrence("pod", "FailedScheduling", "no room", 1, 0.0)
    first.name = "event"
    again = series.count_occurrence("pod", "FailedScheduling", "no room", 3, 10.0)
    assert (again.name, again.count, again.prefix) == ("event", 4, "")
    for other in (("pod", "FailedScheduling", "no port"), ("pod", "Bound", "no room"),
                  ("other", "FailedScheduling", "no room")):  # fmt: skip
        assert series.count_occurrence(*other, 1, 10.0).name == ""


def test_after_a_while_it_is_a_new_one(series):
    series.count_occurrence("pod", "Failed", "no room", 1, 0.0).name = "event"
    assert series.count_occurrence("pod", "Failed", "no room", 1, WITHIN).name == "event"
    assert series.count_occurrence("pod", "Failed", "no room", 1, 2 * WITHIN + 1).name == ""


def test_ever_new_words_are_combined(series):
    taken = [
        series.count_occurrence("pod", "Failed", f"words {n}", 1, float(n))
        for n in range(SIMILAR + 5)
    ]
    assert [each.prefix for each in taken] == [""] * SIMILAR + [COMBINED] * 5
    assert taken[-1].count == 5
    assert series.count_occurrence("pod", "Failed", "words 0", 1, 20.0) is taken[0]
    assert series.count_occurrence("pod", "Other", "words", 1, 20.0).prefix == ""


def test_of_one_object_and_reason_so_many_are_told_and_no_more(series):
    taken = [series.count_occurrence("pod", "reason", f"{n}", 1, 0.0) for n in range(BURST + 9)]
    assert sum(each is not None for each in taken) == BURST
    assert series.count_occurrence("other", "reason", "", 1, 0.0) is not None
    assert series.count_occurrence("pod", "other reason", "", 1, 0.0) is not None
    assert series.count_occurrence("pod", "reason", "", 1, REFILL - 1) is None
    assert series.count_occurrence("pod", "reason", "", 1, REFILL) is not None
    assert series.count_occurrence("pod", "reason", "", 1, REFILL) is None


def test_nothing_is_kept_of_what_is_gone(series):
    series.count_occurrence("pod", "reason", "", 1, 0.0)
    series.forget_object("pod")
    assert not len(series)


def test_a_bucket_has_a_burst_and_then_a_rate():
    bucket = TokenBucket(3, 0.5)
    waits = [bucket.take(10.0) for _ in range(6)]
    assert waits == [0, 0, 0, 0.5, 1.0, 1.5]
    assert bucket.take(11.5) == 0.5
    assert not bucket.take_now(12.0)
    assert bucket.take_now(12.5)
    assert [bucket.take(100.0) for _ in range(4)] == [0, 0, 0, 0.5]


async def test_moves_that_end_together_are_one_event_on_their_deployment():
    async with on_cloud(3) as world:
        moved = [name(pod) for pod in world.pods("web")]
        open_edge(world, node("e1", "edge", "3", "8Gi"))
        await world.until(lambda: world.placed("web") == {"e1": 3}, 60)
        await quiet(world)
        await asyncio.sleep(6)
        [event] = world.events("Migrated", about="Deployment")
        about = event["involvedObject"]
        uid = world.api.get(DEPLOYMENTS, "default", "web")["metadata"]["uid"]
        assert (about["name"], about["uid"], about["apiVersion"]) == ("web", uid, "apps/v1")
        assert (event["type"], event["action"]) == ("Normal", "Migrating")
        assert event["message"].startswith("Migrated 3 pods: ")
        for pod in moved:
            assert f"{pod} from c1 to e1 (cloud-to-edge)" in event["message"]


async def test_a_move_that_is_taken_back_is_a_warning_with_its_reason():
    faults = AtRequest(
        lambda request: request.path.endswith("/eviction"), lambda: None, fault=OUTCOMES["403"]
    )
    async with on_cloud(faults=faults) as world:
        open_edge(world)
        failed = "MigrationFailed"
        await world.until(lambda: world.events(failed, about="Deployment"), 60)
        [event] = world.events(failed, about="Deployment")
        assert event["type"] == "Warning"
        assert event["message"].startswith("Did not migrate 1 pod: web-")
        assert ": rolled back, evicting: 403 Forbidden" in event["message"]

"""FIND and HOLD against a service that is too small for some time, in virtual time."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from loadgen.arrivals import Arrival
from loadgen.hpa import Plan, Played, hpa_report, line_of, play, window_of
from loadgen.measures import Outcome
from loadgen.recovery import FIND, Recovery, Sla, Window, clients_to_hold, ok_rate, recovery
from loadgen.transport import Answer
from support.printed import printed

pytestmark = pytest.mark.looptime(idle_timeout=None)
URL = "http://a/"


class Service:
    """Works .04 s on a request, on so many at once as `slots` says from a moment on."""

    def __init__(self, *slots):
        self.slots, self.busy = slots, 0
        self.connections, self.freed = [], asyncio.Condition()
        self.began = asyncio.get_running_loop().time()

    @property
    def now(self):
        return asyncio.get_running_loop().time() - self.began

    @asynccontextmanager
    async def connect(self):
        self.connections.append(round(self.now, 3))
        yield self

    async def contact(self, url):
        raise AssertionError("nobody is contacted")

    async def get(self, url):
        async with self.freed:
            while self.busy >= max(n for since, n in self.slots if since <= self.now):
                await self.freed.wait()
            self.busy += 1
        try:
            await asyncio.sleep(0.04)
        finally:
            self.busy -= 1
            async with self.freed:
                self.freed.notify_all()
        return Answer(200)


async def played(service, stop_after=None, **plan):
    stop, told = asyncio.Event(), []
    if stop_after is not None:
        asyncio.get_running_loop().call_later(stop_after, stop.set)
    found = await play(
        Plan(URL, find_seconds=10.0, hold_seconds=60.0, window_seconds=10.0, **plan),
        service.connect,
        stop,
        lambda *window: told.append(window),
    )
    assert told == [*found.stages, *((found.clients, window) for window in found.windows)]
    return found


async def test_find_stops_at_the_first_bad_window_and_hold_goes_on_with_so_many():
    """A slot is good for 25 clients within 1 s; 3 slots, from 82 s on, are for 75."""
    service = Service((0.0, 1), (82.0, 3))
    found = await played(service)
    assert [clients for clients, _ in found.stages] == [10, 20, 30]
    assert [window.good(Sla()) for _, window in found.stages] == [True, True, False]
    assert found.clients == 30
    assert [window.good(Sla()) for window in found.windows] == [*[False] * 5, True]
    first, last = found.windows[0], found.windows[-1]
    assert found.recovery == Recovery("recovered", last.end - first.start)
    assert found.ok_rate == pytest.approx(1 / 6)
    # Each window has connections of its own.
    assert len(service.connections) == 10 + 20 + 30 + 6 * 30
    assert len(set(service.connections)) == 9


async def test_a_number_of_clients_is_held_without_find():
    found = await played(Service((0.0, 3)), find=(5,))
    assert (found.stages, found.clients, len(found.windows)) == ((), 5, 6)
    assert found.recovery == Recovery("no_degradation", 0.0)


@pytest.mark.parametrize(("stop_after", "stages", "windows"), [(25.0, 2, 0), (55.0, 3, 2)])
async def test_what_was_measured_until_it_is_stopped_is_kept(stop_after, stages, windows):
    found = await played(Service((0.0, 1)), stop_after)
    assert found.interrupted
    assert (len(found.stages), len(found.windows)) == (stages, windows)
    assert found.clients == (30 if windows else None)
    assert found.recovery is None
    assert "Stopped before its end" in text(found)


def outcome(latency, status=200, error=None):
    return Outcome(Arrival(1.0, URL), 1.0 + latency, None if error else status, error)


def test_an_error_is_whatever_is_not_200_and_a_timeout_is_a_latency_too():
    outcomes = [
        *(outcome(0.1) for _ in range(3)),
        outcome(0.2, 302),
        outcome(0.001, 503),
        outcome(0.001, error="disconnected"),
        outcome(15.0, error="timeout"),
    ]
    assert window_of(outcomes, 2.0, 30.0) == Window(2.0, 30.0, 7, 15.0, 4)
    assert window_of(outcomes[4:6], 2.0, 30.0) == Window(2.0, 30.0, 2, None, 2)


GOOD, BAD = Window(30.0, 30.0, 1000, 0.5, 0), Window(0.0, 30.0, 100, 2.5, 1)
DONE = Played(Plan(URL), ((10, BAD),), (BAD, GOOD))


def text(found):
    return printed(hpa_report(found), 100)


def test_the_report():
    rows = [line.split() for line in text(DONE).splitlines()]
    assert ["FIND", "10", "0", "30.0", "100", "1", "2.500", "bad"] in rows
    assert ["HOLD", "10", "30", "30.0", "1000", "0", "0.500", "good"] in rows
    assert "clients 10: 50% of the windows are good, p99 at most 2.500 s, on average 1.500 s." in (
        text(DONE)
    )
    assert "Time to recover: 60.0 s." in text(DONE)
    as_json = DONE.as_json()
    bad = {"start": 0.0, "seconds": 30.0, "requests": 100, "p99": 2.5, "errors": 1, "good": False}
    assert as_json["find"] == [{"clients": 10, **bad}]
    assert as_json["hold"].pop("windows")[0] == bad
    assert as_json["hold"] == {
        "clients": 10,
        "maxP99": 2.5,
        "meanP99": 1.5,
        "okRate": 0.5,
        "recovery": {"mode": "recovered", "seconds": 60.0},
    }
    assert line_of(10, BAD, Sla()) == "0 s: clients 10, requests 100, errors 1, p99 2.500 s: bad"


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ((GOOD,), "No window was bad: there was nothing to recover from."),
        ((BAD,), "Not recovered: it takes longer than HOLD."),
        # Nothing was answered, so that there is no latency.
        ((Window(0.0, 30.0, 9, None, 9),), "0% of the windows are good."),
    ],
)
def test_what_is_no_recovery_is_said(windows, said):
    assert said in text(Played(Plan(URL), windows=windows))


SLA = Sla()


def windows(verdicts):
    """One window of 30 s after another, a letter each: good, or bad."""
    return [
        Window(30.0 * n, 30.0, 1000, {"g": 0.5, "b": 1.5}[verdict], 0)
        for n, verdict in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "streak", "found"),
    [
        ("", 1, Recovery("no_degradation", 0.0)),
        ("gggg", 1, Recovery("no_degradation", 0.0)),
        ("bbbb", 1, Recovery("no_recovery_within_hold", -1.0)),
        ("gggb", 1, Recovery("no_recovery_within_hold", -1.0)),
        ("bg", 1, Recovery("recovered", 60.0)),
        # What is good before the first bad one is no recovery, what is bad after it changes none.
        ("ggbbg", 1, Recovery("recovered", 150.0)),
        ("bbgbbb", 1, Recovery("recovered", 90.0)),
        ("bgbgg", 2, Recovery("recovered", 150.0)),
        ("ggbg", 2, Recovery("no_recovery_within_hold", -1.0)),
    ],
)
def test_a_service_has_recovered_at_the_end_of_the_first_streak_after_a_bad_window(
    verdicts, streak, found
):
    assert recovery(windows(verdicts), SLA, streak) == found


def test_time_counts_from_hold_s_start_and_p99_is_by_nearest_rank():
    held = [Window(1000.0, 31.5, 10, 2.0, 0), Window(1031.5, 30.5, 10, 0.9, 0)]
    assert recovery(held, SLA) == Recovery("recovered", 62.0)
    latencies = [n / 100 for n in range(200, 0, -1)]
    assert Window.of(0.0, 30.0, 200, latencies, 0).p99 == 1.98
    assert Window.of(0.0, 30.0, 3, [0.1, 0.3, 0.2], 0).p99 == 0.3
    assert Window.of(0.0, 30.0, 3, [], 3).p99 is None


@pytest.mark.parametrize(
    ("p99", "requests", "errors", "good"),
    [
        (1.0, 100, 1, True),
        (1.001, 100, 0, False),
        (0.1, 100, 2, False),
        (0.1, 99, 1, False),
        (None, 0, 0, False),
        # Errors that came at once have no latency that counts.
        (None, 50, 50, False),
    ],
)
def test_a_window_is_good_within_both_bounds_if_anything_ended(p99, requests, errors, good):
    assert Window(0.0, 30.0, requests, p99, errors).good(SLA) is good


def test_the_first_stage_that_breaks_the_sla_is_held_else_the_last():
    stages = list(zip(FIND, windows("ggbgb"), strict=False))
    assert clients_to_hold(stages, SLA) == 30
    assert clients_to_hold(list(zip(FIND, windows("b"), strict=False)), SLA) == 10
    assert clients_to_hold(list(zip(FIND, windows("g" * 10), strict=True)), SLA) == 100
    assert clients_to_hold([], SLA) is None


def test_without_a_window_there_is_no_ok_rate():
    assert ok_rate([], SLA) is None

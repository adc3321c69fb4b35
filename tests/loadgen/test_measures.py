"""Percentiles, and what is reported of nothing."""

from array import array

import pytest

from loadgen import measures
from loadgen.arrivals import Arrival
from loadgen.measures import Latency, Outcome, RequestRecorder
from loadgen.sending import report
from support.printed import printed


def milliseconds(*values):
    return array("d", (value / 1000 for value in values))


def test_percentiles_are_by_nearest_rank():
    latency = Latency.of(milliseconds(*range(100, 0, -1)))
    assert (latency.mean, latency.max) == (50.5, 100)
    assert (latency.p50, latency.p95, latency.p99) == (50, 95, 99)


@pytest.mark.parametrize(("count", "p99"), [(1, 1), (99, 99), (100, 99), (101, 100), (200, 198)])
def test_ranks_round_up(count, p99):
    assert Latency.of(milliseconds(*range(1, count + 1))).p99 == p99


def test_of_no_requests_there_is_no_latency():
    results = RequestRecorder(["a"]).results(10.0, interrupted=False)
    assert results.total.latency is None
    assert results.as_json() == {
        "seconds": 10.0,
        "interrupted": False,
        "oldestUnfinishedMs": 0.0,
        "services": {"a": results.total.as_json()},
        "total": {
            "requests": 0,
            "answered": 0,
            "errors": {},
            "unfinished": 0,
            "offeredRate": 0.0,
            "achievedRate": 0.0,
            "latencyMs": None,
            "servedBy": {},
        },
        "pacingMs": None,
    }


def test_the_total_is_over_all_requests_not_over_services():
    recorder = RequestRecorder(["a", "b"])
    for service, count, latency in (("a", 3, 0.01), ("b", 1, 0.05)):
        for _ in range(count):
            arrival = Arrival(1.0, service)
            recorder.offer(arrival, 1.0)
            recorder.begin(arrival, 1.0)
            recorder.end(Outcome(arrival, 1.0 + latency, status=200))
    results = recorder.results(2.0, interrupted=False)
    assert results.total.latency == Latency(mean=20, p50=10, p95=50, p99=50, max=50)
    assert results.total.offered == 2
    assert results.services["b"].latency.mean == 50


def test_servers_that_say_who_they_are_are_told_apart(monkeypatch):
    monkeypatch.setattr(measures, "MOST_SERVERS", 2)
    recorder = RequestRecorder(["a"])
    ends = [("x", 0.1, 200), ("y", 0.3, 200), ("x", 0.3, 200), ("x", 9.0, 503), ("", 0.1, 200)]
    for name, latency, status in [*ends, ("z", 0.1, 200), ("y", 0.1, 200)]:
        recorder.end(Outcome(Arrival(1.0, "a"), 1.0 + latency, status, served_by=name))
    served = recorder.results(2.0, interrupted=False).as_json()["services"]["a"]["servedBy"]
    assert served == {"x": {"answered": 2, "mean": 200.0}, "y": {"answered": 2, "mean": 200.0}}


def lines(results):
    return [str(part) for part in report(results, "x").renderables[1:]]


def test_the_report_says_what_went_wrong_and_else_is_short():
    recorder = RequestRecorder(["a"])
    for late, error in ((0.0, None), (0.5, "timeout"), (0.0, "timeout")):
        arrival = Arrival(1.0, "a")
        recorder.offer(arrival, 1.0 + late)
        recorder.end(Outcome(arrival, 2.0, None if error else 200, error))
    recorder.abandon(Arrival(1.0, "a"), 3.5)
    wrong, stopped, unanswered, pacing, advice = lines(recorder.results(4.0, interrupted=True))
    assert wrong == "a: 2 timeout"
    assert stopped == "Stopped after 4.0 s."
    assert unanswered.startswith("1 requests had no answer when the run was stopped, the oldest")
    assert "for 2.5 s" in unanswered
    assert pacing.endswith("within 500.0 ms of when they were due, all within 500.0 ms.")
    assert advice == "So the generator itself was late; latencies include its delay."
    recorder = RequestRecorder(["a"])
    arrival = Arrival(1.0, "a")
    recorder.offer(arrival, 1.0)
    recorder.end(Outcome(arrival, 1.05, 200))
    (pacing,) = lines(recorder.results(1.0, interrupted=False))
    assert pacing.startswith("Pacing: ")


def test_the_table_has_a_line_for_each_service_and_one_for_all():
    recorder = RequestRecorder(["a", "b"])
    arrival = Arrival(1.0, "a")
    recorder.offer(arrival, 1.0)
    recorder.begin(arrival, 1.0)
    recorder.end(Outcome(arrival, 1.0625, 200))
    said = printed(report(recorder.results(2.0, interrupted=False), "x.json"), 80)
    rows = [line.split() for line in said.splitlines()]
    assert rows[0][0] == "x.json"
    headings = "service requests errors offered achieved mean p50 p95 p99 max"
    assert [row for row in rows if len(row) == len(headings.split())] == [
        headings.split(),
        ["a", "1", "0", "0.50", "0.50", *["62.5"] * 5],
        ["b", "0", "0", "0.00", "0.00", *["-"] * 5],
        ["all", "1", "0", "0.50", "0.50", *["62.5"] * 5],
    ]

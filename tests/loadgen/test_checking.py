"""What `loadgen check` holds against what was measured."""

import pytest

from loadgen.arrivals import Arrival
from loadgen.checking import Check, findings
from loadgen.measures import Outcome, RequestRecorder

CHECK = Check(rate=10, duration=100, delay=0.05, stall=20)


def results(latency, *, late=0.0, status=200):
    """A run of 1,000 requests: how long one took that was due at that time."""
    recorder = RequestRecorder(["a"])
    for number in range(1, 1001):
        arrival = Arrival(number / 10, "a")
        recorder.offer(arrival, arrival.due)
        recorder.begin(arrival, arrival.due + late)
        recorder.end(Outcome(arrival, arrival.due + latency(arrival.due), status))
    return recorder.results(100.0, interrupted=False)


def steady(_):
    return 0.05


def stalled(due):
    """From 30 s to 50 s nothing is answered."""
    return 0.05 + (50 - due if 30 <= due < 50 else 0)


def kept_waiting(due):
    """As seen by a client that waits for each answer before it sends the next request."""
    return 20.05 if due == 30 else 0.05


GOOD = results(steady), results(stalled)


@pytest.mark.parametrize(
    ("runs", "wrong"),
    [
        (GOOD, []),
        ((results(steady, late=1.1), GOOD[1]), ["requests a second"]),
        ((results(steady, late=0.9), GOOD[1]), []),
        ((results(lambda _: 0.061), GOOD[1]), ["median latency"]),
        ((results(lambda _: 0.049), GOOD[1]), ["median latency"]),
        ((GOOD[0], results(kept_waiting)), ["p99 latency with a stall of 20 s"]),
        (
            (results(steady, status=500), GOOD[1]),
            ["median latency", "errors"],
        ),
    ],
)
def test_findings(runs, wrong):
    assert [finding.what for finding in findings(CHECK, *runs) if not finding.holds] == wrong

"""What loadgen measured, read from its report."""

import json

import pytest

from kubedsm.config.documents import DocumentError
from kubedsm.model.model import Tier
from kubedsm_lab.replay.following import read_load_report
from kubedsm_lab.replay.measures import ResponseTimes
from loadgen.arrivals import Arrival
from loadgen.measures import Outcome, RequestRecorder

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

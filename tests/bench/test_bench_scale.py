import math

import pytest

from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm_lab.bench.report import DisagreementError
from kubedsm_lab.bench.scale.pairs import compare, run
from kubedsm_lab.bench.scale.running import LAG, lag_between
from kubedsm_lab.bench.scale.world import Batch, Size, build_mirror, without_aggregates
from support.printed import printed


@pytest.mark.long
def test_a_size_is_read_decided_and_suggested_by_both_sides():
    shown = run(Size(8, 40), rounds=1, suggestions=1, seconds=0).figures
    assert (shown["nodes"], shown["pods"], shown["running"]) == (8, 40, None)
    assert len({each["what"] for each in shown["paired"]}) == 7
    assert all(each["ms"] > 0 and each["ratio"] > 0 for each in shown["paired"])
    report = run(Size(8, 501), rounds=1, suggestions=0, seconds=0)
    assert report.figures["paired"][1]["besideSampled"] == [500, 501]
    assert "extrapolated from 500 of 501 pods" in printed(report.rendered, 200)


def test_the_cluster_is_of_the_size_and_the_batch_of_the_classes_asked_for():
    known = build_mirror(Size(8, 40))
    known.check_invariants()
    seen = known.snapshot()
    assert (len(seen.nodes), len(seen.pods)) == (8, 40)
    waiting = Batch(200, 3).pending_pods()
    assert len({pod.pod_class for pod in waiting}) == 3
    assert rank_pods(waiting, 0.0, 60.0) is None


def test_nothing_that_was_kept_along_is_left_in_what_is_rebuilt():
    seen = build_mirror(Size(8, 40)).snapshot()
    anew = without_aggregates(seen)
    assert anew == seen
    assert (anew.census, anew.census.shares) == (seen.census, seen.census.shares)
    for kept in ("census", "index", "room"):
        assert getattr(anew, kept) is not getattr(seen, kept)


def test_sides_that_come_to_different_things_are_not_compared():
    answers = iter(range(10))
    with pytest.raises(DisagreementError, match="odd"):
        compare("odd", 1, lambda: next(answers), lambda: next(answers))


def scrape(*counts):
    """How many looks were late by at most 1 ms, 50 ms, and at all."""
    of = zip(("0.001", "0.05", "+Inf"), counts, strict=True)
    lines = [f'{LAG}_bucket{{le="{bound}"}} {count}' for bound, count in of]
    return "\n".join([f"# TYPE {LAG} histogram", *lines, ""])


def test_lag_is_that_of_the_samples_between_two_scrapes():
    lag = lag_between(scrape(0, 500, 1000), scrape(600, 1499, 2000))
    assert lag == {"looks": 1000, "p50": 0.001, "p99": 0.05, "p99.9": 0.05, "max": math.inf}
    lag = lag_between(scrape(0, 0, 7), scrape(3, 4, 11))
    assert lag == {"looks": 4, "p50": 0.001, "p99": 0.05, "p99.9": 0.05, "max": 0.05}

import math

import pytest

from kubedsm.bench.instances import DisagreementError
from kubedsm.bench.scale.lag import LAG, Lag, lag_in
from kubedsm.bench.scale.paired import paired
from kubedsm.bench.scale.run import run
from kubedsm.bench.scale.world import Batch, Size, mirror, rebuilt


def test_a_size_is_read_decided_and_suggested_by_both_sides():
    shown = run(Size(8, 40), rounds=1, suggestions=1, seconds=0).as_json()
    assert (shown["nodes"], shown["pods"], shown["running"]) == (8, 40, None)
    assert [each["what"] for each in shown["paired"]] == [
        "parse 200 watch lines",
        "list all pods",
        "decide 1 pod",
        "decide 200 pods of 8 classes",
        "decide 500 pods of 1 class",
        "decide 500 pods of 8 classes",
        "suggest",
    ]
    assert all(each["ms"] > 0 and each["ratio"] > 0 for each in shown["paired"])


def test_the_cluster_is_of_the_size_and_the_batch_of_the_classes_asked_for():
    known = mirror(Size(8, 40))
    known.check_invariants()
    seen = known.snapshot()
    assert (len(seen.nodes), len(seen.pods)) == (8, 40)
    assert len({pod.pod_class for pod in Batch(20, 3).waiting()}) == 3


def test_nothing_that_was_kept_along_is_left_in_what_is_rebuilt():
    seen = mirror(Size(8, 40)).snapshot()
    anew = rebuilt(seen)
    assert anew == seen
    assert (anew.census, anew.shares()) == (seen.census, seen.shares())
    for kept in ("census", "index", "room"):
        assert getattr(anew, kept) is not getattr(seen, kept)


def test_sides_that_come_to_different_things_are_not_compared():
    answers = iter(range(10))
    with pytest.raises(DisagreementError, match="odd"):
        paired("odd", 1, lambda: next(answers), lambda: next(answers))


def scrape(*counts):
    """How many looks were late by at most 1 ms, 50 ms, and at all."""
    of = zip(("0.001", "0.05", "+Inf"), counts, strict=True)
    lines = [f'{LAG}_bucket{{le="{bound}"}} {count}' for bound, count in of]
    return "\n".join([f"# TYPE {LAG} histogram", *lines, ""])


def test_lag_is_that_of_the_looks_between_two_scrapes():
    lag = lag_in(scrape(0, 500, 1000), scrape(600, 1499, 2000))
    assert lag == Lag(1000, p50=0.001, p99=0.05, p999=0.05, max=math.inf)
    assert lag_in(scrape(0, 0, 7), scrape(3, 4, 11)) == Lag(4, 0.001, 0.05, 0.05, 0.05)

import math
from pathlib import Path

import pytest

import support
from kubedsm.optimizer.placing.immediate import rank_pods
from kubedsm.scheduling import decider as deciding
from kubedsm_lab.bench.instances import DisagreementError
from kubedsm_lab.bench.scale import holding
from kubedsm_lab.bench.scale.holding import HardBurst
from kubedsm_lab.bench.scale.lag import LAG, Lag, lag_in
from kubedsm_lab.bench.scale.paired import paired
from kubedsm_lab.bench.scale.run import run
from kubedsm_lab.bench.scale.world import Batch, Size, mirror, rebuilt


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
    waiting = Batch(200, 3).waiting()
    assert len({pod.pod_class for pod in waiting}) == 3
    assert rank_pods(waiting, 0.0, 60.0) is None


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


@pytest.mark.http
def test_all_pods_of_a_burst_are_bound_or_told_why_not_while_turns_are_timed(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(support.__file__).parents[1]))
    monkeypatch.setattr(deciding, "MOST", 20)
    bursts = HardBurst(15, 3), HardBurst(60, 20, 32_000)
    few, many = (held.as_json() for held in holding.run(Size(8, 40), bursts).held)
    assert few["bound"] == 15
    assert few["longestTurnMs"]["scheduler"] > 0
    assert 0 < many["bound"] < 60
    assert many["longestTurnMs"]["thoughts"] > 0
    for step in ("placing what was thought", "saying why not", "record", "snapshot"):
        assert many["longestStepMs"][step] > 0

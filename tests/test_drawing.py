"""A normal run draws a third of the instances; a long run all and fresh ones; failures are kept."""

from itertools import islice

import pytest

from support import drawing
from support.drawing import drawn


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "COUNTEREXAMPLES", tmp_path / "counterexamples.json")
    (tmp_path / "counterexamples.json").write_text("{}")
    monkeypatch.delenv(drawing.LONG, raising=False)


def test_a_normal_run_draws_one_seed_of_three_whose_remainders_differ():
    assert list(drawn(range(100, 114))) == [100, 104, 108, 109, 113]
    assert list(drawn(range(14), one_in=6)) == [0, 7]


def test_a_long_run_adds_as_many_fresh_seeds_that_its_base_repeats(monkeypatch):
    monkeypatch.setenv(drawing.LONG, "1")
    seeds = list(drawn(range(10)))
    assert seeds[:10] == list(range(10))
    assert len(set(seeds[10:])) == 10
    assert min(seeds[10:]) > 10
    assert list(drawn(range(10))) == seeds
    monkeypatch.setenv(drawing.LONG, "2")
    assert list(drawn(range(10))) != seeds


def test_a_seed_that_failed_is_a_case_of_every_later_run(request):
    test = request.node.nodeid
    assert list(islice(drawn(range(100)), 3)) == [0, 4, 8]
    assert drawing.last_seed(test) == 8
    drawing.keep_counterexample(test, 12345)
    drawing.keep_counterexample(test, 7)
    assert list(drawn(range(4))) == [7, 12345, 0]
    assert drawing.last_seed(test) is None

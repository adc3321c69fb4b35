"""What is said of a burst, on data small enough to work out by hand."""

import math

import pytest

from kubedsm_lab.bench.burst.result import summarize_evenness, summarize_times


def test_quantiles_are_interpolated_linearly_between_the_ranks_from_0_to_n_minus_1():
    # 0, 10, .. 100 ms: rank (11 - 1) p is at 100 p ms; the order they come in is nothing to it.
    said = summarize_times([n / 100 for n in (10, 3, 4, 5, 0, 6, 1, 7, 8, 2, 9)], 13)
    assert said == pytest.approx(
        {"mean": 50, "p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100, "missing": 2}
    )
    assert summarize_times([0.1, 0.2], 2)["p90"] == pytest.approx(190)
    assert summarize_times([], 3) == {"missing": 3}


def test_evenness_of_four_nodes():
    # Sum 10, squares 9 + 1 + 36 = 46; the population's variance 46 / 4 - 2.5^2 = 5.25.
    said = summarize_evenness([3, 1, 6, 0])
    assert said == pytest.approx(
        {
            "nodes": 4,
            "min": 0,
            "max": 6,
            "mean": 2.5,
            "std": math.sqrt(5.25),
            "cv": math.sqrt(5.25) / 2.5,
            "jain": 100 / (4 * 46),
        }
    )


@pytest.mark.parametrize(
    ("amounts", "jain"), [([5, 5, 5], 1), ([0, 7, 0, 0], 1 / 4), ([110, 90, 0, 0, 0], 0.396)]
)
def test_jain_is_1_if_all_got_the_same_and_1_of_n_if_one_got_everything(amounts, jain):
    said = summarize_evenness(amounts)
    assert said["jain"] == pytest.approx(jain, abs=1e-3)
    assert said["cv"] == pytest.approx(math.sqrt(max(0.0, 1 / said["jain"] - 1)), abs=1e-9)

"""What is said of bursts that are small enough to work out by hand."""

import math

import orjson
import pytest

from kubedsm_lab.baselines.score_cache import Why
from kubedsm_lab.bench.burst.result import (
    BurstResult,
    Round,
    Side,
    sections,
    standings,
    summarize_evenness,
    summarize_times,
)
from support.printed import printed


def rounds(*means, jain=1.0, pods=None):
    return [
        Round(
            {
                "watch.createdToBound.mean": mean,
                "watch.createdToBound.p99": 2 * mean,
                "watch.createdToBound.missing": 0.0,
                "api.createdToBound.mean": 1000.0,
                "onAllNodes.pods.jain": jain,
                "onNodesUsed.pods.jain": jain,
            },
            pods or {"n1": 3, "n2": 1},
        )
        for mean in means
    ]


RESULT = BurstResult(
    4,
    2,
    True,
    (
        Side("kubedsm", rounds(100.0, 300.0, 200.0)),
        Side("kube-scheduler", rounds(400.0, 400.0, 600.0, jain=0.8)),
        Side(
            "cache-scheduler",
            rounds(500.0, 100.0, 800.0),
            {Why.HIT: 9, Why.COLD: 1, Why.CONSUMED: 2},
        ),
    ),
)


def test_a_ratio_is_of_the_same_rounds_and_not_of_medians_and_says_who_is_ahead():
    first, _, third = RESULT.sides
    # 100 / 500, 300 / 100, 200 / 800; the medians' would be .4.
    assert first.ratios_to(third)["watch.createdToBound.mean"] == 0.25
    by_name = {standing.what: standing for standing in standings(RESULT)}
    mean = by_name["mean from created to bound"]
    assert mean.values == {"kubedsm": 200.0, "kube-scheduler": 400.0, "cache-scheduler": 500.0}
    assert mean.winners == ["kubedsm"]
    assert by_name["Jain's index of pods, all nodes"].winners == ["kubedsm", "cache-scheduler"]


def lines_of(result, title):
    return next(one.table[1] for one in sections(result) if one.title == title)


def test_table_3_stands_beside_ours_with_what_is_different():
    lines = lines_of(RESULT, "Beside what was published")
    assert ["kubedsm, by watch", "200.0", "400.0", "-", "-", "1.0000", "-"] in lines
    published = ["default, published", "1175.0", "2673.3", "4958.3", "8673.3", "0.9919", "0.090"]
    assert published in lines
    assert ["cache, published", "801.7", "2000.0", "4818.3", "8670.0", "0.9917", "0.091"] in lines
    assert "the kubelets are emulated" in " ".join(printed(RESULT.report().rendered, 100).split())


def test_passes_and_hits_of_a_cache_are_told_of_who_has_one():
    [line] = lines_of(RESULT, "Score caches")
    assert line == ["cache-scheduler", "3", "0.750", "9", "1", "0", "2", "0"]
    assert orjson.loads(orjson.dumps(RESULT.as_json()))["scoreCaches"] == {
        "cache-scheduler": {
            "passes": 3,
            "hitRate": 0.75,
            "looks": {"hit": 9, "cold": 1, "consumed": 2},
        }
    }
    without = BurstResult(4, 2, False, RESULT.sides[:2])
    shown = printed(without.report().rendered, 200)
    assert "Fullest nodes" in shown
    assert "Score caches" not in shown
    assert "emulated" not in shown


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

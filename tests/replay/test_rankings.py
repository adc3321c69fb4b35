"""Who wins, and by how much."""

import pytest

from kubedsm_lab.replay.rankings import Difference, Place, Ranking, everyone, ours_and_best

AHEAD, LEVEL, BEHIND = Place.AHEAD, Place.LEVEL, Place.BEHIND


def ranking(noise=0.0, *, less_is_better=True, **values):
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return Ranking("p99", "ms", less_is_better, named, noise)


@pytest.mark.parametrize(
    ("noise", "less", "ours", "theirs", "place"),
    [
        (0, True, 75, 100, AHEAD),
        (0, False, 75, 100, BEHIND),
        (0, True, 100, 100, LEVEL),
        (0.25, True, 75, 100, LEVEL),
        (0.25, True, 100, 75, LEVEL),
        (0.24, True, 75, 100, AHEAD),
        (0.24, True, 100, 75, BEHIND),
        (0.24, False, 100, 75, AHEAD),
    ],
)
def test_two_are_level_within_the_noise(noise, less, ours, theirs, place):
    found = ranking(noise, less_is_better=less, kubedsm=ours, other=theirs)
    assert found.difference.place is place
    assert (len(found.winners) == 2) is (place is LEVEL)


def test_ours_is_compared_with_the_best_of_the_others():
    found = ranking(kubedsm=60, cache_scheduler=40, kube_scheduler=50)
    assert found.difference == Difference("cache-scheduler", 60, 40, BEHIND)
    assert (found.difference.by, found.difference.percent) == (20, 50)
    assert found.ranked == ["cache-scheduler", "kube-scheduler", "kubedsm"]
    assert found.winners == ["cache-scheduler"]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_figure_that_is_not_known_is_left_out(value):
    with pytest.raises(ValueError, match="p99: a figure is not finite"):
        ranking(kubedsm=1, other=value)


def test_the_tables_of_several():
    both = [
        ranking(kubedsm=75.04, other=100),
        Ranking("Jain", "", less_is_better=False, values={"kubedsm": 0.99172, "third": 0.5}),
        ranking(kubedsm=1234.5, other=0),
        ranking(kubedsm=12.5, other=2),
        ranking(kubedsm=0, other=0),
    ]
    headings, lines = ours_and_best(both)
    assert len(headings) == len(lines[0])
    assert lines == [
        ["p99", "kubedsm: 75.04 ms", "other: 100 ms", "-24.96 ms (-25.0 %)", "ahead"],
        ["Jain", "kubedsm: 0.9917", "third: 0.5", "+0.4917 (+98.3 %)", "ahead"],
        ["p99", "kubedsm: 1,234 ms", "other: 0 ms", "+1234 ms", "behind"],
        ["p99", "kubedsm: 12.5 ms", "other: 2 ms", "+10.5 ms (6.2 times)", "behind"],
        ["p99", "kubedsm: 0 ms", "other: 0 ms", "0", "level"],
    ]
    assert everyone(both[:2]) == (
        ["figure", "kubedsm", "other", "third", "level within"],
        [
            ["p99, ms", "**75.04**", "100", "-", "0 %"],
            ["Jain", "**0.9917**", "-", "0.5", "0 %"],
        ],
    )


@pytest.mark.parametrize("values", [{}, {"kubedsm": 1}, {"other": 1}])
def test_nobody_is_compared_with_nobody(values):
    found = ranking(**values)
    assert found.difference is None
    assert ours_and_best([found])[1] == []

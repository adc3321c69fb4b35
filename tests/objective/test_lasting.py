"""How long a workload is expected to stay as it is, from how long it stayed before."""

import pytest

from kubedsm.objective.lasting import ASSUMED, FARTHEST, QuietPeriods, end_period


def after(*moments):
    """A workload that changed at these moments."""
    first, *later = moments
    periods = QuietPeriods(first)
    for moment in later:
        periods = end_period(periods, moment)
    return periods


def test_of_a_new_workload_a_minute_is_assumed_and_as_long_again_as_it_has_been_quiet():
    assert after(0.0).lasting(0.0) == ASSUMED
    assert after(0.0).lasting(240.0) == ASSUMED + 240.0


def test_what_always_stayed_for_so_long_is_expected_to_stay_for_the_rest_of_that():
    periods = after(*(90.0 * n for n in range(20)))
    now = periods.since
    for age in (0.0, 3.0, 30.0, 60.0):
        assert periods.lasting(now + age) == pytest.approx(90.0 - age, rel=0.2)
    assert after(*(10.0 * n for n in range(20))).lasting(190.0) < 20.0


def test_after_a_change_in_a_cluster_the_next_is_near_and_once_it_is_over_far():
    steps = [start + step for start in range(0, 1000, 100) for step in (0.0, 5.0, 10.0)]
    periods = after(*(float(step) for step in steps))
    within, over = periods.lasting(periods.since + 1.0), periods.lasting(periods.since + 12.0)
    assert within < 45.0
    assert over == pytest.approx(90.0 - 12.0, rel=0.2)
    assert over > 1.7 * within


def test_longer_quiet_than_ever_before_is_expected_to_go_on():
    periods = after(*(10.0 * n for n in range(20)))
    assert periods.lasting(periods.since + 100.0) > 100.0


def test_changes_within_a_second_are_one():
    periods = after(0.0, 90.0, 90.2, 90.4, 90.6)
    assert periods.lengths == (90.0,)
    assert periods.since == 90.6


def test_what_changes_now_counts_more_than_what_did_long_ago():
    slow, fast = [300.0 * n for n in range(8)], [2100.0 + 10.0 * n for n in range(1, 9)]
    assert after(*slow).lasting(2100.0) > 200.0
    assert after(*slow, *fast).lasting(2180.0) < 80.0


def test_little_is_remembered_and_nothing_is_expected_for_ever():
    periods = after(*(float(2 * n) for n in range(1000)))
    assert len(periods.lengths) <= 16
    assert after(0.0).lasting(1e9) == FARTHEST


def test_a_clock_that_goes_back_is_no_change_that_took_less_than_no_time():
    periods = after(100.0, 50.0)
    assert (periods.since, periods.lengths) == (100.0, ())
    assert periods.lasting(0.0) == ASSUMED

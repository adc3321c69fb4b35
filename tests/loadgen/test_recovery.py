"""When a service has recovered, on windows that are written down."""

import pytest

from loadgen.recovery import (
    FIND,
    FIND_SECONDS,
    HOLD_SECONDS,
    WINDOW_SECONDS,
    Recovery,
    Sla,
    Window,
    clients_to_hold,
    ok_rate,
    recovery,
)

SLA = Sla()


def windows(verdicts):
    """One window of 30 s after another, a letter each: good, or bad."""
    return [
        Window(30.0 * n, 30.0, 1000, {"g": 0.5, "b": 1.5}[verdict], 0)
        for n, verdict in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("verdicts", "streak", "found"),
    [
        ("", 1, Recovery("no_degradation", 0.0)),
        ("gggg", 1, Recovery("no_degradation", 0.0)),
        ("bbbb", 1, Recovery("no_recovery_within_hold", -1.0)),
        ("gggb", 1, Recovery("no_recovery_within_hold", -1.0)),
        ("bg", 1, Recovery("recovered", 60.0)),
        # What is good before the first bad one is no recovery, what is bad after it changes none.
        ("ggbbg", 1, Recovery("recovered", 150.0)),
        ("bbgbbb", 1, Recovery("recovered", 90.0)),
        ("bgbgg", 2, Recovery("recovered", 150.0)),
        ("ggbg", 2, Recovery("no_recovery_within_hold", -1.0)),
    ],
)
def test_a_service_has_recovered_at_the_end_of_the_first_streak_after_a_bad_window(
    verdicts, streak, found
):
    assert recovery(windows(verdicts), SLA, streak) == found


def test_time_counts_from_hold_s_start_to_a_window_s_end():
    held = [
        Window(1000.0, 31.5, 10, 2.0, 0),
        Window(1031.5, 30.5, 10, 0.9, 0),
    ]
    assert recovery(held, SLA) == Recovery("recovered", 62.0)


@pytest.mark.parametrize(
    ("p99", "requests", "errors", "good"),
    [
        (1.0, 100, 1, True),
        (1.001, 100, 0, False),
        (0.1, 100, 2, False),
        (0.1, 99, 1, False),
        (None, 0, 0, False),
        # Errors that came at once have no latency that counts.
        (None, 50, 50, False),
    ],
)
def test_a_window_is_good_within_both_bounds_if_anything_ended(p99, requests, errors, good):
    assert Window(0.0, 30.0, requests, p99, errors).good(SLA) is good


def test_a_window_s_p99_is_by_nearest_rank():
    latencies = [n / 100 for n in range(200, 0, -1)]
    assert Window.of(0.0, 30.0, 200, latencies, 0).p99 == 1.98
    assert Window.of(0.0, 30.0, 3, [0.1, 0.3, 0.2], 0).p99 == 0.3
    assert Window.of(0.0, 30.0, 3, [], 3).p99 is None


def test_the_first_stage_that_breaks_the_sla_is_held_else_the_last():
    stages = list(zip(FIND, windows("ggbgb"), strict=False))
    assert clients_to_hold(stages, SLA) == 30
    assert clients_to_hold(list(zip(FIND, windows("b"), strict=False)), SLA) == 10
    assert clients_to_hold(list(zip(FIND, windows("g" * 10), strict=True)), SLA) == 100
    assert clients_to_hold([], SLA) is None


def test_the_paper_s_set_up_and_its_ok_rates():
    assert (FIND[0], FIND[-1], FIND.step, FIND_SECONDS) == (10, 100, 10, 60.0)
    assert HOLD_SECONDS / WINDOW_SECONDS == 30
    # .40, .43 and .33 of Table 4 are 12, 13 and 10 windows of 30.
    rates = [ok_rate(windows("b" * (30 - n) + "g" * n), SLA) for n in (12, 13, 10)]
    assert [f"{rate:.2f}" for rate in rates] == ["0.40", "0.43", "0.33"]
    assert ok_rate([], SLA) is None

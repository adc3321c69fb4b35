import structlog
from structlog.testing import capture_logs

from kubedsm.process.log_throttle import MOST_CAUSES, PERIOD, LogThrottle, cause_of
from support.fixed_clock import FixedClock

log = structlog.get_logger()


def test_names_numbers_and_times_are_no_causes():
    one = cause_of('403 Forbidden: pods "web-a" is forbidden at 10:02: 5 of 4', "web-a")
    other = cause_of('403 Forbidden: pods "api" is forbidden at 11:40: 6 of 4', "api")
    assert one == other


def test_a_right_that_is_missing_is_one_cause_whatever_it_was_missing_for():
    said = '403 Forbidden: deployments.apps "{}" is forbidden: User "u" cannot {} resource "d"'
    one, other = cause_of(said.format("web", "get")), cause_of(said.format("api", "get"))
    assert one == other
    assert one != cause_of(said.format("web", "list"))


def test_another_status_or_another_word_is_another_cause():
    causes = {"403 Forbidden: quota", "422 Forbidden: quota", "403 Forbidden: webhook"}
    assert {cause_of(cause) for cause in causes} == causes


def test_a_name_that_is_part_of_a_word_is_no_name():
    assert cause_of("403 pods are refused", "a", "pod") == "403 pods are refused"


def test_a_cause_is_said_at_once_and_then_once_a_period_with_a_count():
    clock = FixedClock()
    throttle = LogThrottle(clock)
    with capture_logs() as lines:
        for second in range(int(2 * PERIOD) + 1):
            clock.seconds = float(second)
            throttle.log(log.warning, "refused", "403 no", pod=f"shop/web-{second}")
    assert [line.get("more") for line in lines] == [None, PERIOD - 1, PERIOD - 1]
    assert lines[0] == {
        "event": "refused",
        "log_level": "warning",
        "pod": "shop/web-0",
        "error": "403 no",
    }


def test_what_never_repeats_itself_is_bounded_too():
    clock = FixedClock()
    throttle = LogThrottle(clock)
    with capture_logs() as lines:
        for number in range(10_000):
            clock.seconds = number / 100
            throttle.log(log.warning, "refused", "403 " + "x" * (number % 1000))
    assert len(lines) <= 2 * MOST_CAUSES + 2
    assert len(throttle._lines) <= MOST_CAUSES + 1

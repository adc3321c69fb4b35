"""Durations; windows and freezes, against a literal reading by minutes, and by named moments."""

import math
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubedsm.config.calendar import (
    Calendar,
    Freeze,
    Window,
    format_time,
    parse_schedule,
    parse_time,
)
from kubedsm.config.documents import DocumentError
from kubedsm.config.duration import DurationError, format_duration, parse_duration
from kubedsm.config.settings import Configuration, dump, load
from kubedsm.model.model import Workload
from support.drawing import drawn_cases

MINUTE, DAY = 60.0, 86_400.0


def literally_open(window, moment):
    """Whether a minute that matches all fields began at most the duration ago."""
    schedule, zone = parse_schedule(window.schedule), ZoneInfo(window.time_zone)
    start = moment - moment % MINUTE
    while start > moment - window.duration:
        local = datetime.fromtimestamp(start, zone)
        day = local.day in schedule.days, (local.weekday() + 1) % 7 in schedule.weekdays
        if (
            local.minute in schedule.minutes
            and local.hour in schedule.hours
            and local.month in schedule.months
            and (any(day) if schedule.either_day else all(day))
        ):
            return True
        start -= MINUTE
    return False


def drawn_window(rng):
    fields = [
        rng.choice(["0", "30", "*/20", "5,50"]),
        rng.choice(["*", "2", "22", "8-10", "*/6"]),
        rng.choice(["*", "*", "1", "28-31", "*/9"]),
        rng.choice(["*", "*", "jan-mar", "2,10"]),
        rng.choice(["*", "*", "sun", "mon-fri", "7"]),
    ]
    zone = rng.choice(["UTC", "Asia/Kolkata"])
    return Window(" ".join(fields), rng.choice([20, 90, 480]) * MINUTE, zone)


@pytest.mark.parametrize("seed", drawn_cases(range(9)))
def test_the_next_opening_is_the_first_minute_that_is_literally_open(seed):
    rng = random.Random(seed)
    window = drawn_window(rng)
    freeze_from = parse_time("2026-02-27T00:00:00Z") + rng.randrange(48) * 3600
    texts = [
        datetime.fromtimestamp(freeze_from + hours * 3600, UTC).isoformat() for hours in (0, 7)
    ]
    calendar = Calendar((window,), (Freeze(*texts),))
    moment = parse_time("2026-02-27T00:00:00Z")
    opening, reason = calendar.find_opening(moment)
    for _ in range(2000):
        if moment == opening:
            assert literally_open(window, moment)
            assert not calendar.freezes[0].covers(moment)
            moment += MINUTE
            opening, reason = calendar.find_opening(moment)
            continue
        assert reason
        assert not literally_open(window, moment) or calendar.freezes[0].covers(moment)
        moment += MINUTE


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("schedule", "zone", "now", "opens"),
    [
        ("0 22 * * mon-fri", "UTC", "2026-11-28T12:00:00Z", "2026-11-30 22:00 UTC"),
        ("0 2 * * *", BERLIN, "2026-07-01T12:00:00Z", "2026-07-02 00:00 UTC"),
        # 02:30 does not exist on the day that the clocks go forward, and comes twice in autumn.
        ("30 2 * * *", BERLIN, "2026-03-28T23:00:00Z", "2026-03-29 01:30 UTC"),
        ("30 2 * * *", BERLIN, "2026-10-24T23:00:00Z", "2026-10-25 00:30 UTC"),
        ("0 0 29 feb *", "UTC", "2097-01-01T00:00:00Z", "2104-02-29 00:00 UTC"),
        ("0 0 13 * fri", "UTC", "2026-11-14T00:00:00Z", "2026-11-20 00:00 UTC"),
    ],
)
def test_a_window_opens_when_people_expect_it(schedule, zone, now, opens):
    opening, reason = Calendar((Window(schedule, 3600.0, zone),)).find_opening(parse_time(now))
    assert (format_time(opening), reason) == (opens, "outside of its windows")


def test_the_first_of_several_windows_counts_and_none_means_any_time():
    now = parse_time("2026-11-28T12:00:00Z")
    windows = (Window("0 22 * * *", 3600.0), Window("0 18 * * *", 3600.0))
    assert Calendar(windows).find_opening(now)[0] == now + 6 * 3600
    assert Calendar().find_opening(now) == (now, "")


def test_a_freeze_is_named_and_may_outlast_a_window():
    freeze = Freeze("2026-12-18T00:00:00+01:00", "2027-01-04T00:00:00+01:00")
    calendar = Calendar((Window("0 22 * * *", 3600.0),), (freeze,))
    opening, reason = calendar.find_opening(parse_time("2026-12-20T22:30:00Z"))
    assert (format_time(opening), reason) == ("2027-01-04 22:00 UTC", "frozen")


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-05:00"])
@pytest.mark.parametrize("windows", [(), (Window("0 22 * * *"),), (Window("0 0 29 2 *"),)])
def test_a_freeze_to_the_end_of_the_calendar_never_ends(windows, end):
    calendar = Calendar(windows, (Freeze("2026-12-18T00:00:00Z", end),))
    assert calendar.find_opening(parse_time("2026-12-20T22:30:00Z")) == (math.inf, "frozen")
    nearly = Calendar(windows, (Freeze("2026-12-18T00:00:00Z", "9989-12-31T23:59:59-05:00"),))
    opening, reason = nearly.find_opening(parse_time("2026-12-20T22:30:00Z"))
    assert (format_time(opening) > "9990", reason) == (True, "frozen")


def test_many_freezes_in_every_window_are_given_up():
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    days = [begin + timedelta(days=n) for n in range(120)]
    freezes = tuple(Freeze(day.isoformat(), (day + timedelta(hours=1)).isoformat()) for day in days)
    calendar = Calendar((Window("0 0 * * *", 1800.0),), freezes)
    assert calendar.find_opening(begin.timestamp()) == (math.inf, "frozen")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 22 * *", "'0 22 * *' is not five fields of a cron schedule, such as"),
        ("@daily", "is not five fields"),
        ("0 24 * * *", "'24' is no hour: 0 to 23"),
        ("0 0 * mai *", "'mai' is no month: 1 to 12"),
        ("0 0 31 2 *", "'0 0 31 2 *' never comes"),
        ("*/0 * * * *", "'*/0' includes no minute"),
        ("*/00 * * * *", "'*/00' includes no minute"),
        ("30-10 * * * *", "'30-10' includes no minute"),
        ("? * * * *", "'?' is no minute of a cron schedule"),
    ],
)
def test_a_wrong_schedule_is_refused_in_one_line(text, message):
    with pytest.raises(DocumentError) as refused:
        parse_schedule(text)
    assert message in str(refused.value)


DOCUMENT = """
migration:
  windows: {schedule: 0 22 * * *, duration: 6h, timeZone: Europe/Berlin}
  freezes: [{start: 2026-12-18T00:00:00Z, end: 2027-01-04T00:00:00Z}]
services:
  shop/*: {windows: []}
  shop/cart: {freezes: {start: 2026-11-27T00:00:00Z, end: 2026-11-28T00:00:00Z}}
"""


def test_windows_of_a_service_replace_and_freezes_add():
    configuration = load(DOCUMENT, "test")
    calendars = {
        name: configuration.calendar(Workload(*name.split("/")[:1], "Deployment", name[-4:]))
        for name in ("bank/main", "shop/main", "shop/cart")
    }
    assert [len(each.windows) for each in calendars.values()] == [1, 0, 0]
    assert [len(each.freezes) for each in calendars.values()] == [1, 1, 2]
    assert load(dump(configuration), "again") == configuration
    assert configuration.has_calendar
    assert not Configuration().has_calendar


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windows: [{duration: 1h}]", "migration.windows.0.schedule: '' is not five fields"),
        (
            "windows: {schedule: 0 0 * * *, timeZone: Mars}",
            "'Mars' is no time zone",
        ),
        ("windows: {schedule: 5}", "5 is no cron schedule, such as"),
        ("windows: {schedule: 0 0 * * *, duration: 8d}", "'8d' is not a duration"),
        ("freezes: {start: 2026-12-18}", "'2026-12-18' is not a time such as"),
        ("freezes: {start: [2026-12-18T00:00:00Z]}", "freezes.start: a list is not a time such as"),
        ("freezes: {start: 2026-12-18T00:00:00Z, end: 2026-12-17T00:00:00Z}", "is before"),
        ("budget: {perHour: 1}", "unknown key"),
    ],
)
def test_a_wrong_setting_names_place_and_remedy(text, message):
    with pytest.raises(DocumentError) as refused:
        load(f"migration: {{{text}}}", "test")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("0s", 0), ("500ms", 0.5), ("5ms", 0.005), ("1m30s", 90), ("10s", 10), ("1h", 3600)),
        *(("1h0m1s", 3601), ("1.5h", 5400), (".5s", 0.5), ("2.s", 2), ("100us", 1e-4)),
        *(("7ns", 7e-9), ("1s1s", 2), ("100\N{MICRO SIGN}s", 1e-4)),
        ("100\N{GREEK SMALL LETTER MU}s", 1e-4),
    ],
)
def test_what_go_writes(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "5", "1.5", "s", ".s", "-1s", "+1s", "1 s", " 1s", "1s ", "1s\n", "1d", "1S"),
        *("1min", "1m30", "1e3s", "infs", "\N{ARABIC-INDIC DIGIT ONE}s"),
        *("9" * 5000 + "s", "9" * 399 + "s"),
    ],
)
def test_everything_else_is_refused_in_one_short_line(text):
    with pytest.raises(DurationError) as refusal:
        parse_duration(text)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 150


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0s"), (0.005, "5ms"), (0.2, "200ms"), (1.5, "1.5s"), (10.0, "10s"), (60.0, "1m")),
        *((90.0, "1m30s"), (3600.0, "1h"), (3601.5, "1h1.5s"), (1e-9, "0.000001ms")),
    ],
)
def test_is_written_as_a_person_would(seconds, text):
    assert format_duration(seconds) == text


@given(st.floats(0, 1e9))
@example(math.pi)
@example(0.1 + 0.2)
@example(86399.99999999999)
def test_comes_back_exactly(seconds):
    assert parse_duration(format_duration(seconds)) == seconds

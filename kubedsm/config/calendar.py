"""Times when migrations may begin: windows (cron schedules with a duration), and freezes (absolute
periods).

A schedule has the five fields of crontab(5), as a CronJob of Kubernetes: numbers, names of months
and weekdays, `*`, lists, ranges and steps. If both days are restricted, either suffices. A local
time that a clock change skips is taken an hour later; of a repeated one the first counts.
"""

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo

import attrs

from kubedsm.config.documents import DocumentError, at, shown
from kubedsm.config.fields import (
    Kind,
    duration,
    section,
    setting,
    several,
    validate_fields,
)

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
#: name, lowest and highest value, and names of the values of each field
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)
_PART = re.compile(r"(?:\*|(\w{1,3})(?:-(\w{1,3}))?)(?:/(\d{1,2}))?", re.ASCII)
_EXAMPLE = 'such as "0 22 * * mon-fri"'
_EXAMPLE_TIME = "such as 2026-12-18T18:00:00+01:00"
#: days: the longest gap of a schedule that comes at all is 29 February, over a century's turn
_LONGEST_GAP = 8 * 366 + 1
#: year: before it, the longest gap ends within the calendar of datetime
_NEVER = 9990
#: changes between windows and freezes that a search for the next opening follows
_MOST_CHANGES = 100


@attrs.frozen
class Schedule:
    """Parsed cron schedule: allowed minutes, hours, days, months and weekdays."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    #: 0 is Sunday
    weekdays: frozenset[int]
    #: both days are restricted, so that one of them suffices
    either_day: bool

    def includes_day(self, day: date) -> bool:
        """Return True if the cron schedule has any start time on the day."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        matches = of_month or of_week if self.either_day else of_month and of_week
        return matches and day.month in self.months

    def list_starts(self, day: date, zone: tzinfo) -> list[float]:
        """Return the start times of the cron schedule on a local day, in seconds since the epoch,
        ascending.
        """
        if not self.includes_day(day):
            return []
        return sorted(
            datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()
            for hour in self.hours
            for minute in self.minutes
        )


@lru_cache(maxsize=256)
def parse_schedule(text: str) -> Schedule:
    """Parse a cron schedule of five fields. Raises DocumentError."""
    words = text.lower().split()
    if len(words) != len(_FIELDS):
        raise DocumentError(f"{shown(text)} is not five fields of a cron schedule, {_EXAMPLE}")
    minutes, hours, days, months, weekdays = (
        _parse_field(word, *field) for word, field in zip(words, _FIELDS, strict=True)
    )
    schedule = Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        not (words[2].startswith("*") or words[4].startswith("*")),
    )
    leap = date(2024, 1, 1)
    if not any(schedule.includes_day(leap + timedelta(days=n)) for n in range(_LONGEST_GAP)):
        raise DocumentError(f"{shown(text)} never comes")
    return schedule


def _parse_field(word: str, name: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    values: set[int] = set()
    for part in word.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise DocumentError(f"{shown(part)} is no {name} of a cron schedule, {_EXAMPLE}")
        first, last, step = found.groups()
        start = low if first is None else _parse_value(first, name, low, high, names)
        end = start if first is not None and not step else high
        end = end if last is None else _parse_value(last, name, low, high, names)
        width = int(step or 1)
        if not width or end < start:
            raise DocumentError(f"{shown(part)} includes no {name}")
        values.update(range(start, end + 1, width))
    return values


def _parse_value(word: str, name: str, low: int, high: int, names: dict[str, int]) -> int:
    value = names.get(word, int(word) if word.isdecimal() else -1)
    if not low <= value <= high:
        raise DocumentError(f"{shown(word)} is no {name}: {low} to {high}, {_EXAMPLE}")
    return value


@lru_cache(maxsize=256)
def find_zone(name: str) -> tzinfo:
    """Return the time zone of a name in the IANA database. Raises DocumentError."""
    if name == "UTC":
        return UTC  # also without a database
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise DocumentError(
            f"{shown(name)} is no time zone of the IANA database, such as Europe/Berlin"
        ) from None


@lru_cache(maxsize=1024)
def parse_time(text: str) -> float:
    """Parse RFC 3339 with an offset to seconds since the epoch; inf from year 9990 on: Python's
    calendar ends soon after. Raises DocumentError.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise DocumentError(f"{shown(text)} is not a time {_EXAMPLE_TIME}")
    return moment.timestamp() if moment.year < _NEVER else math.inf


def format_time(moment: float) -> str:
    """Return a moment, in seconds since the epoch, for messages: `2026-12-18 17:00 UTC`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _parsed_text(parse: Callable[[str], object], what: str, unlike: str) -> Kind:
    """Field type for configurations: text that can be parsed; `unlike`: what a number is."""

    def check_text(value: object) -> None:
        if not isinstance(value, str):
            raise DocumentError(f"{shown(value)} is {unlike}")
        parse(value)

    return Kind(check_text, {"type": ["string", "null"], "description": what})


_SCHEDULE = _parsed_text(
    parse_schedule, f"a cron schedule, {_EXAMPLE}", f"no cron schedule, {_EXAMPLE}"
)
_ZONE = _parsed_text(
    find_zone, "a time zone, such as Europe/Berlin", "no time zone, such as Europe/Berlin"
)
_TIME = _parsed_text(parse_time, f"a time, {_EXAMPLE_TIME}", f"not a time {_EXAMPLE_TIME}")


@attrs.frozen(field_transformer=validate_fields)
class Window:
    """Recurring period (cron schedule with a duration) in which migrations may begin."""

    #: required, as the times of a freeze
    schedule: str = setting("", _SCHEDULE)
    #: seconds
    duration: float = setting(3600.0, duration("1m", "168h"))
    time_zone: str = setting("UTC", _ZONE)

    def find_next_start(self, moment: float) -> float:
        """Return `moment` if within the migration window, else the window's next start; inf after
        the calendar's end.
        """
        starts = (start for start in self.list_starts(moment) if moment < start + self.duration)
        return max(moment, next(starts, math.inf))

    def list_starts(self, moment: float) -> Iterator[float]:
        """Yield the starts of the window, ascending, from those on that may include the moment."""
        schedule, zone = parse_schedule(self.schedule), find_zone(self.time_zone)
        day = datetime.fromtimestamp(moment - self.duration, zone).date()
        for offset in range(-1, _LONGEST_GAP + int(self.duration // 86_400) + 1):
            yield from schedule.list_starts(day + timedelta(days=offset), zone)


@attrs.frozen(field_transformer=validate_fields)
class Freeze:
    """Period in which no migration begins."""

    start: str = setting("", _TIME)
    end: str = setting("", _TIME)

    def __attrs_post_init__(self) -> None:
        if parse_time(self.end) < parse_time(self.start):
            with at("end"):
                raise DocumentError(f"{self.end} is before the start, {self.start}")

    def covers(self, moment: float) -> bool:
        return parse_time(self.start) <= moment < parse_time(self.end)


WINDOWS, FREEZES = several(section(Window), least=0), several(section(Freeze), least=0)


@attrs.frozen
class Calendar:
    """Migration windows and freezes of a workload; without windows migrations may begin at any
    time.
    """

    windows: tuple[Window, ...] = ()
    freezes: tuple[Freeze, ...] = ()

    def find_opening(self, moment: float) -> tuple[float, str]:
        """Return `moment` if migrations may begin then; else the next time at which they may, and
        the reason for the delay.
        """
        reason, opening = "", moment
        for _ in range(_MOST_CHANGES):
            frozen = [parse_time(f.end) for f in self.freezes if f.covers(opening)]
            start = min((w.find_next_start(opening) for w in self.windows), default=opening)
            later = max((*frozen, start))
            reason = reason or ("frozen" if frozen else "outside of its windows")
            if later in (opening, math.inf):
                return later, "" if later == moment else reason
            opening = later
        return math.inf, reason

    def is_open_throughout(self, moment: float, until: float) -> bool:
        """Return True if migrations may begin at any time of a period: no freeze begins in it, and
        windows follow each other without a gap.
        """
        if any(parse_time(f.start) <= until and moment < parse_time(f.end) for f in self.freezes):
            return False
        periods = sorted(
            (start, start + window.duration)
            for window in self.windows
            for start in takewhile(lambda start: start <= until, window.list_starts(moment))
        )
        end = moment
        for start, ends_at in periods:
            end = max(end, ends_at) if start <= end else end
        return end > until or not self.windows

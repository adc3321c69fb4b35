"""Log throttle: one line per cause and period, then with the number of suppressed lines."""

import re
from collections.abc import Callable

import attrs

from kubedsm.process.clock import Clock

#: seconds between two lines for one cause
PERIOD = 60.0
#: distinct causes; further causes share one line
MOST_CAUSES = 100
#: leading characters of a message that tell its cause
_PREFIX = 300
#: times, amounts, and generated names
_VARIES = re.compile(r"(?<!\S)[^\s\d]*\d\S*")
#: API servers quote the object before "is forbidden"
_FORBIDDEN_NAME = re.compile(r'"[^"]*"(?= is forbidden\b)')


def cause_of(message: str, *names: str) -> str:
    """Return the message without `names`, numbers and times, to compare causes.

    The first word stays: it is the status of a response.
    """
    text = _FORBIDDEN_NAME.sub("…", message[:_PREFIX])
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "…", text)
    first, space, rest = text.partition(" ")
    return first + space + _VARIES.sub("…", rest)


@attrs.define
class _Line:
    until: float
    #: lines suppressed since
    more: int = 0


class SaidByCause:
    """Suppressor of log lines whose cause was logged within `PERIOD`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}

    def log(
        self, write: Callable[..., object], event: str, error: Exception | str, **about: str
    ) -> None:
        """Log by a logger's method, unless the cause was logged a moment ago."""
        names = [name for value in about.values() for name in value.split("/")]
        more = self.count_suppressed(event, cause_of(str(error), *names))
        if more is not None:
            counted = {"more": more} if more else {}
            write(event, **about, error=str(error), **counted)

    def count_suppressed(self, event: str, cause: str) -> int | None:
        """Return the number of lines suppressed since the last one; None: suppress this one."""
        now = self._clock.monotonic()
        line = self._lines.get((event, cause)) or self._begin_line((event, cause), now)
        if now < line.until:
            line.more += 1
            return None
        suppressed, line.more = line.more, 0
        line.until = now + PERIOD
        return suppressed

    def _begin_line(self, cause: tuple[str, str], now: float) -> _Line:
        if len(self._lines) >= MOST_CAUSES:
            self._lines = {c: line for c, line in self._lines.items() if now < line.until}
        if len(self._lines) >= MOST_CAUSES:
            cause = (cause[0], "any other")
        return self._lines.setdefault(cause, _Line(until=now))

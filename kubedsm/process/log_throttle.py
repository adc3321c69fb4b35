"""Log throttle: one line per cause and period, including the number of suppressed lines."""

import re
from collections.abc import Callable

import attrs

from kubedsm.process.clock import Clock

#: seconds between lines of identical cause
PERIOD = 60.0
#: maximum number of distinct causes; additional causes share one line
MOST_CAUSES = 100
#: significant characters at the beginning of a message
_PREFIX = 300
#: timestamps, amounts, and generated names
_VARIES = re.compile(r"(?<!\S)[^\s\d]*\d\S*")
#: API servers quote the object before "is forbidden"
_FORBIDDEN_NAME = re.compile(r'"[^"]*"(?= is forbidden\b)')


def cause_of(message: str, *names: str) -> str:
    """Return an error message without names, numbers and timestamps, to recognise the same cause.

    The first word is retained: HTTP responses begin with the status.
    """
    text = _FORBIDDEN_NAME.sub("…", message[:_PREFIX])
    for name in filter(None, names):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "…", text)
    first, space, rest = text.partition(" ")
    return first + space + _VARIES.sub("…", rest)


@attrs.define
class _Line:
    until: float
    #: number of suppressed lines
    more: int = 0


class LogThrottle:
    """Log throttle that suppresses lines with a cause already logged within `PERIOD` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}

    def log(
        self, write: Callable[..., object], event: str, error: Exception | str, **about: str
    ) -> None:
        """Log an error by the given logger method, unless the same cause was recently logged."""
        names = [name for value in about.values() for name in value.split("/")]
        more = self.count_suppressed(event, cause_of(str(error), *names))
        if more is not None:
            counted = {"more": more} if more else {}
            write(event, **about, error=str(error), **counted)

    def count_suppressed(self, event: str, cause: str) -> int | None:
        """Return the number of lines suppressed before; None to suppress the current line."""
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

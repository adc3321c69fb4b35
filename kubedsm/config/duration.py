"""Durations in Go's notation: `500ms`, `10s`, `1m30s`.

Grammar: Go's time.ParseDuration without signs and without the bare `0`: every duration names its
unit.
"""

import re
from decimal import Decimal
from fractions import Fraction

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "\N{MICRO SIGN}s": Fraction(1, 10**6),
    "\N{GREEK SMALL LETTER MU}s": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(
    rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(sorted(_UNITS, key=len, reverse=True))})", re.ASCII
)
#: regular expression for configuration schemas
DURATION = rf"^(?:{_PART.pattern})+$"
#: characters: exact arithmetic becomes expensive for longer text
_LONGEST_TEXT = 400
_SHOWN = 40


class DurationError(ValueError):
    """Error: the text is not a duration in Go's notation."""


def parse_duration(text: str) -> float:
    """Return the duration in seconds, as the nearest float.

    Raises DurationError.
    """
    seconds = Fraction(0)
    position = 0
    while len(text) <= _LONGEST_TEXT and (part := _PART.match(text, position)):
        seconds += Fraction(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not text or position < len(text):
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        raise DurationError(f"{shown!r} is not a duration, such as 500ms, 10s or 1m30s")
    try:
        return float(seconds)
    except OverflowError:
        raise DurationError(f"{text[:_SHOWN]!r}... is too long a time") from None


def format_duration(seconds: float) -> str:
    """Return the notation of finite, non-negative seconds: the inverse of `parse_duration`."""
    exact = Decimal(repr(seconds))
    if exact == 0:
        return "0s"
    if exact < 1:
        return f"{_format_plain(exact.scaleb(3))}ms"
    minutes, rest = divmod(exact, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{_format_plain(amount)}{unit}" for amount, unit in parts if amount)


def _format_plain(amount: Decimal) -> str:
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

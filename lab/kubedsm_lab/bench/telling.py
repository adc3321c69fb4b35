"""Figures in words: with their units, in no more digits than they are good for, and marked."""

import math

#: of a figure, and of a ratio, which is good for less
_DIGITS, _OF_RATIOS = 3, 2
#: seconds from which on it is told in minutes
_LONG = 120


def figure(value: float, digits: int = _DIGITS) -> str:
    """Of so many digits that count, all of them before the point."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def span(seconds: float) -> str:
    if seconds >= _LONG:
        return f"{figure(seconds / 60)} minutes"
    if seconds >= 1:
        return f"{figure(seconds)} s"
    if seconds >= 0.001:  # noqa: PLR2004
        return f"{figure(1e3 * seconds)} ms"
    return f"{figure(1e6 * seconds)} µs"


def times_as_long(ratio: float) -> str:
    return f"{figure(ratio, _OF_RATIOS)} times as long"


def many(number: int, what: str) -> str:
    """Such as `1 pod` and `5,000 pods`."""
    more = "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{'' if number == 1 else more}"


def extrapolated(run: int, of: int, what: str) -> str:
    """What stands behind a figure that was measured on a part; nothing if it was on all."""
    return f" (extrapolated from {run:,} of {of:,} {what})" if run < of else ""

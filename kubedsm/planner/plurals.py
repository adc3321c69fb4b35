"""Wording of counts, sentences and abbreviated lists, such as `3 pods` and `a, b and 2 more`."""

from collections.abc import Sequence

#: things that are named where there are many
_NAMED = 3


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sentence(text: str) -> str:
    """Return the text with a capital letter at its beginning, and one full stop at its end."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def short_number(number: float) -> str:
    """Format a number with three significant digits, and all digits before the point: `1234`."""
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:.0f}"  # noqa: PLR2004


def named(names: Sequence[str]) -> str:
    """Join the first few names, and the number of remaining names, for a message: `a, b, c and 2
    more`.
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

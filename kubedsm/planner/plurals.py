"""Wording of counts and abbreviated lists in messages, such as `3 pods` and `a, b and 2 more`."""

from collections.abc import Sequence

#: things that are named where there are many
_NAMED = 3


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def named(names: Sequence[str]) -> str:
    """Join the first few names, and the number of remaining names, for a message: `a, b, c and 2
    more`.
    """
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

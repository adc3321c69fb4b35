"""Numbers of things, and their names, as sentences have them."""

from collections.abc import Sequence

#: things that are named where there are many
_NAMED = 3


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def named(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")

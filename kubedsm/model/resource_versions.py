"""Which of two states of an object is the older one, as far as their resourceVersions tell.

Versions are compared as numbers, and only if both are; of others only equality means anything.
"""

#: digits of a 64-bit number
_DIGITS = 20


def is_older(version: str, other: str) -> bool:
    """True if it is known to be older; never for versions that are not numbers."""
    ours, theirs = _version_number(version), _version_number(other)
    return ours is not None and theirs is not None and ours < theirs


def _version_number(version: str) -> int | None:
    digits = len(version) <= _DIGITS and version.isascii() and version.isdigit()
    return int(version) if digits else None

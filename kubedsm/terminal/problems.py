"""Base class of user-facing errors, reported in a single line, and texts for such lines."""

import errno
import os


class Problem(Exception):
    """User-facing error with an external cause: single-line message, exit code 1."""


def explain_refusal(error: OSError) -> str:
    """Return why asyncio cannot listen on an address, without the address, which its text repeats.

    A failed name resolution has no errno text. From Python 3.13 on there is no errno for an address
    that the machine does not have.
    """
    number = error.errno or errno.EADDRNOTAVAIL
    return os.strerror(number) if number > 0 else str(error.strerror)

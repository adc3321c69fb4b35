"""Base class of user-facing errors, reported in a single line."""


class Problem(Exception):
    """User-facing error with an external cause: single-line message, exit code 1."""

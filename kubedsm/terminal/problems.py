"""Base class of user-facing errors, reported in a single line."""


class Problem(Exception):
    """External failure: single-line message, exit code 1."""

"""Base class of errors that end a command with one line."""


class Problem(Exception):
    """Failure outside of this program: one line for the user, exit code 1."""

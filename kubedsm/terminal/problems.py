"""The error of which a user is told in one line."""


class Problem(Exception):
    """What goes wrong outside of us: a line for the user, exit code 1."""

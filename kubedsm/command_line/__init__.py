"""What each command can be called with, and what its help says; nothing of what it does.

That is imported when it is done: `--help` and the completion of a shell, which ask for all of
these modules, need none of it.
"""

"""What an operator may set: the document, what is read from it, and what is wrong with it.

Nothing here knows a cluster; what changes while a scheduler runs is in `current` alone.
"""

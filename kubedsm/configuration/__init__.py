"""What an operator may set: the document, what is read from it, and what is wrong with it.

Nothing here knows a cluster; nothing here changes while a scheduler runs.
"""

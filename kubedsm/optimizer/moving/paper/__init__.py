"""The suggester of the paper (Algorithms 2 to 6), under its names.

Compared with, not improved on: what is better is in the room above.
"""

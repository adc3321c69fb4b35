"""The cluster as values: pods, nodes, what surrounds them, the mirror that follows them.

No rule and no wish: what is so, not what may be or should be.
"""

"""What everything costs at a size: a cluster of so many nodes and pods, made anew for each.

Beside what runs: a form of it that rebuilds all it looks at, as if nothing were kept along.
"""

"""Pods into nodes: the problem as arrays, and the algorithms that fill it.

Nothing here knows workloads' shares, or what runs already.
"""

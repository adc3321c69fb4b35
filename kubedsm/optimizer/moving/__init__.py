"""Pods that run: which moves are worth their disruption, and in which order they can go.

Nothing here places new pods but by the way.
"""

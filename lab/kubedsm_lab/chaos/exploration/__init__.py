"""Exhaustive exploration of plans in an unreliable cluster: all states after any order of events,
crashes and restarts.
"""

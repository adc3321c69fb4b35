"""Replay of load scenarios in virtual time, and recording of clusters: measures and plots.

Measurements never influence decisions.
"""

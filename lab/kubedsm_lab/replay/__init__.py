"""Scenarios in virtual time, or recorded on a cluster: policies side by side, measured and drawn.

What is measured here never changes how it is decided.
"""

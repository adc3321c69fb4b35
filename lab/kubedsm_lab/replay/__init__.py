"""Scenarios in virtual time, or recorded on a cluster: policies compared, measured and plotted.

Measurements never influence decisions.
"""

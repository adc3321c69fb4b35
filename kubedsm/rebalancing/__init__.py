"""Rebalancing of running pods: periodic migration suggestions, capacity packing, and the measured
effect of migrations.
"""

"""Load-aware placing and its published measurements: p95 by users, for three loads.

The scheduler runs on an emulated cluster; response latencies are modelled.
"""

"""Load-aware experiment: p95 latencies by number of users, next to the published ones.

The scheduler runs on an emulated cluster; response latencies are modelled.
"""

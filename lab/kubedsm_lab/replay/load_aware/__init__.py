"""Load-aware placing beside what its paper published: p95 against users, for three loads.

The scheduler runs on an emulated cluster; what requests take there is a model of it.
"""

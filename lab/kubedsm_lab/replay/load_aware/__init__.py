"""Load-aware placing and its published figures: p95 by users, for three loads.

The scheduler runs on an emulated cluster; response times are modelled.
"""

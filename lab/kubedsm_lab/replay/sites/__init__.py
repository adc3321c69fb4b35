"""Multi-site experiment: requests served near their users, over a day with wandering peaks.

The scheduler runs on an emulated cluster; users, traffic and response latencies are modelled.
"""

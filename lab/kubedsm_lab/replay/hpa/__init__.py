"""Service with more clients than it can serve, until its autoscaler has caught up.

Scheduler and autoscaler run on an emulated cluster; the clients' view is modelled.
"""

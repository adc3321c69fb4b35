"""A service under more clients than it can serve, until its autoscaler has caught up.

The scheduler and the autoscaler run on an emulated cluster; what the clients see is a model of it.
"""

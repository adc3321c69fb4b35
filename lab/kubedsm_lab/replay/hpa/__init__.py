"""Autoscaler experiment: an overloaded service, until its autoscaler has restored it.

Scheduler and autoscaler run on an emulated cluster; the clients' view is modelled.
"""

"""Emulated cluster: an in-memory API server, controllers and kubelets, over HTTP or in process.

It does not depend on the scheduler, which cannot tell it from a real cluster.
"""

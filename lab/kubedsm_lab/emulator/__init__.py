"""Emulated cluster: an in-memory API server, controllers and kubelets, over HTTP or in process.

The emulator is independent of the scheduler, and indistinguishable from a real cluster.
"""

"""Emulated Kubernetes cluster: in-memory API server, controllers and kubelets.

Clients use it over HTTP or in process. The emulator does not depend on the scheduler, which cannot
tell it from a real cluster.
"""

"""An emulated cluster: an API server in memory, controllers and kubelets on it, over HTTP or not.

It knows nothing of the scheduler, which cannot tell it from a real one.
"""

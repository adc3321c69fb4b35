"""Controllers and kubelets: reconciliation loops that watch the store.

Components communicate only through the API.
"""

"""Controllers and kubelets: each watches the store and acts on it, as the real ones do.

They call only the API, never each other.
"""

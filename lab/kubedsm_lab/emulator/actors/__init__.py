"""Controllers and kubelets: each watches the store and acts on it, as the real ones do.

They speak to the API only, and never to each other.
"""

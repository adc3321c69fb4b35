"""KubeDSM: an edge-cloud batch scheduler and migration controller for Kubernetes and K3s."""

__version__ = "0.1.0"

"""A Kubernetes cluster in memory: an API server, its controllers, its kubelets."""

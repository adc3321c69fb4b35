"""Kubernetes client: connections, reflectors, decoding, writes."""

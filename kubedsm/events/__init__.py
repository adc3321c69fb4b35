"""Kubernetes Events and pod conditions that users read."""

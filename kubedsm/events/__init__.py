"""Kubernetes Events and pod conditions that users read, and the handle of all controllers."""

"""The only package that speaks Kubernetes.

Nothing here decides anything.
"""

"""Plan state machines: every step of a bind or migration is verified by observations.

An API response alone proves nothing. Pure: ids and times go in, effects come out. Independent of
Kubernetes.
"""

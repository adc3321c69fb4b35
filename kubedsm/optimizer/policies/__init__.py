"""Scheduling policy protocol, and the KubeDSM policy, which combines the optimizer's packages."""

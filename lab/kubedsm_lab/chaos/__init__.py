"""Fault injection: one fault at one point of a run, and invariants that must hold all the same.

Runs are in virtual time on the emulated cluster, and can be repeated exactly. The scheduler is
judged only by its requests and the state of the cluster.
"""

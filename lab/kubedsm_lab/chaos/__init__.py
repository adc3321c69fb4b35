"""Fault injection: a single fault at an injection point of a run, and invariants.

Runs are in virtual time on the emulated cluster, and exactly repeatable. Schedulers are judged only
by requests and by the state of the cluster.
"""

"""Chaos tests: one fault or two at injection points of a run, and invariants checked throughout.

Runs are in virtual time on the emulated cluster, and exactly repeatable. Schedulers are judged only
by their requests and by the state of the cluster.
"""

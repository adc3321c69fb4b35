"""Benchmarks: operations of KubeDSM, timed next to known-correct alternatives."""

"""Benchmarks: what KubeDSM does, timed next to a form of it that is known to be right."""

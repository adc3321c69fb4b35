"""Benchmarks of KubeDSM's operations, each compared with an alternative implementation."""

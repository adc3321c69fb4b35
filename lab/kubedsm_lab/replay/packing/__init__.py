"""Packing experiment: full clusters as in "Priority Matters" (arXiv 2511.08373).

Instances are computed on snapshots: nothing is emulated or measured on a cluster.
"""

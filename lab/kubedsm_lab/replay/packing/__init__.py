"""Pods packed into whole clusters: the experiment of "Priority Matters" (arXiv 2511.08373).

All of it is computed on snapshots: nothing is emulated, and nothing measured on a cluster.
"""
